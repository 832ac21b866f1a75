//! What becomes of a collection when an environment fails.

use serde::{Deserialize, Serialize};

/// What is done when an environment panics, cannot start an episode, or takes longer than its deadline. A fault in the
/// first factories is an error of `build()` all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FaultPolicy {
    /// The collection ends with an error that names worker, row, episode, step and seed.
    #[default]
    Stop,
    /// The row gets a new environment from its factory and goes on in a new episode. The frame that failed is discarded
    /// and counted; the episode ends at the frame before it, truncated by the fault or the deadline. Other rows notice
    /// nothing. The environment that failed is dropped when the new one has started; one that a pool steps, before.
    RestartRow {
        /// Faults of a row, without a frame of it between them, after which the collection ends: with the first of their
        /// errors.
        retries: u32,
    },
}
