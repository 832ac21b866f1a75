//! Workers that are threads of this process.

use std::{
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use super::{
    Errand, Fleet, Received,
    build::{Handles, Parts},
    child::Child,
    member::Member,
    pace::Pace,
};
use crate::{
    components::WorkerStatus,
    config::OnWorkerFault,
    error::Error,
    policy::WorkerCritics,
    rollout::{Block, Merge, Rollout},
    stats::{Ledger, Monitor},
    task::Task,
    workers::{Crew, LOOK, Parcel, Patience, Reply, Stopped, open, until},
};

/// What the workers of a rollout share.
pub(super) struct Common<T: Task> {
    pub filling: Mutex<Filling<T>>,
    /// Set when the others are not waited for any more, and at the end.
    pub stop: Arc<AtomicBool>,
    /// Share of the workers after which `stop` is set.
    pub share: f32,
}

/// The rollout that workers fill together.
pub(super) struct Filling<T: Task> {
    /// None between rollouts; a part that comes late finds none, or another one's.
    pub merge: Option<(u64, Merge<T>)>,
    /// By worker: its life from which parts are taken; none from one that was given up.
    pub lives: Vec<Option<u32>>,
    /// Workers that have done their part.
    pub finished: usize,
}

impl<T: Task> Filling<T> {
    pub(super) fn is_of(&self, round: u64) -> bool {
        self.merge.as_ref().is_some_and(|(current, _)| *current == round)
    }
}

impl<T: Task> Common<T> {
    pub(super) fn lock(&self) -> MutexGuard<'_, Filling<T>> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the others stop once enough of those that are left have done their part. All together are never waited for less.
    pub(super) fn preempt(&self, filling: &Filling<T>) {
        let here = filling.lives.iter().flatten().count();
        let enough = (here as f32 * self.share) as usize;
        if enough < here && filling.finished >= enough.max(1) {
            self.stop.store(true, Relaxed);
        }
    }
}

/// The workers of a collector.
pub(super) struct ThreadFleet<T: Task> {
    pub parts: Arc<Parts<T>>,
    pub crew: Crew<Child<T>>,
    pub members: Vec<Member>,
    /// By worker.
    pub weights: Vec<Handles>,
    /// What gives values to the front's batches, if each worker has weights of its own.
    pub critics: Option<Arc<WorkerCritics<T>>>,
    pub common: Arc<Common<T>>,
    pub deadline: Duration,
    pub on_fault: OnWorkerFault,
    /// The first error of a worker that was restarted.
    pub first: Option<Error>,
    pub restarts: u32,
    pub producing: bool,
    /// How far those that deliver on their own run ahead, if there is a bound.
    pub pace: Option<Pace<Parcel>>,
    /// Number of the rollout in progress.
    pub round: u64,
}

impl<T: Task> ThreadFleet<T> {
    /// The workers that are worked with yet.
    pub(super) fn working(&self) -> impl Iterator<Item = usize> {
        let here = |(worker, member): (usize, &Member)| (member.status == WorkerStatus::Working).then_some(worker);
        self.members.iter().enumerate().filter_map(here)
    }

    /// Those of them that will send something.
    pub(super) fn sending(&self) -> impl Iterator<Item = usize> {
        self.working().filter(|worker| !self.members[*worker].through)
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
        self.working().map(share).collect()
    }

    fn order_roll(&self, worker: usize, ticks: usize, left: u64) -> Reply<Result<(), Error>> {
        let (common, round, first) = (self.common.clone(), self.round, self.members[worker].rows.start as usize);
        self.crew.call(worker, move |child| child.roll(&common, round, first, ticks, left))
    }

    /// Has workers begin batches, as far as they may run ahead.
    fn order_batches(&mut self) {
        let sending: Vec<_> = self.sending().collect();
        while let Some(worker) = self.pace.as_mut().and_then(|pace| pace.order(sending.iter().copied())) {
            if let Some(ordered) = &self.members[worker].ordered {
                ordered.store(true, Relaxed);
            }
            self.crew.produce(worker, true);
        }
    }

    /// Notes that those who make something were waited for. A look that took longer than it may did so because nothing ran
    /// on the machine: those who are waited for stood still as well.
    fn count_waiting(&mut self, time: Duration) {
        let time = time.min(LOOK);
        for (worker, member) in self.members.iter_mut().enumerate() {
            let makes = self.pace.as_ref().is_none_or(|pace| pace.waits_for(worker));
            member.waited = if makes { member.waited + time } else { Duration::ZERO };
        }
    }
}

impl<T: Task> Fleet<T> for ThreadFleet<T> {
    fn here(&self) -> Vec<(usize, Range<u32>)> {
        self.working().map(|worker| (worker, self.members[worker].rows.clone())).collect()
    }

    fn live_rows(&self) -> usize {
        self.working().map(|worker| self.members[worker].rows.len()).sum()
    }

    fn statuses(&self) -> Vec<WorkerStatus> {
        self.members.iter().map(|member| member.status).collect()
    }

    fn lives(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.life).collect()
    }

    fn follow_lives(&mut self, lives: Vec<(u32, Option<Ledger>)>) {
        for (worker, (life, lost)) in lives.into_iter().enumerate() {
            self.members[worker].life = life;
            if let Some(ledger) = lost {
                self.give_up(worker, true);
                self.leave_out(worker);
                *self.members[worker].monitor.ledger() = ledger;
            }
        }
    }

    fn roll(
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
        let mut filling = self.common.lock();
        filling.merge = Some((self.round, Merge::begin(rollout, block, rows, ticks)));
        filling.finished = 0;
        drop(filling);
        let mut patience = Patience::new(self.deadline);
        let replies: Vec<_> =
            share.into_iter().map(|(worker, left)| (worker, self.order_roll(worker, ticks, left))).collect();
        let (mut error, mut lost) = (None, Vec::new());
        for (worker, reply) in replies {
            let Err(failed) = reply.wait(&mut patience).flatten() else { continue };
            if error.is_none() {
                let rows = self.members[worker].rows.clone();
                match self.lose(front, worker, failed) {
                    Ok(reason) => lost.push((rows, reason)),
                    Err(failed) => error = Some(failed),
                }
            }
            if error.is_some() {
                self.common.stop.store(true, Relaxed);
                // The others' frames are of no use.
                patience = Patience::new(Duration::ZERO);
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
        for (rows, reason) in &lost {
            let slots = rows.start as usize..rows.end as usize;
            if self.parts.joins() {
                // Their episodes have lost what went before, or what comes.
                front.ledger().counters.discarded.fault += merge.drop_rows(slots) as u64;
            } else {
                merge.cut(slots, *reason);
            }
        }
        front.ledger().in_flight += merge.frames() as u64;
        Ok((merge.finish(rollout), lost.into_iter().map(|(rows, _)| rows).collect()))
    }

    fn receive(&mut self, front: &Monitor, only_look: bool) -> Result<Received<T>, Error> {
        self.set_producing(true);
        loop {
            self.order_batches();
            if let Some((worker, batch)) = self.pace.as_mut().and_then(Pace::next) {
                return Ok(Received::Batch(self.members[worker].monitor.clone(), open(batch)));
            }
            if self.sending().next().is_none() {
                return Ok(Received::Through);
            }
            let begin = Instant::now();
            let delivery = self.crew.receive(LOOK);
            self.count_waiting(begin.elapsed());
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
                Some(Ok(batch)) => match &mut self.pace {
                    Some(pace) => pace.came(delivery.worker, batch),
                    None => return Ok(Received::Batch(member.monitor.clone(), open(batch))),
                },
                Some(Err(error)) => {
                    self.lose(front, delivery.worker, error)?;
                }
                None => {
                    // Since it found the budget used up, one that failed may have given something back.
                    member.through = self.parts.budget.load(Relaxed) == 0;
                    if !member.through {
                        self.crew.produce(delivery.worker, true);
                    }
                    if let Some(pace) = &mut self.pace {
                        pace.end(delivery.worker);
                    }
                }
            }
        }
    }

    fn send(&self, errands: Vec<(usize, Errand<T>)>) -> Result<Vec<Parcel>, Error> {
        let mut patience = Patience::new(self.deadline);
        let call = |(worker, errand): (usize, Errand<T>)| {
            self.crew.call(worker, move |child: &mut Child<T>| errand(&mut child.collector))
        };
        let replies: Vec<_> = errands.into_iter().map(call).collect();
        replies.into_iter().map(|reply| reply.wait(&mut patience)).collect()
    }

    fn set_producing(&mut self, on: bool) {
        if self.producing != on {
            self.sending().for_each(|worker| self.crew.produce(worker, on));
            self.producing = on;
        }
    }

    fn stop(&mut self, timeout: Duration) -> Vec<Error> {
        self.common.lock().merge = None;
        self.common.stop.store(true, Relaxed);
        let mut errors = Vec::new();
        for (worker, stopped) in self.crew.stop(until(timeout)) {
            let (status, error) = match stopped {
                Stopped::Back(_) => (WorkerStatus::Ended, None),
                Stopped::Closed(closed) => {
                    // Also of one that was given up before.
                    errors.extend(closed.err());
                    (WorkerStatus::Ended, None)
                }
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

impl<T: Task> Drop for ThreadFleet<T> {
    fn drop(&mut self) {
        // A thread in the middle of a rollout ends with its tick; one that is stuck is not waited for.
        self.stop(self.deadline.min(Duration::from_secs(10)));
    }
}
