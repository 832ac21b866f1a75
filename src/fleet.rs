//! A collector whose rows are spread over workers: threads that each own a collector of some of the rows.
//!
//! In step, all fill one rollout part by part; else each sends its batches when they are done. Either way the collector
//! in front delivers, writes and counts as one without workers does.

mod build;
mod child;
mod faults;
mod member;

use std::{
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

pub(crate) use build::build;
pub(crate) use child::{Budget, Child};

use build::Parts;
use member::Member;

use crate::{
    collector::Collector,
    components::{Truncation, WorkerStatus},
    config::OnWorkerFault,
    error::Error,
    rollout::{Batch, Block, Merge, Rollout},
    stats::Monitor,
    task::Task,
    weights::WeightsHandle,
    workers::{Crew, Reply, Stopped, open, until},
};

/// Longest time after which a thread that ended without a word is noticed.
const LOOK: Duration = Duration::from_millis(100);

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
    /// By worker: its life from which parts are taken; none from one that was given up.
    lives: Vec<Option<u32>>,
}

impl<T: Task> Filling<T> {
    fn is_of(&self, round: u64) -> bool {
        self.merge.as_ref().is_some_and(|(current, _)| *current == round)
    }
}

impl<T: Task> Common<T> {
    fn lock(&self) -> MutexGuard<'_, Filling<T>> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came of waiting for a batch.
pub(crate) enum Received<T: Task> {
    /// A batch, and the counters of its worker.
    Batch(Monitor, Batch<T>),
    /// None yet.
    Nothing,
    /// None any more.
    Through,
}

/// The workers of a collector.
pub(crate) struct Fleet<T: Task> {
    parts: Parts<T>,
    crew: Crew<Child<T>>,
    members: Vec<Member>,
    weights: Vec<Option<WeightsHandle>>,
    common: Arc<Common<T>>,
    deadline: Duration,
    on_fault: OnWorkerFault,
    /// The first error of a worker that was restarted.
    first: Option<Error>,
    restarts: u32,
    producing: bool,
    /// Number of the rollout in progress.
    round: u64,
}

impl<T: Task> Fleet<T> {
    /// The workers that are worked with yet.
    pub(crate) fn here(&self) -> impl Iterator<Item = usize> {
        let here = |(worker, member): (usize, &Member)| (member.status == WorkerStatus::Working).then_some(worker);
        self.members.iter().enumerate().filter_map(here)
    }

    /// Those of them that will send something.
    fn sending(&self) -> impl Iterator<Item = usize> {
        self.here().filter(|worker| !self.members[*worker].through)
    }

