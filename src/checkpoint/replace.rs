//! A file is replaced by a newer one, or stays as it is.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::error::Error;

/// Writes a file beside `path`, `.NAME.PROCESS-NUMBER.new`, and moves it there once all of it is on the disk: whatever
/// happens meanwhile, `path` is the old file or the new one. What killed processes left beside it is removed.
pub(crate) fn replace(
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = |source| Error::Io { path: path.into(), source };
    let name = path.file_name().ok_or_else(|| failed(io::Error::other("it has no file name")))?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    remove_abandoned(folder, &prefix).map_err(failed)?;
    let mut beside = Beside::new(folder, prefix).map_err(failed)?;
    write(&mut beside.file)?;
    beside.file.sync_all().map_err(failed)?;
    fs::rename(&beside.path, path).map_err(failed)?;
    beside.moved = true;
    sync_folder(folder).map_err(failed)
}

/// The new file. It is locked while its process lives, and removed unless it was moved.
struct Beside {
    file: File,
    path: PathBuf,
    moved: bool,
}

impl Beside {
    fn new(folder: &Path, mut name: OsString) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        name.push(format!("{}-{}.new", std::process::id(), NUMBER.fetch_add(1, Relaxed)));
        let path = folder.join(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let beside = Self { file, path, moved: false };
        // Where files cannot be locked, none is taken for abandoned either.
        if let Err(TryLockError::WouldBlock) = beside.file.try_lock() {
            return Err(io::Error::other("another process removes the new file"));
        }
        Ok(beside)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.moved
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!("{}: an unfinished file stays behind: {error}", self.path.display());
        }
    }
}

/// Removes new files that nobody writes any more.
fn remove_abandoned(folder: &Path, prefix: &OsString) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let bytes = name.as_encoded_bytes();
        if !bytes.starts_with(prefix.as_encoded_bytes()) || !bytes.ends_with(b".new") {
            continue;
        }
        // Another process may be quicker.
        let Ok(file) = OpenOptions::new().write(true).open(entry.path()) else { continue };
        if file.try_lock().is_ok() {
            drop(fs::remove_file(entry.path()));
        }
    }
    Ok(())
}

/// A new name is on the disk once its folder is, where folders can be synced.
fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    let _folder = folder;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(text: &'static [u8]) -> impl FnOnce(&mut (dyn Write + Send)) -> Result<(), Error> {
        move |to| to.write_all(text).map_err(|error| Error::Checkpoint(error.to_string()))
    }

    #[test]
    fn the_old_file_stays_until_the_new_one_is_whole() {
        let folder = std::env::temp_dir().join(format!("gleaner-replace-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("state");
        let names = || {
            let mut names: Vec<_> =
                fs::read_dir(&folder).expect("it").map(|entry| entry.expect("it").file_name()).collect();
            names.sort();
            names
        };
        fs::write(folder.join(".state.1-0.new"), "of a killed process").expect("room");
        replace(&path, says(b"first")).expect("room");
        assert_eq!(names(), ["state"]);
        let stopped = |to: &mut (dyn Write + Send)| {
            to.write_all(b"sec").expect("room");
            assert_eq!(fs::read(&path).expect("the old file"), b"first");
            assert_eq!(names().len(), 2);
            // One that is being written is not taken for abandoned.
            replace(&path, says(b"third")).expect("room");
            assert_eq!(names().len(), 2);
            Err(Error::Checkpoint("stopped".into()))
        };
        assert!(replace(&path, stopped).is_err());
        assert_eq!((names(), fs::read(&path).expect("a file")), (vec!["state".into()], b"third".to_vec()));
        fs::remove_dir_all(&folder).expect("done");
    }
}
