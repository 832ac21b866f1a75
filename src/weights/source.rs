//! Where a collector gets new weights from.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use serde::{Deserialize, Serialize};

use super::{Models, NameMap, WeightsFile};
use crate::error::{BoxError, Error};

/// Where a collector gets new weights from. In a run file: `weight_sync: File(path: "policy.safetensors")`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WeightSync {
    /// From whoever publishes them by a [`WeightsHandle`](super::WeightsHandle) or [`Models`](super::Models).
    #[default]
    Shared,
    /// Also from a safetensors file that somebody else replaces. The collector looks at it before a rollout, with workers
    /// that deliver on their own before a batch; the first time before the first one. A file that cannot be read, or is of
    /// another network, is the error [`Error::WeightsSource`], once until it changes; the weights before go on acting.
    File {
        /// The file, or a folder, whose newest `*.safetensors` it is: by time of modification, then by name. An older one
        /// than the one before is not gone back to. In a run file a relative path starts at the folder of that.
        path: PathBuf,
        /// RON file of the names that the weights have there ([`NameMap`]); its path as that of the weights. Default:
        /// none, the network's names.
        #[serde(default)]
        names: Option<PathBuf>,
        /// Shortest time between two looks. Default: 0, each time.
        #[serde(default)]
        every: Duration,
        /// Number of the policy that they are for. Default: 0.
        #[serde(default)]
        policy: usize,
    },
    /// From whoever publishes them to single workers, by
    /// [`Collector::models_of_worker`](crate::collector::Collector::models_of_worker): each acts by weights of its own, with
    /// versions of their own, and starts from the policy's. What would speak of all, [`Collector::weights`], `models` and
    /// `evaluator`, is none; values behind the frames of a batch are by each one's worker. Only with `workers`, and for good.
    ///
    /// [`Collector::weights`]: crate::collector::Collector::weights
    PerWorker,
    /// From nobody: the network acts by the weights that it has, and handles refuse others.
    Off,
}

impl WeightSync {
    /// A file, or a folder, looked at each time, for policy 0.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::File { path: path.into(), names: None, every: Duration::ZERO, policy: 0 }
    }

    /// The same with paths that start at `folder`.
    pub(crate) fn within(mut self, folder: &Path) -> Self {
        if let Self::File { path, names, .. } = &mut self {
            *path = folder.join(&path);
            *names = names.take().map(|names| folder.join(names));
        }
        self
    }
}

/// Somewhere that a collector can get weights from: the host's own, for
/// [`CollectorBuilder::weights_source`](crate::config::CollectorBuilder::weights_source).
pub trait WeightsSource: Send {
    /// Publishes new weights, if there are any; [`WeightsHandle::version`](super::WeightsHandle::version) says which were
    /// the last ones, [`WeightsHandle::specs`](super::WeightsHandle::specs) what is expected.
    ///
    /// Called on the thread that iterates, before each rollout, with workers that deliver on their own before each batch:
    /// it does not wait. An error reaches the caller as [`Error::WeightsSource`], and the collection goes on.
    fn poll(&mut self, models: &Models) -> Result<(), BoxError>;
}

/// A file, or the newest of a folder.
pub(crate) struct FileSource {
    path: PathBuf,
    names: NameMap,
    every: Duration,
    policy: usize,
    looked: Option<Instant>,
    file: WeightsFile,
    /// When the folder's file was changed, and its path, so that none is gone back to.
    newest: Option<(SystemTime, PathBuf)>,
}

impl FileSource {
    /// What `sync` describes; none if that is no file. Errors: those of [`NameMap::from_ron_file`].
    pub(crate) fn open(sync: &WeightSync) -> Result<Option<Self>, Error> {
        let WeightSync::File { path, names, every, policy } = sync else { return Ok(None) };
        let names = names.as_ref().map(NameMap::from_ron_file).transpose()?.unwrap_or_default();
        let file = WeightsFile::new(path).names(names.clone());
        let (path, every, policy) = (path.clone(), *every, *policy);
        Ok(Some(Self { path, names, every, policy, looked: None, file, newest: None }))
    }

    /// Turns to the newest file of a folder. Whether there is one.
    fn find(&mut self) -> Result<bool, Error> {
        if !self.path.is_dir() {
            return Ok(true);
        }
        let failed = |source| Error::Io { path: self.path.clone(), source };
        let mut newest = self.newest.clone();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_none_or(|extension| extension != "safetensors") {
                continue;
            }
            // One that is gone by now is not the newest.
            let Ok(metadata) = path.metadata() else { continue };
            let found = Some((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), path));
            newest = newest.max(found);
        }
        if let Some((_, path)) = newest.as_ref().filter(|(_, path)| path != self.file.path()) {
            self.file = WeightsFile::new(path).names(self.names.clone());
        }
        self.newest = newest;
        Ok(self.newest.is_some())
    }
}

impl WeightsSource for FileSource {
    fn poll(&mut self, models: &Models) -> Result<(), BoxError> {
        if self.looked.is_some_and(|looked| looked.elapsed() < self.every) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        if self.find()? {
            self.file.reload(models.get(self.policy)?)?;
        }
        Ok(())
    }
}
