//! A file that somebody else writes while a policy acts.

use std::{
    fs::{File, Metadata},
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    WeightsHandle,
    file::{in_file, read, save},
    names::NameMap,
};
use crate::{components::Weights, error::Error};

/// A safetensors file, its tensors' names, and what of it was read last.
///
/// ```no_run
/// # use gleaner::prelude::*;
/// # let collector = Collector::<CartPole>::builder().build()?;
/// let mut file = WeightsFile::new("policy.safetensors").names(NameMap::from_ron_file("names.ron")?);
/// let policy = Policy::<CartPole>::network(NetworkSpec::default()).weights(file.load()?);
/// # let weights = collector.weights().unwrap();
/// // … and before each batch:
/// if let Some(version) = file.reload(&weights)? {
///     println!("version {version} acts from now on");
/// }
/// # Ok::<(), gleaner::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WeightsFile {
    path: PathBuf,
    names: NameMap,
    read: Option<Stamp>,
    /// What could not be read at the last look; a file that cannot be opened has no stamp.
    failed: Option<Option<Stamp>>,
}

/// Tells one content of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Self { modified: metadata.modified().ok(), length: metadata.len(), inode }
    }
}

impl WeightsFile {
    /// The file at `path`, whose tensors are called as the network's. Nothing is read yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), names: NameMap::default(), read: None, failed: None }
    }

    /// Its tensors have names of their own.
    #[must_use]
    pub fn names(mut self, names: NameMap) -> Self {
        self.names = names;
        self
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file, under the network's names. Errors: those of [`Weights::load`]; [`Error::Weights`] and
    /// [`Error::Tensor`] for names that the map does not fit.
    pub fn load(&mut self) -> Result<Weights, Error> {
        let (file, stamp) = self.open()?;
        let weights = self.read(file, stamp)?;
        self.read = Some(stamp);
        Ok(weights)
    }

    /// Writes the file, under its own names; otherwise as [`Weights::save`], with its errors. Tensors to ignore are not
    /// written.
    pub fn save(&self, weights: &Weights) -> Result<(), Error> {
        save(&self.path, weights, &self.names)
    }

    /// Publishes the file's weights if it changed since they were read, and returns their version.
    ///
    /// Errors: those of [`load`](Self::load) and of [`WeightsHandle::publish`], with the file; the weights before go on
    /// acting. A file that is wrong or half-written is tried again at each call, but is an error only once until it
    /// changes.
    ///
    /// A change is told by time of modification, length and, on Unix, inode: a file that is replaced whole, as `save`
    /// does it, is always noticed and never torn; one that is overwritten in place, to the same length, within one step
    /// of the file system's clock, may not be.
    pub fn reload(&mut self, handle: &WeightsHandle) -> Result<Option<u64>, Error> {
        let opened = self.open();
        let stamp = opened.as_ref().ok().map(|(_, stamp)| *stamp);
        if stamp.is_some() && stamp == self.read {
            return Ok(None);
        }
        let weights = opened.and_then(|(file, stamp)| self.read(file, stamp));
        match weights.and_then(|weights| handle.publish(weights).map_err(|error| in_file(&self.path, error))) {
            Ok(version) => {
                (self.read, self.failed) = (stamp, None);
                Ok(Some(version))
            }
            Err(_) if self.failed == Some(stamp) => Ok(None),
            Err(error) => {
                self.failed = Some(stamp);
                Err(error)
            }
        }
    }

    fn open(&self) -> Result<(File, Stamp), Error> {
        let io = |source| Error::Io { path: self.path.clone(), source };
        let file = File::open(&self.path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(Error::Weights(format!("{}: no file; legal: a safetensors file", self.path.display())));
        }
        Ok((file, Stamp::of(&metadata)))
    }

    fn read(&self, file: File, stamp: Stamp) -> Result<Weights, Error> {
        let weights = read(&self.path, &file, &self.names)?;
        let metadata = file.metadata().map_err(|source| Error::Io { path: self.path.clone(), source })?;
        if Stamp::of(&metadata) != stamp {
            return Err(Error::Weights(format!("{}: changed while it was read", self.path.display())));
        }
        Ok(weights)
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
