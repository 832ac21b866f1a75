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
    /// Of the policy.
    name: Option<Arc<str>>,
    specs: Vec<TensorSpec>,
    /// Version of `latest`, so that "nothing new" is told without the lock.
    version: AtomicU64,
    latest: Mutex<Latest>,
    /// Old sets, whose memory takes copies once nobody reads them.
    past: Mutex<Vec<Arc<Weights>>>,
    /// By adopter: how often it was replaced, and the version that it acts with.
    adopted: Mutex<Vec<(u32, u64)>>,
    adoption: Condvar,
}

#[derive(Debug)]
struct Latest {
    version: u64,
    weights: Arc<Weights>,
    /// Whether nothing is published any more.
    closed: bool,
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
        Self::named(None, specs, initial)
    }

    /// The same of a policy that may have a name.
    pub(crate) fn named(name: Option<Arc<str>>, specs: Vec<TensorSpec>, initial: Weights) -> Result<Self, Error> {
        initial.check(&specs)?;
        Ok(Self(Arc::new(Shared {
            name,
            specs,
            version: AtomicU64::new(0),
            latest: Mutex::new(Latest { version: 0, weights: Arc::new(initial), closed: false }),
            past: Mutex::default(),
            adopted: Mutex::new(vec![(0, 0)]),
            adoption: Condvar::new(),
        })))
    }

    /// A handle that goes on at `version`, for a resumed run. Errors as [`new`](Self::new).
    pub fn resume(specs: Vec<TensorSpec>, version: u64, weights: Weights) -> Result<Self, Error> {
        let handle = Self::new(specs, weights)?;
        lock(&handle.0.latest).version = version;
        lock(&handle.0.adopted).fill((0, version));
        handle.0.version.store(version, Ordering::Release);
        Ok(handle)
    }

    /// Goes on where version `adopted` acts and `latest` is the newest one, a set that [`Weights::check`] accepts, whatever
    /// was published before.
    pub(crate) fn restore(&self, adopted: u64, (version, weights): (u64, Arc<Weights>)) {
        let mut place = lock(&self.0.latest);
        place.version = version;
        let before = std::mem::replace(&mut place.weights, weights);
        self.0.version.store(version, Ordering::Release);
        drop(place);
        drop(before);
        let mut acts = lock(&self.0.adopted);
        acts.iter_mut().filter(|(_, newest)| *newest != u64::MAX).for_each(|(_, newest)| *newest = adopted);
        drop(acts);
        self.0.adoption.notify_all();
    }

    /// The name of the policy, by [`Policy::named`](crate::policy::Policy::named).
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// Tensors that each set must have.
    pub fn specs(&self) -> &[TensorSpec] {
        &self.0.specs
    }

    /// Publishes a whole set and returns its version, one above the last. It acts from the next rollout on, or from the
    /// first end of frame on at which the collector has it packed for its backend.
    ///
    /// Errors: [`Error::Tensor`] for a missing, additional or misshapen tensor and for NaN or infinity;
    /// [`Error::State`] while the collector takes no weights ([`WeightSync::Off`](super::WeightSync::Off)). The set that
    /// was published before stands.
    pub fn publish(&self, weights: Weights) -> Result<u64, Error> {
        weights.check(&self.0.specs)?;
        self.swap(None, Arc::new(weights)).map(|(version, _)| version)
    }

    /// The same under a version of the publisher's own, as a learner elsewhere counts them. Versions may be left out;
    /// later sets of others go on from this one.
    ///
    /// Errors: as [`publish`](Self::publish); [`Error::Weights`] for a version that is not above the newest one, as a
    /// publisher has that began anew.
    pub fn publish_as(&self, version: u64, weights: Weights) -> Result<(), Error> {
        weights.check(&self.0.specs)?;
        self.swap(Some(version), Arc::new(weights)).map(drop)
    }

    /// Publishes the newest set again, and returns its next version. Errors: [`Error::State`] as [`publish`](Self::publish).
    pub fn increment_version(&self) -> Result<u64, Error> {
        let mut held = self.hold();
        let (_, weights) = held.get();
        held.swap(None, weights).map(|(version, _)| version)
    }

    /// Publishes a copy of a set that stays the caller's: checked and copied in one go, to the memory of an old set that
    /// nobody reads any more, of which up to four are kept. Takes little longer than the copy alone.
    ///
    /// Errors: as [`publish`](Self::publish).
    pub fn publish_copy(&self, weights: &Weights) -> Result<u64, Error> {
        let mut copy = self.spare();
        // The only reference, so nothing is cloned.
        Arc::make_mut(&mut copy).copy_checked(weights, &self.0.specs)?;
        let (version, before) = self.swap(None, copy)?;
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

    /// [`Held::swap`], after which nobody is held up: freeing a large set takes long.
    fn swap(&self, version: Option<u64>, weights: Arc<Weights>) -> Result<(u64, Arc<Weights>), Error> {
        self.hold().swap(version, weights)
    }

    /// Keeps the newest set as it is until this is dropped. Of several handles only in the order of their policies.
    pub(super) fn hold(&self) -> Held<'_> {
        Held { version: &self.0.version, latest: lock(&self.0.latest) }
    }

    /// Lets weights be published, or refuses them. What was published before acts as ever.
    pub(crate) fn set_open(&self, open: bool) {
        lock(&self.0.latest).closed = !open;
    }

    /// The newest set and its version.
    pub fn latest(&self) -> (u64, Arc<Weights>) {
        self.hold().get()
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
        lock(&self.0.adopted).resize(adopters, (0, self.version()));
    }

    /// Of these adopters only this one acts by these weights.
    pub(crate) fn set_only_adopter(&self, adopter: usize, adopters: usize) {
        self.set_adopters(adopters);
        (0..adopters).filter(|other| *other != adopter).for_each(|other| self.gone(other));
    }

    /// Says that what acts by these weights does so with `version` or a newer one. Called by what applies weights.
    pub fn adopted(&self, version: u64) {
        self.adopted_by((0, 0), version);
    }

    /// The same of one adopter, in a life of it. Of one that was replaced since, it says nothing.
    pub(crate) fn adopted_by(&self, (adopter, life): (usize, u32), version: u64) {
        self.note(adopter, |(now, before)| (now == life && version > before).then_some((now, version)));
    }

    /// Another one acts in the place of an adopter, in this life of it.
    pub(crate) fn replaced(&self, adopter: usize, life: u32) {
        self.note(adopter, |(_, version)| Some((life, version)));
    }

    /// An adopter will not act any more: nobody waits for it.
    pub(crate) fn gone(&self, adopter: usize) {
        self.note(adopter, |(life, _)| Some((life, u64::MAX)));
    }

    fn note(&self, adopter: usize, change: impl FnOnce((u32, u64)) -> Option<(u32, u64)>) {
        let mut adopted = lock(&self.0.adopted);
        if let Some(known) = adopted.get_mut(adopter)
            && let Some(now) = change(*known)
        {
            *known = now;
            drop(adopted);
            self.0.adoption.notify_all();
        }
    }

    /// Waits until every worker acts with `version` or a newer one; those that were given up are not waited for.
    /// Errors: [`Error::Timeout`].
    pub fn wait_adopted(&self, version: u64, deadline: Duration) -> Result<(), Error> {
        self.wait(deadline, |adopted| adopted.iter().any(|(_, newest)| *newest < version))
    }

    /// The same of the workers with these numbers; inline worker 0 is all there is. Errors: [`Error::Timeout`];
    /// [`Error::Config`] for a worker that does not exist.
    pub fn wait_adopted_by(&self, version: u64, workers: &[usize], deadline: Duration) -> Result<(), Error> {
        let all = lock(&self.0.adopted).len();
        if let Some(unknown) = workers.iter().find(|worker| **worker >= all) {
            return Err(Error::config("workers", unknown, format!("0 to {}", all - 1)));
        }
        self.wait(deadline, |adopted| workers.iter().any(|worker| adopted[*worker].1 < version))
    }

    fn wait(&self, deadline: Duration, behind: impl Fn(&[(u32, u64)]) -> bool) -> Result<(), Error> {
        let adopted = lock(&self.0.adopted);
        let waited = self.0.adoption.wait_timeout_while(adopted, deadline, |adopted| behind(adopted));
        let (adopted, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if behind(&adopted) {
            return Err(Error::Timeout { what: "adoption of published weights", deadline });
        }
        Ok(())
    }
}

