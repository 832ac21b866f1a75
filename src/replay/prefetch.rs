//! Samples that a thread prepares ahead of the learner.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use super::{
    Replay, Sample, Sampler,
    sampling::{Frozen, Own, Sealed, Staged, Still},
};
use crate::{
    error::{Error, panic_message},
    task::Task,
};

/// Samples of a [`Sampler`], of which a thread of its own prepares the next ones while the learner learns: made by
/// [`Sampler::prefetch`], not for mixtures. An error is yielded in its turn, after which it tries again; the end of an epoch is `None`.
///
/// ```
/// use gleaner::{prelude::*, replay::Replay};
///
/// let replay = Replay::<CartPole>::new(10_000)?;
/// replay.extend(&Collector::<CartPole>::builder().frames_per_batch(500).build()?.next().unwrap()?)?;
/// for sample in replay.sampler().batch_size(32).build()?.prefetch(4)?.take(10) {
///     assert_eq!(sample?.len(), 32);
/// }
/// # Ok::<(), gleaner::Error>(())
/// ```
///
/// The samples that were prepared and not yet yielded are part of what is [saved](super::Replay::save). New priorities
/// count from the next sample that is prepared on, so that prioritized draws depend on how far ahead the thread is.
pub struct Prefetch<T: Task> {
    shared: Arc<Shared<T>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<T: Task> {
    /// What is drawn from, and how much.
    replay: Replay<T>,
    picks: usize,
    stopped: AtomicBool,
    /// Held while a sample is drawn and queued: whoever has it sees no sample that is between the two. Taken before the
    /// queue's.
    sampler: Mutex<Sampler<T>>,
    queue: Mutex<Queue<T>>,
    changed: Condvar,
}

/// What was prepared.
pub struct Queue<T: Task> {
    /// What the sampler gave: none at the end of an epoch.
    ready: VecDeque<Option<Result<Sample<T>, Error>>>,
    most: usize,
}

impl<T: Task> Queue<T> {
    /// The samples, in the order in which they are yielded. Errors are no state: they come again, or do not.
    pub(super) fn samples(&self) -> impl Iterator<Item = &Sample<T>> {
        self.ready.iter().filter_map(|next| next.as_ref()?.as_ref().ok())
    }

    /// Whether the end of an epoch was prepared and not yielded.
    pub(super) fn ends(&self) -> bool {
        matches!(self.ready.back(), Some(None))
    }

    /// Whether another sample may be prepared: behind an error or the end of an epoch none is before it was yielded.
    fn wants(&self) -> bool {
        self.ready.len() < self.most && self.ready.back().is_none_or(|last| matches!(last, Some(Ok(_))))
    }
}

fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Task> Sampler<T> {
    /// Prepares up to `n` samples ahead on a thread, which ends when the iterator is dropped. Errors: `n` is 0, no
    /// `batch_size`, a sampler that takes frames out of the buffer.
    pub fn prefetch(self, n: usize) -> Result<Prefetch<T>, Error> {
        if n == 0 {
            return Err(Error::config("prefetch", 0, "1 or more"));
        }
        self.can_prefetch()?;
        let (replay, picks) = self.source();
        let shared = Arc::new(Shared {
            replay: replay.clone(),
            picks: picks.unwrap_or(0),
            stopped: AtomicBool::new(false),
            queue: Mutex::new(Queue { ready: VecDeque::with_capacity(n), most: n }),
            sampler: Mutex::new(self),
            changed: Condvar::new(),
        });
        let run = {
            let shared = shared.clone();
            move || shared.run()
        };
        let thread = thread::Builder::new().name("gleaner prefetch".into()).spawn(run);
        let failed = |error| Error::State { call: "prefetch", problem: format!("no thread can be started: {error}") };
        Ok(Prefetch { shared, thread: Some(thread.map_err(failed)?) })
    }
}

impl<T: Task> Shared<T> {
    fn run(&self) {
        loop {
            let mut queue = lock(&self.queue);
            while !queue.wants() && !self.stopped.load(Relaxed) {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            drop(queue);
            // Not with the sampler: a learner may change its priorities before it writes what the limiter waits for.
            let ends = lock(&self.sampler).stops_next();
            let given_up = || self.stopped.load(Relaxed);
            let turn = if ends { Ok(None) } else { self.replay.begin_draw(self.picks, given_up) };
            if self.stopped.load(Relaxed) {
                return;
            }
            let mut sampler = lock(&self.sampler);
            // Who held the sampler may have filled the queue.
            if !lock(&self.queue).wants() {
                continue;
            }
            let next = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match turn {
                Ok(turn) => sampler.next_with(turn),
                Err(error) => Some(Err(error)),
            }));
            let next = next.unwrap_or_else(|payload| {
                let problem = format!("the sampler panicked: {}", panic_message(payload));
                Some(Err(Error::State { call: "sample", problem }))
            });
            lock(&self.queue).ready.push_back(next);
            drop(sampler);
            self.changed.notify_all();
        }
    }
}

