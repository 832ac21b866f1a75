//! Weights in motion: published, adopted, saved and loaded. The set itself is [`components::Weights`].
//!
//! [`components::Weights`]: crate::components::Weights

mod file;
mod handle;
mod sync;

pub use file::MAX_FILE;
pub use handle::WeightsHandle;
pub(crate) use sync::{WeightsSource, confirm_adoption, sync_weights};
