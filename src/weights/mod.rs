//! Weights in motion: published, adopted, saved and loaded. The set itself is [`components::Weights`].
//!
//! [`components::Weights`]: crate::components::Weights

mod file;
mod handle;

pub use file::MAX_FILE;
pub use handle::WeightsHandle;
