//! A collector whose rows are spread over workers: threads that each own a collector of some of the rows.
//!
//! In step, all fill one rollout part by part; else each sends its batches when they are done. Either way the collector
//! in front delivers, writes and counts as one without workers does.

use std::{
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::{
    collector::Collector,
    components::{Truncation, WorkerStatus},
    config::OnWorkerFault,
    error::Error,
    rollout::{Batch, Block, Merge, Rollout},
    stats::Monitor,
    task::Task,
    weights::WeightsHandle,
    workers::{Crew, Reply, Stopped},
};

/// Longest time after which a thread that ended without a word is noticed.
const LOOK: Duration = Duration::from_millis(100);

mod build;
mod child;

pub(crate) use build::build;
pub(crate) use child::{Budget, Child};

/// What the workers of a rollout share.
struct Common<T: Task> {
    filling: Mutex<Filling<T>>,
    /// Set when the others are not waited for any more, and at the end.
    stop: Arc<AtomicBool>,
    finished: AtomicUsize,
    /// Workers after which `stop` is set.
    enough: usize,
}

/// The rollout that workers fill together.
struct Filling<T: Task> {
    /// None between rollouts; a part that comes late finds none, or another one's.
    merge: Option<(u64, Merge<T>)>,
    /// Workers from which nothing is taken any more.
    lost: Vec<bool>,
}

impl<T: Task> Common<T> {
    fn lock(&self) -> MutexGuard<'_, Filling<T>> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The workers of a collector.
pub(crate) struct Fleet<T: Task> {
    crew: Crew<Child<T>>,
    ranges: Vec<Range<u32>>,
    monitors: Vec<Monitor>,
    weights: Vec<Option<WeightsHandle>>,
    common: Arc<Common<T>>,
    deadline: Duration,
    on_fault: OnWorkerFault,
    /// What became of each, whether it is worked with yet, and whether it will send no more.
    statuses: Vec<WorkerStatus>,
    here: Vec<bool>,
    through: Vec<bool>,
    producing: bool,
    /// By worker: how long its next batch has been waited for, and whether the caller's batches hold it back.
    waited: Vec<Duration>,
    held: Vec<Arc<AtomicBool>>,
    max_arenas: usize,
    /// By worker that takes from a common budget: what is left of it, and what the worker ever took.
    budgets: Vec<Option<(Arc<AtomicU64>, Arc<AtomicU64>)>>,
    /// Number of the rollout in progress.
    round: u64,
}

impl<T: Task> Fleet<T> {
    fn here(&self) -> impl Iterator<Item = usize> {
        (0..self.here.len()).filter(|worker| self.here[*worker])
    }

    /// Collects a rollout of `ticks` ticks of all workers, whose last tick steps as many rows as `left` frames allow.
    pub(crate) fn roll(
        &mut self,
        front: &Monitor,
        rollout: &mut Rollout<T>,
        block: Box<Block<T>>,
        ticks: usize,
        left: u64,
    ) -> Result<Box<Block<T>>, Error> {
        let rows = self.ranges.last().map_or(0, |range| range.end as usize);
        self.round += 1;
        self.common.stop.store(false, Relaxed);
        self.common.finished.store(0, Relaxed);
        self.common.lock().merge = Some((self.round, Merge::begin(rollout, block, rows, ticks)));
        let deadline = Instant::now() + self.deadline;
        let replies: Vec<_> = self.here().map(|worker| (worker, self.order_roll(worker, ticks, left, rows))).collect();
        let mut error = None;
        for (worker, reply) in replies {
            // With an error the others' frames are of no use.
            let until = if error.is_some() { Instant::now() } else { deadline };
            let Err(failed) = reply.wait(until).flatten() else { continue };
            if error.is_none() {
                error = self.lose(worker, failed).err();
                self.common.stop.store(error.is_some(), Relaxed);
            }
        }
        let merge = self.common.lock().merge.take();
        let Some((_, mut merge)) = merge else {
            return Err(Error::State { call: "rollout", problem: "the rollout was taken away".into() });
        };
        if let Some(error) = error {
            front.ledger().counters.discarded.shutdown += merge.frames() as u64;
            return Err(error);
        }
        for (range, _) in self.ranges.iter().zip(&self.here).filter(|(_, here)| !**here) {
            merge.cut(range.start as usize..range.end as usize, Truncation::Timeout);
        }
        front.ledger().in_flight += merge.frames() as u64;
        Ok(merge.finish(rollout))
    }

    fn order_roll(&self, worker: usize, ticks: usize, left: u64, rows: usize) -> Reply<Result<(), Error>> {
        let own = &self.ranges[worker];
        let (common, round, first) = (self.common.clone(), self.round, own.start as usize);
        // The last tick steps the rows that the budget leaves, in their order.
        let whole = (ticks as u64 - 1) * rows as u64;
        let rest = left.saturating_sub(whole).clamp(u64::from(own.start), u64::from(own.end)) - u64::from(own.start);
        let left = (ticks as u64 - 1) * own.len() as u64 + rest;
        self.crew.call(worker, move |child| child.roll(&common, round, first, ticks, left))
    }

    /// The next batch that any worker sends, and its number; none when all are through.
    pub(crate) fn receive(&mut self) -> Result<Option<(usize, Batch<T>)>, Error> {
        self.set_producing(true);
        while self.here().any(|worker| !self.through[worker]) {
            let begin = Instant::now();
            // What an abandoned worker sends after all is not taken.
            let delivery = self.crew.receive(LOOK).filter(|delivery| self.here[delivery.worker]);
            self.note_waiting(begin.elapsed(), delivery.as_ref().map(|delivery| delivery.worker));
            if delivery.is_none() || self.waited.iter().any(|waited| *waited >= self.deadline) {
                self.look_after()?;
            }
            let Some(delivery) = delivery else { continue };
            match delivery.item {
                Some(Ok(batch)) => return Ok(Some((delivery.worker, batch))),
                Some(Err(error)) => self.lose(delivery.worker, error)?,
                None => self.through[delivery.worker] = true,
            }
        }
        Ok(None)
    }

    /// Counts how long workers have been waited for; what is not waited for may take its time.
    fn note_waiting(&mut self, waited: Duration, sender: Option<usize>) {
        self.waited.iter_mut().for_each(|sum| *sum += waited);
        if let Some(sender) = sender {
            self.waited[sender] = Duration::ZERO;
        }
    }

    /// Finds workers that died or are late.
    fn look_after(&mut self) -> Result<(), Error> {
        for worker in 0..self.here.len() {
            if !self.here[worker] || self.through[worker] {
                continue;
            }
            if let Some(error) = self.crew.death(worker) {
                self.lose(worker, error)?;
            } else if self.waited[worker] >= self.deadline {
                if self.held[worker].load(Relaxed) {
                    // It is not late: the caller holds all its batches.
                    self.waited[worker] = Duration::ZERO;
                    return Err(Error::ArenasHeld { max_arenas: self.max_arenas });
                }
                let late = format!("it sent no batch within {:?}", self.deadline);
                self.lose(worker, Error::worker(worker, late))?;
            }
        }
        Ok(())
    }

    /// Goes on without a worker, if that is wanted and another one is left.
    fn lose(&mut self, worker: usize, error: Error) -> Result<(), Error> {
        let fault = matches!(error, Error::Worker { .. } | Error::EnvPanic { .. });
        if !fault || self.on_fault == OnWorkerFault::Stop || self.here().count() == 1 {
            return Err(error);
        }
        tracing::warn!("worker {worker} is lost, the others go on: {error}");
        self.here[worker] = false;
        let failed = matches!(error, Error::EnvPanic { .. }) || self.crew.death(worker).is_some();
        self.statuses[worker] = if failed { WorkerStatus::Dead } else { WorkerStatus::Abandoned };
        self.common.lock().lost[worker] = true;
        // Nobody waits for it to adopt weights, and what it has in flight is lost.
        self.weights.iter().flatten().for_each(|weights| weights.adopted_by(worker, u64::MAX));
        let mut ledger = self.monitors[worker].ledger();
        let lost = ledger.take_in_flight();
        ledger.counters.discarded.fault += lost;
        let stepped = ledger.counters.stepped_frames;
        drop(ledger);
        // One that is stuck may yet step what it took.
        if failed && let Some((left, taken)) = &self.budgets[worker] {
            left.fetch_add(taken.load(Relaxed) - stepped, Relaxed);
            self.through.fill(false);
            self.here().for_each(|worker| self.crew.produce(worker, true));
        }
        Ok(())
    }

    pub(crate) fn statuses(&self) -> Vec<WorkerStatus> {
        self.statuses.clone()
    }

    /// Has all workers do something between two of their rollouts; the answers in their order.
    pub(crate) fn on_all<R: Send + 'static>(
        &self,
        work: impl Fn(&mut Collector<T>) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, Error> {
        let deadline = Instant::now() + self.deadline;
        let call = |worker| {
            let work = work.clone();
            self.crew.call(worker, move |child: &mut Child<T>| work(&mut child.collector))
        };
        let replies: Vec<_> = self.here().map(call).collect();
        replies.into_iter().map(|reply| reply.wait(deadline)).collect()
    }

    /// The same with the rows of each that are among `rows`; workers without any are left alone.
    pub(crate) fn on_rows<R: Send + 'static>(
        &self,
        rows: &[u32],
        work: impl Fn(&mut Collector<T>, &[u32]) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, Error> {
        let deadline = Instant::now() + self.deadline;
        let call = |worker: usize| {
            let range = self.ranges[worker].clone();
            let own: Vec<u32> = rows.iter().copied().filter(|row| range.contains(row)).collect();
            let work = work.clone();
            (!own.is_empty()).then(|| self.crew.call(worker, move |child: &mut Child<T>| work(&mut child.collector, &own)))
        };
        let replies: Vec<_> = self.here().filter_map(call).collect();
        replies.into_iter().map(|reply| reply.wait(deadline)).collect()
    }

    /// Lets workers that deliver on their own go on, or stand still between two batches.
    pub(crate) fn set_producing(&mut self, on: bool) {
        if self.producing != on {
            self.here().filter(|worker| !self.through[*worker]).for_each(|worker| self.crew.produce(worker, on));
            self.producing = on;
        }
    }

    /// Ends all threads; errors of workers that did not end as they were told.
    pub(crate) fn stop(&mut self, timeout: Duration) -> Vec<Error> {
        self.common.lock().merge = None;
        self.common.stop.store(true, Relaxed);
        let mut errors = Vec::new();
        for (worker, stopped) in self.crew.stop(Instant::now() + timeout) {
            let (status, error) = match stopped {
                Stopped::Back(child) => (WorkerStatus::Ended, child.close().err()),
                Stopped::Died(error) => (WorkerStatus::Dead, Some(error)),
                Stopped::Stuck => {
                    let error = Error::worker(worker, "it is stuck; its thread is left to itself");
                    (WorkerStatus::Abandoned, Some(error))
                }
            };
            self.statuses[worker] = status;
            errors.extend(error);
            let mut ledger = self.monitors[worker].ledger();
            let lost = ledger.take_in_flight();
            ledger.counters.discarded.shutdown += lost;
        }
        self.here.fill(false);
        errors
    }
}

impl<T: Task> Drop for Fleet<T> {
    fn drop(&mut self) {
        // A thread in the middle of a rollout ends with its tick; one that is stuck is not waited for.
        self.stop(self.deadline.min(Duration::from_secs(10)));
    }
}
