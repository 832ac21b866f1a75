//! Trajectories as files that Python reads with one call: Apache Arrow IPC and Parquet.
//!
//! [`Replay::export`](crate::replay::Replay::export) and [`Batch::export`](crate::rollout::Batch::export) write them,
//! [`Replay::import`](crate::replay::Replay::import) reads them, whatever wrote them.
//!
//! ```
//! use gleaner::{arrow::Format, prelude::*, replay::Replay};
//!
//! # let path = std::env::temp_dir().join(format!("gleaner-arrow-{}.parquet", std::process::id()));
//! let replay = Replay::<CartPole>::new(10_000)?;
//! replay.extend(&Collector::<CartPole>::builder().frames_per_batch(500).build()?.next().unwrap()?)?;
//! replay.export(&path, Format::Parquet)?;
//!
//! let later = Replay::<CartPole>::new(10_000)?;
//! assert_eq!(later.import(&path)?.frames, 500);
//! # std::fs::remove_file(&path).unwrap();
//! # Ok::<(), gleaner::Error>(())
//! ```
//!
//! # What a file holds
//!
//! One record a frame, the frames of a trajectory one behind the other in the order of their steps. Columns of frames are
//! then arrays that learners take as they are, whatever the lengths of episodes are, and files of any size are written and
//! read piece by piece; episodes are a `groupby("trajectory")`.
//!
//! | columns | type | |
//! |---|---|---|
//! | `observation`, `action`, `reward`, `end`, `step`, `trajectory`, `flags`, `version`, and all others that were recorded | `f32`, `i32`, `u8`, `u32`, `u64`, or a fixed-size list of them | as they were recorded, bit for bit |
//! | `terminated`, `truncated` | bool | what `end` says |
//! | `episode_complete` | bool | whether the episode's end is there |
//! | `episode_end` | text | `running`, `terminated`, `truncated(StepLimit)` …: what `end` says |
//! | `episode_row` | `u32` | the row that it was collected from |
//! | `episode_return` | `f64` | sum of the rewards of the whole episode |
//! | `episode_length` | `u32` | frames of the whole episode |
//! | `episode_first_version` | `u64` | version of the weights that chose its first action; `version` is the last one |
//! | `last_observation` | list | what followed the last frame |
//!
//! What belongs to an episode stands in its last record and is null in the others, so that `df.episode_return.mean()` counts
//! each episode once and `df[df.episode_complete.notna()]` is the table of episodes. It is null there too if it is not known:
//! return, length and first version of an episode whose beginning or end is missing, and the row in files of a buffer,
//! which does not keep it. `end` is a code: 128 for terminated, plus the reason of a truncation
//! ([`Truncation`](crate::components::Truncation)).
//!
//! A field of a struct is a column of its own, `observation.camera`. Lists are flat; their shape is that of Arrow's
//! canonical extension type `arrow.fixed_shape_tensor`, so that `column.combine_chunks().to_numpy_ndarray()` in pyarrow has
//! it. Columns without elements are not in files.
//!
//! ```text
//! df = pandas.read_parquet("episodes.parquet")        # or polars.read_parquet
//! table = pyarrow.parquet.read_table("episodes.parquet")
//! table = pyarrow.ipc.open_file("episodes.arrow").read_all()
//! ```
//!
//! Parquet files are the smaller: of 700 frames of CartPole 28 KB, IPC 67 KB.
//!
//! # Files from elsewhere
//!
//! They need the recorded columns, under their names and of their types, without nulls; a plain list will do for a
//! fixed-size one if all have the length. Parquet may be compressed with Snappy, which is what pandas and pyarrow do unless
//! told otherwise, IPC not at all. Of what belongs to episodes only `last_observation` is read, where the next record
//! is not the next step of the same trajectory. The rest of it may be missing.

mod array;
mod chunk;
mod file;
mod ipc;
mod leaf;
mod pages;
mod parquet_file;
mod plan;
mod records;
mod schema;
mod write;

pub(crate) use chunk::{Chunk, each_chunk};
pub(crate) use file::Input;
pub(crate) use plan::Plan;
pub(crate) use write::{Writer, write};

/// Kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Apache Arrow IPC, the file format: as the columns lie in memory.
    Ipc,
    /// Apache Parquet, without compression beyond its encodings.
    Parquet,
}

/// Bytes of frames that are on their way at a time; a frame at least.
const CHUNK: usize = 4 << 20;

/// Frames of this width that are on their way at a time.
fn chunk_frames(specs: &[crate::components::ColumnSpec]) -> usize {
    let width: usize = specs.iter().map(|spec| spec.stride).sum();
    (CHUNK / width.max(1)).clamp(1, 1 << 16)
}
