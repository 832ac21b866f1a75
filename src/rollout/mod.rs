//! Rollouts: what ticks write, and what batches are made of.

mod assemble;
mod batch;
mod block;
mod chain;
mod chunks;
mod column;
pub mod estimate;
#[cfg(feature = "arrow")]
mod export;
mod frames;
mod held;
mod memory;
mod merge;
mod pieces;
mod pool;
mod ready;
mod record;
mod report;
mod saved;
mod select;
mod split;
mod state;
mod trajectories;
mod transpose;

pub use batch::Batch;
pub use block::Layout;
pub use chain::{Chain, Estimate, Link, VTrace};
pub use select::Minibatches;
pub use state::RewardTransform;

pub(crate) use assemble::assemble;
pub(crate) use batch::column_array;
pub(crate) use block::Block;
pub(crate) use frames::BlockFrames;
pub(crate) use merge::{Merge, Place};
pub(crate) use pieces::Assembly;
pub(crate) use pool::ArenaPool;
pub(crate) use record::{in_order, record};
pub(crate) use report::report;
pub(crate) use saved::SavedRollout;
pub(crate) use state::{Columns, Ended, Rollout, with_rollout};
pub use trajectories::EpisodeEnded;
pub(crate) use trajectories::TrajectoryPool;
