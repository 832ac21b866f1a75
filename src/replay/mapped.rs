//! Memory that the system maps: a file, or as much as a file would have.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use memmap2::{MmapMut, MmapOptions, MmapRaw};

use crate::error::Error;

/// Zeros at a fixed place, of a new file or of none; the file goes when this is dropped.
pub(super) struct Mapped {
    // Dropped in this order: a file that is mapped cannot be removed everywhere.
    map: MmapRaw,
    _scratch: Option<Scratch>,
}

/// A file that is removed when this is dropped.
struct Scratch {
    file: Option<File>,
    path: PathBuf,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.file.take());
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("{}: the replay buffer's file stays behind: {error}", self.path.display());
        }
    }
}

impl Mapped {
    /// `bytes` zeros of memory, which the system gives when they are first touched. Errors: more than there can be.
    pub(super) fn memory(bytes: usize) -> io::Result<Self> {
        Ok(Self::of(MmapMut::map_anon(bytes)?.into(), None))
    }

    /// A file of `bytes` zeros at `path`. Errors: it exists, or the disk has no room; then none is left behind.
    pub(super) fn new(path: &Path, bytes: usize) -> Result<Self, Error> {
        let failed = |source| Error::Io { path: path.into(), source };
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).map_err(failed)?;
        let mut scratch = Scratch { file: None, path: path.into() };
        let file = scratch.file.insert(file);
        allocate(file, bytes as u64).map_err(failed)?;
        let map = MmapOptions::new().len(bytes).map_raw(&*file).map_err(failed)?;
        Ok(Self::of(map, Some(scratch)))
    }

    /// Asks for large pages: reads at random places mostly wait for the tables of small ones. It works without as well.
    fn of(map: MmapRaw, scratch: Option<Scratch>) -> Self {
        #[cfg(all(target_os = "linux", not(miri)))]
        let _ = map.advise(memmap2::Advice::HugePage);
        Self { map, _scratch: scratch }
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }
}

/// Takes all the blocks of a file now: a disk that is full later would end the process with a signal.
fn allocate(file: &mut File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::{fs::FallocateFlags, io::Errno};
        match rustix::fs::fallocate(&*file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => {}
            done => return done.map_err(io::Error::from),
        }
    }
    let zeros = vec![0; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        let some = left.min(zeros.len() as u64);
        file.write_all(&zeros[..some as usize])?;
        left -= some;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("gleaner-mapped-{name}-{}", std::process::id()))
    }

    #[test]
    fn the_file_lives_as_long_as_its_memory() {
        let path = place("lives");
        let mapped = Mapped::new(&path, 10_000).expect("room");
        assert_eq!(fs::metadata(&path).expect("a file").len(), 10_000);
        let error = Mapped::new(&path, 10).err().expect("it exists").to_string();
        assert!(error.contains("lives"), "{error}");
        assert!(path.exists(), "another's file is left alone");
        drop(mapped);
        assert!(!path.exists());
    }

    #[test]
    fn a_full_disk_is_an_error_and_leaves_nothing() {
        let path = place("full");
        assert!(matches!(Mapped::new(&path, 1 << 55), Err(Error::Io { .. })));
        assert!(!path.exists());
    }
}
