//! Weights in the form that a backend reads, made off the tick and shared by all threads.

use std::{
    any::Any,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{components::Weights, error::Error};

/// Weights as networks of one plan on one backend read them. Made by a [`Packer`], taken by
/// [`Network::adopt`](super::plan::Network::adopt).
pub type PackedWeights = Arc<dyn Any + Send + Sync>;

/// Makes [`PackedWeights`] weights, on any thread, while networks act.
pub trait Packer: Send + Sync {
    /// Packs a whole set. Errors: those of [`Weights::check`] against the plan's tensors, and the backend's own.
    fn pack(&self, weights: &Weights) -> Result<PackedWeights, Error>;

    /// Whether packed weights can be adopted any number of times. Default: yes; on a GPU they are used up.
    fn can_repeat(&self) -> bool {
        true
    }
}

/// Longest wait for weights that are being packed.
const DEADLINE: Duration = Duration::from_secs(60);
/// Most numbers of a set that is packed in the tick, in some ten µs.
const SMALL: usize = 1 << 14;

/// A published set in packed form.
pub(super) struct Ready {
    pub version: u64,
    pub weights: Arc<Weights>,
    pub packed: PackedWeights,
}

/// Packs the newest weights on a thread of its own, which the first set that comes within a rollout starts.
pub(super) struct Packing {
    packer: Arc<dyn Packer>,
    shared: Arc<Shared>,
    /// The newest version that was asked for.
    asked: u64,
    /// The newest version that was taken.
    taken: u64,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The newest set, until the thread begins with it.
    wanted: Option<(u64, Arc<Weights>)>,
    /// The newest set that is packed, until it is taken.
    ready: Option<Result<Ready, Error>>,
    /// What was let go of: freeing a large set takes as long as many ticks.
    retired: Vec<Arc<dyn Any + Send + Sync>>,
    /// Versions below this one are of no use any more.
    oldest: u64,
    stop: bool,
}

impl Shared {
    /// There are only whole assignments under this lock, so what a panicking thread left behind is sound.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: packs the newest set and frees old ones until it is told to stop.
    fn work(&self, packer: &dyn Packer) {
        let mut retired = Vec::new();
        loop {
            let idle = |state: &mut State| !state.stop && state.wanted.is_none() && state.retired.is_empty();
            let waited = self.changed.wait_while(self.lock(), idle);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            if state.stop {
                return;
            }
            std::mem::swap(&mut state.retired, &mut retired);
            let wanted = state.wanted.take();
            drop(state);
            retired.clear();
            let Some((version, weights)) = wanted else { continue };
            let made = packer.pack(&weights).map(|packed| Ready { version, weights, packed });
            let mut state = self.lock();
            let before = if version < state.oldest { Some(made) } else { state.ready.replace(made) };
            drop(state);
            self.changed.notify_all();
            drop(before);
        }
    }
}

impl Packing {
    pub(super) fn new(packer: Arc<dyn Packer>) -> Self {
        Self { packer, shared: Arc::default(), asked: 0, taken: 0, thread: None }
    }

    /// Packs a set at once, as no version.
    pub(super) fn pack(&self, weights: &Weights) -> Result<PackedWeights, Error> {
        self.packer.pack(weights)
    }

    /// `packed`, which are `weights` and were adopted before, as they can be adopted again.
    pub(super) fn again(&self, packed: &PackedWeights, weights: &Weights) -> Result<PackedWeights, Error> {
        if self.packer.can_repeat() { Ok(packed.clone()) } else { self.packer.pack(weights) }
    }

    /// Has `version` packed, unless it was asked for already: a small set at once, which takes less time than the thread
    /// needs to wake.
    pub(super) fn ask(&mut self, version: u64, weights: &Arc<Weights>) {
        if self.asked == version {
            return;
        }
        self.asked = version;
        if weights.0.values().map(|tensor| tensor.data.len()).sum::<usize>() <= SMALL {
            let packed = self.packer.pack(weights);
            let ready = packed.map(|packed| Ready { version, weights: weights.clone(), packed });
            self.shared.lock().ready = Some(ready);
            return;
        }
        if self.thread.is_none() {
            let (shared, packer) = (self.shared.clone(), self.packer.clone());
            let builder = thread::Builder::new().name("gleaner-packing".into());
            match builder.spawn(move || shared.work(&*packer)) {
                Ok(thread) => self.thread = Some(thread),
                Err(_) => {
                    // A system without room for a thread: the tick waits.
                    let packed = self.packer.pack(weights);
                    let ready = packed.map(|packed| Ready { version, weights: weights.clone(), packed });
                    self.shared.lock().ready = Some(ready);
                    return;
                }
            }
        }
        let mut state = self.shared.lock();
        if let Some((_, skipped)) = state.wanted.replace((version, weights.clone())) {
            state.retired.push(skipped);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Whether what was asked for is not ready yet.
    pub(super) fn is_busy(&self) -> bool {
        self.asked != self.taken && self.shared.lock().ready.is_none()
    }

    /// The newest set that is packed by now, once.
    pub(super) fn take(&mut self) -> Result<Option<Ready>, Error> {
        if self.asked == self.taken {
            return Ok(None);
        }
        let ready = self.shared.lock().ready.take().transpose();
        match &ready {
            Ok(Some(ready)) => self.taken = ready.version,
            Ok(None) => {}
            // What cannot be packed is not waited for.
            Err(_) => self.taken = self.asked,
        }
        ready
    }

    /// Gives `version` in packed form: what the thread has made, or is at, is waited for.
    pub(super) fn now(&mut self, version: u64, weights: &Arc<Weights>) -> Result<Ready, Error> {
        self.taken = version;
        let mut state = self.shared.lock();
        state.oldest = version;
        if self.asked == version {
            let made = |state: &State| match &state.ready {
                Some(Ok(ready)) => ready.version >= version,
                other => other.is_some(),
            };
            let waited = self.shared.changed.wait_timeout_while(state, DEADLINE, |state| !made(state));
            let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let timeout = || Err(Error::Timeout { what: "packing of published weights", deadline: DEADLINE });
            return if made(&state) { state.ready.take().unwrap_or_else(timeout) } else { timeout() };
        }
        (state.wanted, state.ready) = (None, None);
        drop(state);
        self.asked = version;
        let packed = self.packer.pack(weights)?;
        Ok(Ready { version, weights: weights.clone(), packed })
    }

    /// Frees what belongs to old sets, on the thread if there is one.
    pub(super) fn retire<const N: usize>(&self, retired: [Arc<dyn Any + Send + Sync>; N]) {
        if self.thread.is_some() {
            self.shared.lock().retired.extend(retired);
            self.shared.changed.notify_all();
        }
    }
}

impl Drop for Packing {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It panics in no case of ours; if it did, what it was to make is not needed any more.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[path = "packing_tests.rs"]
mod tests;
