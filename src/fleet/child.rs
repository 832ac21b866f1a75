//! What a worker's thread owns: a collector of its rows.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use super::threads::Common;
use crate::{
    collector::Collector,
    config::CollectorConfig,
    drive::Ticks,
    error::Error,
    rollout::Place,
    task::Task,
    workers::{Job, Made},
};

/// Frames that workers may step yet, taken from one store.
pub(crate) struct Budget {
    pub left: Arc<AtomicU64>,
    /// What is taken and not stepped yet.
    pub granted: u64,
    /// What was ever taken.
    pub taken: Arc<AtomicU64>,
}

impl Budget {
    /// Frames of the next rollout, at most `most`.
    pub(crate) fn grant(&mut self, most: u64) -> u64 {
        if self.granted == 0 {
            let take = |left: u64| Some(left - left.min(most));
            self.granted = self.left.fetch_update(Relaxed, Relaxed, take).map_or(0, |left| left.min(most));
            self.taken.fetch_add(self.granted, Relaxed);
        }
        self.granted
    }
}

/// A worker's collector.
pub(crate) struct Child<T: Task> {
    pub collector: Collector<T>,
    /// Its number, and how often it was restarted.
    pub worker: usize,
    pub life: u32,
    /// Whether the caller's batches hold it back.
    pub held: Arc<AtomicBool>,
    /// Whether it is to make a batch; none if it makes as many as there is room for.
    pub ordered: Option<Arc<AtomicBool>>,
}

impl<T: Task> Child<T> {
    /// What was ordered is made, or will not be.
    fn served(&self) {
        if let Some(ordered) = &self.ordered {
            ordered.store(false, Relaxed);
        }
    }
}

/// Ticks of a part: as many as stay in the cache from when they are written to when they are copied.
fn part_ticks(config: &CollectorConfig, frame_bytes: usize) -> usize {
    const CACHE: usize = 256 << 10;
    (CACHE / (config.rows * frame_bytes).max(1)).max(1)
}

impl<T: Task> Child<T> {
    /// Collects this worker's rows of a rollout, and hands them over part by part.
    pub(super) fn roll(
        &mut self,
        common: &Common<T>,
        round: u64,
        first: usize,
        ticks: usize,
        left: u64,
    ) -> Result<(), Error> {
        let done = self.roll_parts(common, round, first, ticks, left);
        let mut filling = common.lock();
        if filling.lives[self.worker] == Some(self.life) && filling.is_of(round) {
            match done {
                Ok(()) => filling.finished += 1,
                // It will be given up when it is heard; the others are preempted as if it was.
                Err(_) => filling.lives[self.worker] = None,
            }
            common.preempt(&filling);
        }
        drop(filling);
        done
    }

    fn roll_parts(
        &mut self,
        common: &Common<T>,
        round: u64,
        first: usize,
        ticks: usize,
        left: u64,
    ) -> Result<(), Error> {
        let Collector { drive, config, .. } = &mut self.collector;
        drive.adopt_weights()?;
        // A recurrent policy's states are kept where a rollout ends: parts would lack them.
        let frame_bytes = drive.specs.iter().map(|spec| spec.stride).sum();
        let part = if drive.remembers() { ticks } else { part_ticks(config, frame_bytes) };
        let (mut tick, mut left) = (0, left);
        while tick < ticks && !(tick > 0 && common.stop.load(Relaxed)) {
            let now = part.min(ticks - tick);
            let block = drive.pool.take()?;
            let block = drive.roll(config, block, Ticks { now, later: ticks - tick - now }, left, &common.stop)?;
            let done = drive.ticks_done();
            let mut filling = common.lock();
            let lost = filling.lives[self.worker] != Some(self.life);
            match filling.merge.as_mut().filter(|(current, _)| *current == round && !lost) {
                Some((_, merge)) => {
                    drive.hand_over(&block, |ended| merge.take(&block, ended, done, Place { first, tick }));
                }
                None => drive.lose_in_flight(),
            }
            drop(filling);
            drive.pool.give_back(block);
            left = left.saturating_sub((done * config.rows) as u64);
            tick += done;
            if done < now {
                break;
            }
        }
        Ok(())
    }
}

impl<T: Task> Job for Child<T> {
    fn produce(&mut self) -> Made {
        if self.ordered.as_ref().is_some_and(|ordered| !ordered.load(Relaxed)) {
            return Made::Rest;
        }
        self.collector.stepwise = true;
        let produced = self.collector.produce();
        self.collector.stepwise = false;
        self.held.store(matches!(produced, Err(Error::ArenasHeld { .. })), Relaxed);
        match produced {
            Ok(Some(batch)) => {
                self.collector.drive.monitor.ledger().send(batch.frames() as u64);
                self.served();
                Made::Item(Box::new(batch))
            }
            Ok(None) if std::mem::take(&mut self.collector.not_yet) => Made::More,
            Ok(None) => {
                self.collector.finish();
                self.served();
                Made::End
            }
            Err(Error::ArenasHeld { .. }) => Made::Nothing,
            Err(error) => Made::Failed(error),
        }
    }

    fn close(mut self: Box<Self>) -> Result<(), Error> {
        self.collector.drive.world.drop_envs()
    }
}
