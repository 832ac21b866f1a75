//! Weights in motion: published, adopted, saved and loaded. The set itself is [`components::Weights`].
//!
//! [`components::Weights`]: crate::components::Weights

mod elements;
mod file;
mod handle;
mod header;
mod joins;
mod models;
mod names;
mod source;
mod sync;
mod watch;

pub use file::MAX_FILE;
pub use handle::WeightsHandle;
pub use models::Models;
pub use names::{MAX_NAMES_FILE, NameMap};
pub(crate) use source::FileSource;
pub use source::{WeightSync, WeightsSource};
pub(crate) use sync::{Source, WeightsSources, confirm_adoption, sync_weights};
pub use watch::WeightsFile;
