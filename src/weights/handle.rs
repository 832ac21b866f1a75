//! The place where new weights are published and picked up.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    components::{TensorSpec, Weights},
    error::Error,
};

/// Publishes weights to a policy from any thread, also while batches are iterated. Clones are the same handle.
///
/// A set is swapped in whole behind an [`Arc`]; one that a reader holds is never changed.
#[derive(Clone, Debug)]
pub struct WeightsHandle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    specs: Vec<TensorSpec>,
    /// Version of `latest`, so that "nothing new" is told without the lock.
    version: AtomicU64,
    latest: Mutex<(u64, Arc<Weights>)>,
    /// Old sets, whose memory takes copies once nobody reads them.
    past: Mutex<Vec<Arc<Weights>>>,
    /// By adopter: the version that it acts with.
    adopted: Mutex<Vec<u64>>,
    adoption: Condvar,
}

/// Old sets that are kept for copies: one acts, one is packed, one waits to be freed, one is free.
const PAST: usize = 4;

/// Under these locks there are only whole assignments, so what a panicking thread left behind is sound.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WeightsHandle {
    /// A handle whose version 0 is `initial`. Errors: those of [`Weights::check`] against `specs`.
    pub fn new(specs: Vec<TensorSpec>, initial: Weights) -> Result<Self, Error> {
        initial.check(&specs)?;
        Ok(Self(Arc::new(Shared {
            specs,
            version: AtomicU64::new(0),
            latest: Mutex::new((0, Arc::new(initial))),
            past: Mutex::default(),
            adopted: Mutex::new(vec![0]),
            adoption: Condvar::new(),
        })))
    }

    /// A handle that goes on at `version`, for a resumed run. Errors as [`new`](Self::new).
    pub fn resume(specs: Vec<TensorSpec>, version: u64, weights: Weights) -> Result<Self, Error> {
        let handle = Self::new(specs, weights)?;
        lock(&handle.0.latest).0 = version;
        lock(&handle.0.adopted).fill(version);
        handle.0.version.store(version, Ordering::Release);
        Ok(handle)
    }

    /// Goes on where version `adopted` acts and `latest` is the newest one, a set that [`Weights::check`] accepts, whatever
    /// was published before.
    pub(crate) fn restore(&self, adopted: u64, latest: (u64, Arc<Weights>)) {
        let version = latest.0;
        let mut place = lock(&self.0.latest);
        let before = std::mem::replace(&mut *place, latest);
        self.0.version.store(version, Ordering::Release);
        drop(place);
        drop(before);
        lock(&self.0.adopted).fill(adopted);
        self.0.adoption.notify_all();
    }

    /// Tensors that each set must have.
    pub fn specs(&self) -> &[TensorSpec] {
        &self.0.specs
    }

    /// Publishes a whole set and returns its version, one above the last. It acts from the next rollout on, or from the
    /// first end of frame on at which the collector has it packed for its backend.
    ///
    /// Errors: [`Error::Tensor`] for a missing, additional or misshapen tensor and for NaN or infinity; the set that
    /// was published before stands.
    pub fn publish(&self, weights: Weights) -> Result<u64, Error> {
        weights.check(&self.0.specs)?;
        let (version, before) = self.swap(Arc::new(weights));
        // Maybe the last reference: freeing a large set must not hold readers up.
        drop(before);
        Ok(version)
    }

    /// Publishes a copy of a set that stays the caller's: checked and copied in one go, to the memory of an old set that
    /// nobody reads any more, of which up to four are kept. Takes little longer than the copy alone.
    ///
    /// Errors: as [`publish`](Self::publish).
    pub fn publish_copy(&self, weights: &Weights) -> Result<u64, Error> {
        let mut copy = self.spare();
        // The only reference, so nothing is cloned.
        Arc::make_mut(&mut copy).copy_checked(weights, &self.0.specs)?;
        let (version, before) = self.swap(copy);
        let mut past = lock(&self.0.past);
        if past.len() < PAST {
            past.push(before);
        }
        Ok(version)
    }

    /// A set that nobody else holds.
    fn spare(&self) -> Arc<Weights> {
        let mut past = lock(&self.0.past);
        let free = past.iter_mut().position(|set| Arc::get_mut(set).is_some());
        free.map_or_else(Arc::default, |i| past.swap_remove(i))
    }

    /// Puts a checked set in the place of the newest; returns its version and the set before.
    fn swap(&self, weights: Arc<Weights>) -> (u64, Arc<Weights>) {
        let mut latest = lock(&self.0.latest);
        let version = latest.0 + 1;
        let before = std::mem::replace(&mut *latest, (version, weights));
        self.0.version.store(version, Ordering::Release);
        (version, before.1)
    }

    /// The newest set and its version.
    pub fn latest(&self) -> (u64, Arc<Weights>) {
        lock(&self.0.latest).clone()
    }

    /// Version of the newest set; 0 for the initial one.
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// The newest set, if it is newer than `version`; one atomic load if it is not.
    #[inline]
    pub fn newer_than(&self, version: u64) -> Option<(u64, Arc<Weights>)> {
        (self.version() > version).then(|| self.latest())
    }

    /// How many act by these weights, each for itself: workers. Default: 1.
    pub(crate) fn set_adopters(&self, adopters: usize) {
        lock(&self.0.adopted).resize(adopters, self.version());
    }

    /// Says that what acts by these weights does so with `version` or a newer one. Called by what applies weights.
    pub fn adopted(&self, version: u64) {
        self.adopted_by(0, version);
    }

    /// The same of one adopter; `u64::MAX` of one that will not act any more.
    pub(crate) fn adopted_by(&self, adopter: usize, version: u64) {
        let mut adopted = lock(&self.0.adopted);
        if let Some(before) = adopted.get_mut(adopter)
            && version > *before
        {
            *before = version;
            drop(adopted);
            self.0.adoption.notify_all();
        }
    }

    /// Waits until every worker acts with `version` or a newer one. Errors: [`Error::Timeout`].
    pub fn wait_adopted(&self, version: u64, deadline: Duration) -> Result<(), Error> {
        let behind = |adopted: &mut Vec<u64>| adopted.iter().any(|newest| *newest < version);
        let adopted = lock(&self.0.adopted);
        let waited = self.0.adoption.wait_timeout_while(adopted, deadline, behind);
        let (mut adopted, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if behind(&mut adopted) {
            return Err(Error::Timeout { what: "adoption of published weights", deadline });
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "handle_tests.rs"]
mod tests;
