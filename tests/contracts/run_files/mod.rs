//! A whole run from one RON file: what a good file gives, what each kind of wrong file is told, and that no file, however
//! broken, panics or asks for more memory than allowed.

mod erased;
mod fuzz;
mod wrong;

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// A folder of its own, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let name = format!("gleaner-run-files-{}-{}", std::process::id(), SERIAL.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn asset(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets").join(name)
}
