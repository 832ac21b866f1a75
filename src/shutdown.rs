//! How a collection ends, and how another one goes on from its counters.

use std::{ops::Range, time::Duration};

use crate::{
    collector::{Collector, State},
    error::Error,
    policy::Actor,
    stats::Counters,
    task::Task,
};

/// How many of the first `frames` frames of a collector of `rows` rows are of the rows `own`.
fn frames_of(own: Range<u32>, rows: usize, frames: u64) -> u64 {
    let (start, end) = (u64::from(own.start), u64::from(own.end).min(rows as u64));
    let (ticks, rest) = (frames / rows as u64, frames % rows as u64);
    ticks * (end - start) + rest.clamp(start, end) - start
}

impl<T: Task> Collector<T> {
    /// Ends the collection: frames that no batch holds are discarded and counted. May be called any number of times;
    /// iteration then yields nothing.
    pub fn shutdown(&mut self) {
        for error in self.end(None) {
            tracing::warn!("{error}");
        }
    }

    /// [`shutdown`](Self::shutdown) that waits for threads no longer than `timeout`, for all of them together. Returns what
    /// went wrong with workers: one that had died unheard, one that is stuck and was left to itself, an environment that
    /// panicked when it was dropped. A pool's threads that were left are counted in
    /// [`Stats::abandoned`](crate::stats::Stats::abandoned).
    pub fn shutdown_within(&mut self, timeout: Duration) -> Vec<Error> {
        self.end(Some(timeout))
    }

    fn end(&mut self, timeout: Option<Duration>) -> Vec<Error> {
        self.state = State::Shut;
        self.stepper.close(&mut self.drive.world, timeout.unwrap_or(Duration::MAX));
        self.drive.abandon();
        self.drive.forget_episodes();
        let timeout = timeout.unwrap_or(self.config.deadline().min(Duration::from_secs(10)));
        let errors = self.fleet.as_mut().map_or_else(Vec::new, |fleet| fleet.stop(timeout));
        self.drive.monitor.close_workers();
        let mut ledger = self.drive.monitor.ledger();
        ledger.counters.discarded.shutdown += std::mem::take(&mut ledger.in_flight);
        ledger.pending = 0;
        errors
    }

    pub(crate) fn shutdown_after(&mut self, error: &Error) {
        if !error.passes() {
            self.shutdown();
        }
    }

    /// The cumulative counters, to be given to [`load_counters`](Self::load_counters) of another collector. Frames that
    /// no batch holds count as discarded there: their episodes are not saved. [`save`](Self::save) saves everything.
    pub fn counters(&self) -> Counters {
        let ledger = self.drive.monitor.whole();
        let mut counters = ledger.counters;
        counters.discarded.shutdown += ledger.in_flight;
        counters
    }

    /// Goes on from the counters of another collector: budget, warm-up, an annealed
    /// epsilon, batch numbers and trajectory ids continue.
    /// Errors: [`Error::State`] once this collector has stepped a frame, and for counters that end within a step of
    /// simulations with several agents.
    pub fn load_counters(&mut self, counters: &Counters) -> Result<(), Error> {
        if self.fleet.is_some() {
            let problem = "workers count for themselves; legal: inline collectors".into();
            return Err(Error::State { call: "load_counters", problem });
        }
        let mut ledger = self.drive.monitor.ledger();
        if ledger.counters.stepped_frames > 0 {
            let problem = "frames were stepped already; legal: before the first rollout".into();
            return Err(Error::State { call: "load_counters", problem });
        }
        if self.agents > 1 && !counters.stepped_frames.is_multiple_of(self.config.rows as u64) {
            let (frames, rows) = (counters.stepped_frames, self.config.rows);
            let problem = format!("{frames} frames are no whole steps of {rows} rows; legal: counters of such steps");
            return Err(Error::State { call: "load_counters", problem });
        }
        ledger.counters = *counters;
        drop(ledger);
        self.drive.renumber(counters.trajectory_serial, &self.entities);
        let (stepped, random) = (counters.stepped_frames, self.config.init_random_frames);
        let mut actors = self.drive.world.query::<&mut Actor<T>>();
        for mut actor in actors.iter_mut(&mut self.drive.world) {
            let frames = |frames: u64| frames_of(actor.rows(), self.config.rows, frames);
            let acted = frames(stepped) - frames(stepped.min(random));
            actor.go_on_from(acted);
        }
        Ok(())
    }

    /// Goes on in place of a worker that had these counters: its warm-up, annealed epsilon and trajectory ids continue.
    pub(crate) fn follow(&mut self, before: &Counters) {
        self.drive.frames_before += before.stepped_frames;
        self.drive.renumber(before.trajectory_serial, &self.entities);
        let stepped = self.drive.frames_before;
        let random = stepped.min(self.drive.share_of(self.config.init_random_frames));
        let mut actors = self.drive.world.query::<&mut Actor<T>>();
        for mut actor in actors.iter_mut(&mut self.drive.world) {
            let frames = |frames: u64| frames_of(actor.rows(), self.config.rows, frames);
            let acted = frames(stepped) - frames(random);
            actor.go_on_from(acted);
        }
    }

    /// The budget is used up: what is in flight belongs to episodes that never end.
    pub(crate) fn finish(&mut self) {
        self.state = State::Finished;
        self.stepper.close(&mut self.drive.world, Duration::MAX);
        self.drive.forget_episodes();
        let mut ledger = self.drive.monitor.ledger();
        ledger.counters.discarded.shutdown += std::mem::take(&mut ledger.in_flight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_those_of_the_rows() {
        let counted =
            |own: &Range<u32>, frames: u64| (0..frames).filter(|frame| own.contains(&((frame % 7) as u32))).count();
        for own in [0..u32::MAX, 0..3, 3..7, 5..6] {
            for frames in 0..40 {
                assert_eq!(frames_of(own.clone(), 7, frames), counted(&own, frames) as u64, "{own:?} of {frames}");
            }
        }
    }
}
