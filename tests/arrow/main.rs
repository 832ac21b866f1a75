//! Trajectories as Arrow and Parquet files: what is imported is what was exported, to the bit; what is no such file is an
//! error that names the column, and changes nothing. `read_back.py` reads the files of `python.rs`.

#[path = "../replay_files/allocator.rs"]
mod allocator;
#[path = "../support/car.rs"]
#[allow(dead_code, reason = "the tests of heads use the rest")]
mod car;

mod batches;
mod contents;
mod hostile;
mod made;
mod python;
mod round;
mod wrong;

use std::path::PathBuf;

/// A place in the tests' own folder.
fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("arrow-{name}-{}", std::process::id()))
}