    /// Collects a rollout of `ticks` ticks of all workers, whose last tick steps as many rows as `left` frames allow.
    /// Returns it with the rows of workers that were lost meanwhile.
    pub(crate) fn roll(
        &mut self,
        front: &Monitor,
        rollout: &mut Rollout<T>,
        block: Box<Block<T>>,
        ticks: usize,
        left: u64,
    ) -> Result<(Box<Block<T>>, Vec<Range<u32>>), Error> {
        let rows = self.members.last().map_or(0, |member| member.rows.end as usize);
        let share = self.shares(ticks, left);
        self.round += 1;
        self.common.stop.store(false, Relaxed);
        self.common.finished.store(0, Relaxed);
        self.common.lock().merge = Some((self.round, Merge::begin(rollout, block, rows, ticks)));
        let deadline = until(self.deadline);
        let replies: Vec<_> =
            share.into_iter().map(|(worker, left)| (worker, self.order_roll(worker, ticks, left))).collect();
        let (mut error, mut lost) = (None, Vec::new());
        for (worker, reply) in replies {
            // With an error the others' frames are of no use.
            let until = if error.is_some() { Instant::now() } else { deadline };
            let Err(failed) = reply.wait(until).flatten() else { continue };
            if error.is_none() {
                lost.push(self.members[worker].rows.clone());
                error = self.lose(front, worker, failed).err();
            }
            if error.is_some() {
                self.common.stop.store(true, Relaxed);
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
        for rows in &lost {
            let slots = rows.start as usize..rows.end as usize;
            if self.parts.joins() {
                // Their episodes have lost what went before, or what comes.
                front.ledger().counters.discarded.fault += merge.drop_rows(slots) as u64;
            } else {
                merge.cut(slots, Truncation::Fault);
            }
        }
        front.ledger().in_flight += merge.frames() as u64;
        Ok((merge.finish(rollout), lost))
    }

    /// Rows of the workers that are worked with yet.
    pub(crate) fn live_rows(&self) -> usize {
        self.here().map(|worker| self.members[worker].rows.len()).sum()
    }

    /// How many frames each worker may step in `ticks` ticks: the last one steps the rows that the budget leaves, in
    /// their order.
    fn shares(&self, ticks: usize, left: u64) -> Vec<(usize, u64)> {
        let whole = ticks as u64 - 1;
        let mut rest = left.saturating_sub(whole * self.live_rows() as u64);
        let share = |worker: usize| {
            let rows = self.members[worker].rows.len() as u64;
            let own = rest.min(rows);
            rest -= own;
            (worker, whole * rows + own)
        };
        self.here().map(share).collect()
    }

    fn order_roll(&self, worker: usize, ticks: usize, left: u64) -> Reply<Result<(), Error>> {
        let (common, round, first) = (self.common.clone(), self.round, self.members[worker].rows.start as usize);
        self.crew.call(worker, move |child| child.roll(&common, round, first, ticks, left))
    }

    /// The next batch that any worker sends. Waits until there is one, unless it is to look only for a moment.
    pub(crate) fn receive(&mut self, front: &Monitor, only_look: bool) -> Result<Received<T>, Error> {
        self.set_producing(true);
        while self.sending().next().is_some() {
            let begin = Instant::now();
            let delivery = self.crew.receive(LOOK);
            self.members.iter_mut().for_each(|member| member.waited += begin.elapsed());
            if let Some(delivery) = &delivery
                && self.members[delivery.worker].life == delivery.life
            {
                self.members[delivery.worker].waited = Duration::ZERO;
            }
            if delivery.is_none() || self.members.iter().any(|member| member.waited >= self.deadline) {
                self.look_after(front)?;
            }
            // What a worker that was given up sends after all is not taken.
            let is_current = |worker: usize, life| {
                let member = &self.members[worker];
                member.status == WorkerStatus::Working && member.life == life
            };
            let Some(delivery) = delivery.filter(|delivery| is_current(delivery.worker, delivery.life)) else {
                if only_look {
                    return Ok(Received::Nothing);
                }
                continue;
            };
            let member = &mut self.members[delivery.worker];
            match delivery.item {
                Some(Ok(batch)) => return Ok(Received::Batch(member.monitor.clone(), open(batch))),
                Some(Err(error)) => self.lose(front, delivery.worker, error)?,
                None => member.through = true,
            }
        }
        Ok(Received::Through)
    }

    /// Has all workers do something between two of their rollouts; the answers in their order.
    pub(crate) fn on_all<R: Send + 'static>(
        &self,
        work: impl Fn(&mut Collector<T>) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, Error> {
        self.on_each(self.here().map(|_| ()).collect(), move |worker, ()| work(worker))
    }

    /// The same with something for each, in their order.
    pub(crate) fn on_each<A: Send + 'static, R: Send + 'static>(
        &self,
        given: Vec<A>,
        work: impl Fn(&mut Collector<T>, A) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, Error> {
        let deadline = until(self.deadline);
        let call = |(worker, given)| {
            let work = work.clone();
            self.crew.call(worker, move |child: &mut Child<T>| work(&mut child.collector, given))
        };
        let replies: Vec<_> = self.here().zip(given).map(call).collect();
        replies.into_iter().map(|reply| reply.wait(deadline)).collect()
    }

    /// The same with the rows of each that are among `rows`; workers without any are left alone.
    pub(crate) fn on_rows<R: Send + 'static>(
        &self,
        rows: &[u32],
        work: impl Fn(&mut Collector<T>, &[u32]) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, Error> {
        let deadline = until(self.deadline);
        let call = |worker: usize| {
            let range = &self.members[worker].rows;
            let own: Vec<u32> = rows.iter().copied().filter(|row| range.contains(row)).collect();
            let work = work.clone();
            let call = move |child: &mut Child<T>| work(&mut child.collector, &own);
            rows.iter().any(|row| range.contains(row)).then(|| self.crew.call(worker, call))
        };
        let replies: Vec<_> = self.here().filter_map(call).collect();
        replies.into_iter().map(|reply| reply.wait(deadline)).collect()
    }

    /// Lets workers that deliver on their own go on, or stand still between two batches.
    pub(crate) fn set_producing(&mut self, on: bool) {
        if self.producing != on {
            self.sending().for_each(|worker| self.crew.produce(worker, on));
            self.producing = on;
        }
    }

    pub(crate) fn statuses(&self) -> Vec<WorkerStatus> {
        self.members.iter().map(|member| member.status).collect()
    }

    /// Ends all threads; errors of workers that did not end as they were told.
    pub(crate) fn stop(&mut self, timeout: Duration) -> Vec<Error> {
        self.common.lock().merge = None;
        self.common.stop.store(true, Relaxed);
        let mut errors = Vec::new();
        for (worker, stopped) in self.crew.stop(until(timeout)) {
            let (status, error) = match stopped {
                Stopped::Back(child) => (WorkerStatus::Ended, child.close().err()),
                Stopped::Died(error) => (WorkerStatus::Dead, Some(error)),
                Stopped::Stuck => {
                    let error = Error::worker(worker, "it is stuck; its thread is left to itself");
                    (WorkerStatus::Abandoned, Some(error))
                }
            };
            let member = &mut self.members[worker];
            if member.status == WorkerStatus::Working {
                member.status = status;
                errors.extend(error);
            }
            let mut ledger = member.monitor.ledger();
            let lost = ledger.take_in_flight();
            ledger.counters.discarded.shutdown += lost;
        }
        errors
    }
}

impl<T: Task> Drop for Fleet<T> {
    fn drop(&mut self) {
        // A thread in the middle of a rollout ends with its tick; one that is stuck is not waited for.
        self.stop(self.deadline.min(Duration::from_secs(10)));
    }
}
