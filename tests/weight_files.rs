//! Weights from files of somebody else's: what PyTorch saved acts under the network's names and goes back under its own,
//! files change while a policy acts, and no file, however broken, panics or takes more memory than it is long.

#[path = "support/actors.rs"]
mod actors;
#[path = "weight_files/fuzz.rs"]
mod fuzz;
#[path = "weight_files/reload.rs"]
mod reload;
#[path = "weight_files/state_dict.rs"]
mod state_dict;

use std::path::{Path, PathBuf};

fn asset(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets").join(name)
}

/// A folder of its own, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("gleaner-weight-files-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("policy.safetensors")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
