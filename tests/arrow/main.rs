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

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// A place in the tests' own folder, another one at each call: tests run beside each other.
fn place(name: &str) -> PathBuf {
    static PLACES: AtomicU32 = AtomicU32::new(0);
    let number = PLACES.fetch_add(1, Relaxed);
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("arrow-{name}-{}-{number}", std::process::id()))
}
