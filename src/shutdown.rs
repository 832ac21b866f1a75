//! How a collection ends, and how another one goes on from its counters.

use crate::{
    collector::{Collector, State},
    error::Error,
    policy::Actor,
    stats::Counters,
    task::Task,
};

impl<T: Task> Collector<T> {
    /// Ends the collection: frames that no batch holds are discarded and counted. May be called any number of times;
    /// iteration then yields nothing.
    pub fn shutdown(&mut self) {
        self.state = State::Shut;
        self.drive.abandon();
        self.drive.forget_episodes();
        let mut ledger = self.drive.monitor.ledger();
        ledger.counters.discarded.shutdown += std::mem::take(&mut ledger.in_flight);
        ledger.pending = 0;
    }

    pub(crate) fn shutdown_after(&mut self, error: &Error) {
        if !matches!(error, Error::ArenasHeld { .. }) {
            self.shutdown();
        }
    }

    /// The cumulative counters, to be given to [`load_counters`](Self::load_counters) of another collector. Frames that
    /// no batch holds count as discarded there: their episodes are not saved.
    pub fn counters(&self) -> Counters {
        let ledger = self.drive.monitor.ledger();
        let mut counters = ledger.counters;
        counters.discarded.shutdown += ledger.in_flight;
        counters
    }

    /// Goes on from the counters of another collector: budget, warm-up, an annealed
    /// epsilon, batch numbers and trajectory ids continue.
    /// Errors: [`Error::State`] once this collector has stepped a frame.
    pub fn load_counters(&mut self, counters: &Counters) -> Result<(), Error> {
        let mut ledger = self.drive.monitor.ledger();
        if ledger.counters.stepped_frames > 0 {
            let problem = "frames were stepped already; legal: before the first rollout".into();
            return Err(Error::State { call: "load_counters", problem });
        }
        ledger.counters = *counters;
        drop(ledger);
        self.drive.renumber(counters.trajectory_serial, &self.entities);
        let acted = counters.stepped_frames.saturating_sub(self.config.init_random_frames);
        let mut actors = self.drive.world.query::<&mut Actor<T>>();
        actors.iter_mut(&mut self.drive.world).for_each(|mut actor| actor.go_on_from(acted));
        Ok(())
    }

    /// The budget is used up: what is in flight belongs to episodes that never end.
    pub(crate) fn finish(&mut self) {
        self.state = State::Finished;
        self.drive.forget_episodes();
        let mut ledger = self.drive.monitor.ledger();
        ledger.counters.discarded.shutdown += std::mem::take(&mut ledger.in_flight);
    }
}
