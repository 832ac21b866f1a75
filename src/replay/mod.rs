//! Replay: frames and trajectories that learners draw from while collectors write.
//!
//! # Checkpoints
//!
//! [`Replay::save`] writes a buffer and the samplers that draw from it, [`Replay::load`] reads them into new ones, whose
//! samples are then the same bits as if nothing had happened. The file, all numbers little-endian:
//!
//! ```text
//! "glnrplay" · version 2 (u32) · byte order (u32) · blocks: length (u32) · CRC-32 so far (u32) · bytes
//! ```
//!
//! Blocks have up to 64 KiB, one of length 0 is the last. A checksum is over everything before it, its own length and its
//! bytes. What the blocks carry, one behind the other, is in [postcard](https://postcard.jamesmunns.com)'s format or, where
//! it says bytes, as it lies in memory:
//!
//! 1. the buffer: columns (name, fields, stride, leads), ragged columns (name, element type) and how many elements each
//!    keeps, capacity, window (numbers of the oldest frame and of the next one), frames that are not counted, edits by
//!    column, counters of the limiter, frames of a chunk; nothing before the first write,
//! 2. the index of trajectories, then the observation that follows the newest frame of each of its records: bytes,
//! 3. how much is saved with the buffer, and of each whether it is a sampler, a mixture (its shares, its place in its random
//!    numbers) or hindsight (its options, its place), then the number of its samplers of this buffer, and of each how it
//!    draws, its n-step returns, its place in its random numbers, its own state if it has drawn, and the samples that it
//!    has prepared ahead if it does that,
//! 4. chunks of frames, the oldest first: of each column, and last of the records that the frames belong to (u32), the
//!    values: bytes; then of each ragged column the lengths of the frames' lists (u64) and their elements: bytes. A buffer
//!    that holds no frame has one frame of zeros here, with empty lists.

mod append;
mod buffer;
mod cells;
mod claim;
mod draws;
mod edit;
#[cfg(feature = "arrow")]
mod export;
mod gather;
mod ids;
#[cfg(feature = "arrow")]
mod import;
mod incoming;
mod index;
mod lap;
mod limiter;
mod lists;
mod load;
mod mapped;
mod prefetch;
pub mod query;
mod ragged;
mod read;
mod ring;
mod sample;
pub mod sampler;
mod sampling;
mod save;
mod sync;
mod top;
mod transform;
mod turns;
mod view;
mod write;

pub use buffer::{Capacity, Replay, ReplayConfig, ReplayStats, Storage};
pub(crate) use claim::Claim;
pub use edit::{Newer, Patch, Updated};
pub use incoming::{Incoming, WriteTransform};
pub use limiter::{Limiter, LimiterStats};
pub use lists::Ragged;
pub use prefetch::Prefetch;
pub use read::Stored;
pub use sample::Sample;
pub use sampling::{Sampler, SamplerBuilder, Saved};
pub use top::TopTrajectories;
pub use transform::Transform;
pub use write::Written;
