//! Replay: frames and trajectories that learners draw from while collectors write.

mod append;
mod buffer;
mod cells;
mod draws;
mod gather;
mod index;
mod read;
mod ring;
mod sample;
pub mod sampler;
mod sampling;
mod view;
mod write;

pub use buffer::{Capacity, Replay, ReplayConfig, ReplayStats};
pub use read::Stored;
pub use sample::Sample;
pub use sampling::{Sampler, SamplerBuilder};
