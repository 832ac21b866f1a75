//! Replay: frames and trajectories that learners draw from while collectors write.

mod append;
mod buffer;
mod cells;
mod claim;
mod draws;
mod edit;
mod gather;
mod index;
mod limiter;
pub mod query;
mod read;
mod ring;
mod sample;
pub mod sampler;
mod sampling;
mod top;
mod view;
mod write;

pub use buffer::{Capacity, Replay, ReplayConfig, ReplayStats};
pub(crate) use claim::Claim;
pub use edit::{Newer, Patch, Updated};
pub use limiter::{Limiter, LimiterStats};
pub use read::Stored;
pub use sample::Sample;
pub use sampling::{Sampler, SamplerBuilder};
pub use top::TopTrajectories;
pub use write::Written;