impl<T: Task> Prefetch<T> {
    /// Samples that are ready.
    pub fn ready(&self) -> usize {
        lock(&self.shared.queue).samples().count()
    }

    /// As [`Sampler::update_priorities`], with its errors; counts from the next sample that is prepared on.
    pub fn update_priorities(&self, frames: &[u64], priorities: &[f32]) -> Result<usize, Error> {
        lock(&self.shared.sampler).update_priorities(frames, priorities)
    }

    /// Lets `change` change the sampler between two samples: priorities, or the version that staleness is counted from.
    /// Counts from the next sample that is prepared on.
    pub fn with_sampler<R>(&self, change: impl FnOnce(&mut Sampler<T>) -> R) -> R {
        change(&mut lock(&self.shared.sampler))
    }
}

impl<T: Task> Iterator for Prefetch<T> {
    type Item = Result<Sample<T>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let (begin, deadline) = (Instant::now(), self.shared.replay.config().deadline);
        let mut queue = lock(&self.shared.queue);
        loop {
            if let Some(next) = queue.ready.pop_front() {
                drop(queue);
                self.shared.changed.notify_all();
                return next;
            }
            let left = deadline.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Some(Err(Error::Timeout { what: "preparing a sample ahead", deadline }));
            }
            queue = self.shared.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl<T: Task> Sealed<T> for Prefetch<T> {
    fn freeze(&self) -> Frozen<'_, T> {
        let sampler = lock(&self.shared.sampler);
        let still = Still { sampler: Box::new(sampler), ahead: Some(lock(&self.shared.queue)) };
        Frozen { own: Own::Sampler, samplers: vec![still] }
    }

    fn restore(&mut self, staged: Staged<T>) {
        let Some(mut staged) = staged.into_sampler() else { return };
        let mut sampler = lock(&self.shared.sampler);
        let ahead = std::mem::take(&mut staged.ahead);
        sampler.resume(staged);
        lock(&self.shared.queue).ready = ahead.into_iter().map(|sample| Some(Ok(sample))).collect();
        drop(sampler);
        self.shared.changed.notify_all();
    }
}

impl<T: Task> Drop for Prefetch<T> {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Relaxed);
        // Nobody is between a look at the flag and a wait who holds the locks.
        drop(lock(&self.shared.queue));
        self.shared.changed.notify_all();
        if let Some(gate) = self.shared.replay.gate() {
            gate.wake();
        }
        if let Some(thread) = self.thread.take() {
            // A draw has a deadline itself; a panic was yielded.
            drop(thread.join());
        }
    }
}

impl<T: Task> fmt::Debug for Prefetch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = lock(&self.shared.queue);
        f.debug_struct("Prefetch").field("ready", &queue.ready.len()).field("most", &queue.most).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        prelude::CartPole,
        replay::{Replay, ReplayConfig},
    };

    #[test]
    fn rb_10_a_wait_has_a_deadline() {
        let config = ReplayConfig { deadline: Duration::from_millis(20), ..ReplayConfig::default() };
        let replay = Replay::<CartPole>::with_config(config).expect("a buffer");
        let mut ahead = replay.sampler().batch_size(1).build().expect("a sampler").prefetch(1).expect("a thread");
        let shared = ahead.shared.clone();
        let held = lock(&shared.sampler);
        // It may have found the buffer empty before.
        let last = ahead.by_ref().take(2).last();
        assert!(matches!(last, Some(Err(Error::Timeout { .. }))), "{last:?}");
        drop(held);
    }
}
