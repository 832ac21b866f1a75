//! Checkpoints of replay buffers: a save at any moment is whole, what is loaded goes on bit for bit, and no file breaks the
//! reader.

#[path = "../replay/made.rs"]
#[allow(dead_code, reason = "the other tests of replay use the rest")]
mod made;

#[path = "../replay/lists.rs"]
mod lists;

mod allocator;
mod crash;
mod cursor;
mod hostile;
mod hostile_states;
mod mixtures;
mod ragged;
mod resume;

use std::path::PathBuf;

/// A path in the tests' own folder, where nothing is.
fn fresh(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("replay-files-{name}-{}", std::process::id()));
    if path.is_dir() {
        std::fs::remove_dir_all(&path).expect("an old folder goes");
    } else if path.exists() {
        std::fs::remove_file(&path).expect("an old file goes");
    }
    path
}
