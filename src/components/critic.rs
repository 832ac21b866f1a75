//! What batches ask of the policy that made them, without knowing it.

use crate::{error::Error, task::Task};

/// Gives values to observations outside a tick.
pub trait Critic<T: Task>: Send + Sync {
    /// The value of each observation under the newest adopted weights.
    fn values(&self, observations: &[T::Observation]) -> Result<Vec<f32>, Error>;
}