/// The newest set of a handle, held still.
pub(super) struct Held<'h> {
    version: &'h AtomicU64,
    latest: MutexGuard<'h, Latest>,
}

impl Held<'_> {
    /// The newest set and its version.
    pub(super) fn get(&self) -> (u64, Arc<Weights>) {
        (self.latest.version, self.latest.weights.clone())
    }

    /// The version of the next set, or `version` if that can be it. Errors: those of [`WeightsHandle::publish_as`].
    pub(super) fn next(&self, version: Option<u64>) -> Result<u64, Error> {
        if self.latest.closed {
            let problem =
                "weight_sync is Off, no weights are taken; legal: with another one, by set_weight_sync".into();
            return Err(Error::State { call: "publish", problem });
        }
        let newest = self.latest.version;
        let version = version.unwrap_or(newest + 1);
        if version <= newest || version >= END {
            let legal = "a version above it and below 2^63";
            return Err(Error::Weights(format!("version {version} comes after version {newest}; legal: {legal}")));
        }
        Ok(version)
    }

    /// Puts a checked set in the place of the newest, under its [`next`](Self::next) version; returns that and the set
    /// before, maybe the last reference to it.
    pub(super) fn swap(&mut self, version: Option<u64>, weights: Arc<Weights>) -> Result<(u64, Arc<Weights>), Error> {
        let version = self.next(version)?;
        let before = std::mem::replace(&mut self.latest.weights, weights);
        self.latest.version = version;
        self.version.store(version, Ordering::Release);
        Ok((version, before))
    }
}

/// Versions are below: the largest number says that nothing is adopted any more.
const END: u64 = 1 << 63;

#[cfg(test)]
#[path = "handle_tests.rs"]
mod tests;
