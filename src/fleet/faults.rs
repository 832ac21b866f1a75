//! What is done about a worker that failed or is late.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use super::{member::Member, threads::ThreadFleet};
use crate::{
    components::{Truncation, WorkerStatus},
    config::OnWorkerFault,
    error::Error,
    stats::{Monitor, Watched},
    task::Task,
    workers::Patience,
};

/// Whether an error is a worker's, so that the policy says what is done.
fn is_fault(error: &Error) -> bool {
    matches!(error, Error::Worker { .. }) || error.is_of_row()
}

impl<T: Task> ThreadFleet<T> {
    /// Finds workers that died or are late. Errors: theirs if they end the collection; else [`Error::ArenasHeld`] if the
    /// caller holds all batches of one.
    pub(super) fn look_after(&mut self, front: &Monitor) -> Result<(), Error> {
        let sending: Vec<_> = self.sending().collect();
        let mut held = false;
        for worker in sending {
            let member = &mut self.members[worker];
            if let Some(error) = self.crew.death(worker) {
                self.lose(front, worker, error)?;
            } else if member.waited >= self.deadline {
                if member.held.load(Relaxed) {
                    // It is not late: the caller holds its batches, unless one waits here for those of another worker.
                    member.waited = Duration::ZERO;
                    held |= self.pace.as_ref().is_none_or(|pace| !pace.keeps(worker));
                    continue;
                }
                let late = format!("it sent no batch within {:?}", self.deadline);
                self.lose(front, worker, Error::worker(worker, late))?;
            }
        }
        if held { Err(Error::ArenasHeld { max_arenas: self.parts.config.max_arenas }) } else { Ok(()) }
    }

    /// Gives a worker up, and goes on without it or with another one in its place, if that is wanted. Returns by what the
    /// episodes of its rows are cut.
    pub(super) fn lose(&mut self, front: &Monitor, worker: usize, error: Error) -> Result<Truncation, Error> {
        if !is_fault(&error) || self.on_fault == OnWorkerFault::Stop {
            return Err(error);
        }
        let failed = error.is_of_row() || self.crew.death(worker).is_some();
        self.give_up(worker, failed);
        match self.on_fault {
            OnWorkerFault::Restart { most } => self.restart_up_to(most, front, worker, error)?,
            _ if self.working().next().is_none() => return Err(error),
            _ => {
                tracing::warn!("worker {worker} is lost, the others go on: {error}");
                self.leave_out(worker);
            }
        }
        Ok(if failed { Truncation::Fault } else { Truncation::Timeout })
    }

    /// Nobody waits for a worker that was given up to adopt weights.
    pub(super) fn leave_out(&self, worker: usize) {
        self.weights[worker].iter().flatten().for_each(|weights| weights.gone(worker));
    }

    /// Takes nothing from a worker any more, and counts what it has in flight as lost.
    pub(super) fn give_up(&mut self, worker: usize, failed: bool) {
        let mut filling = self.common.lock();
        filling.lives[worker] = None;
        self.common.preempt(&filling);
        drop(filling);
        self.crew.dismiss(worker);
        if let Some(pace) = &mut self.pace {
            pace.lose(worker);
        }
        let member = &mut self.members[worker];
        member.status = if failed { WorkerStatus::Dead } else { WorkerStatus::Abandoned };
        let mut ledger = member.monitor.ledger();
        ledger.give_up();
        let stepped = ledger.counters.stepped_frames;
        drop(ledger);
        // What it took of the budget; one that is stuck may step it yet.
        if failed && let Some(taken) = &member.taken {
            self.parts.budget.fetch_add(taken.load(Relaxed).saturating_sub(stepped), Relaxed);
            // Not those that have sent an error which is not received yet.
            let through: Vec<_> = self.working().filter(|worker| self.members[*worker].through).collect();
            for worker in through {
                self.members[worker].through = false;
                self.crew.produce(worker, self.producing);
            }
        }
    }

    /// Restarts a worker, as often as all together may be: one that cannot be built has failed again.
    fn restart_up_to(&mut self, most: u32, front: &Monitor, worker: usize, mut error: Error) -> Result<(), Error> {
        while self.restarts < most {
            tracing::warn!("worker {worker} is restarted: {error}");
            self.restarts += 1;
            self.first.get_or_insert(error);
            match self.restart(front, worker) {
                Err(again) if is_fault(&again) => error = again,
                done => return done,
            }
        }
        // Of many faults the first one tells most.
        Err(self.first.take().unwrap_or(error))
    }

    /// Builds a worker anew, on its own thread, with other episodes of the same rows.
    fn restart(&mut self, front: &Monitor, worker: usize) -> Result<(), Error> {
        let member = &mut self.members[worker];
        // Also of an attempt that fails: the next one plays other episodes.
        member.life += 1;
        let (rows, life) = (member.rows.clone(), member.life);
        let mut counters = member.monitor.ledger().counters;
        counters.stepped_frames += member.stepped_before;
        let (parts, stop, weights) = (self.parts.clone(), self.common.stop.clone(), self.weights[worker].clone());
        // What the life before adopts yet says nothing of this one.
        weights.iter().flatten().for_each(|weights| weights.replaced(worker, life));
        let make = move || {
            let child = parts.child(worker, &rows, Some(weights), life, Some(counters), &stop)?;
            let member = Member { stepped_before: counters.stepped_frames, ..Member::of(&child, rows, life) };
            let critic = child.collector.critic.clone();
            Ok((child, (member, critic)))
        };
        let token = Arc::default();
        let thread = Arc::downgrade(&token);
        let (member, critic) = self.crew.replace(worker, life, make, token, Patience::new(self.deadline))?;
        if let (Some(critics), Some(critic)) = (&self.critics, critic) {
            critics.replace(worker, critic);
        }
        self.members[worker] = member;
        let monitor = self.members[worker].monitor.clone();
        front.watch(Watched { worker, monitor, thread });
        self.common.lock().lives[worker] = Some(life);
        self.crew.produce(worker, self.producing);
        Ok(())
    }
}
