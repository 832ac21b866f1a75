//! A whole run from one RON file: what a good file gives, what each kind of wrong file is told, and that no file, however
//! broken, panics or asks for more memory than allowed.

mod erased;
mod fuzz;
mod wrong;

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use gleaner::prelude::{CartPole, GridWorld, Pendulum, Registry};

/// The environments of the files in `assets`. That all of [`Registry::builtin`] are there is the example `from_ron`'s test:
/// each one more takes its time to compile.
fn registry() -> Registry {
    let mut registry = Registry::empty();
    registry.add::<CartPole>("cart_pole").add::<Pendulum>("pendulum").add::<GridWorld>("grid_world");
    registry
}

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
