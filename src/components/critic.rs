//! What batches ask of the policy that made them, without knowing it.

use crate::{error::Error, task::Task};

/// Gives values to observations outside a tick.
pub trait Critic<T: Task>: Send + Sync {
    /// The value of each observation under the newest adopted weights. `policies` says which policy each is of; empty if
    /// there is one; `workers` which worker's row it is of, 0 inline. A recurrent policy is given the state that each one
    /// meets, `[observations, state_width]`. Errors: [`Error::State`] if no policy gives values; those of the device.
    fn values(
        &self,
        policies: &[u32],
        workers: &[u16],
        observations: &[T::Observation],
        states: &mut [f32],
    ) -> Result<Vec<f32>, Error>;

    /// Numbers of a row's recurrent state, of several policies the most; 0 for policies without memory.
    fn state_width(&self) -> usize;
}
