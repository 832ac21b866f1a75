//! Forced resets: ending episodes from outside, between rollouts.

use std::collections::HashSet;

use bevy_ecs::prelude::*;

use crate::{
    collector::{Collector, Rows},
    components::{
        ActionKey, End, Episode, EpisodeReturn, EpisodeStep, Observation, RowIndex, Trajectory, TrajectoryId,
        Truncation,
    },
    env::{BatchEnv, BatchSim, Env, EnvSettings, PoolOptions},
    error::Error,
    rollout::{Ended, with_rollout},
    seed::{Purpose, Seed, Stream},
    task::Task,
};

impl<T: Task> Collector<T> {
    /// Ends the episodes of `rows`, truncated by a forced reset, and starts new ones under new ids; with the agents of a
    /// simulation that a row is of, those of all its agents. Frames of theirs
    /// that wait for a batch of whole trajectories are discarded and counted. Errors: a row that does not exist; what
    /// `reset` of the environment gives, after a clean shutdown.
    pub fn reset(&mut self, rows: Rows<'_>) -> Result<(), Error> {
        let slots = self.slots(rows)?;
        self.cut(&slots);
        self.restart_rows(&slots)
    }

    /// Gives all rows the streams of `seed`, ends their episodes as [`reset`](Self::reset) does, and returns the next
    /// seed of the chain: [`Seed::next`]. From here on the data are those of a new collector with this seed, but for what
    /// goes on: counters and so the warm-up, weights, normalisation, and what a factory drew.
    pub fn set_seed(&mut self, seed: u64) -> Result<u64, Error> {
        self.set_seed_static(seed)?;
        Ok(Seed(seed).next().0)
    }

    /// [`set_seed`](Self::set_seed) without moving along the chain: returns `seed`.
    pub fn set_seed_static(&mut self, seed: u64) -> Result<u64, Error> {
        let slots = self.slots(Rows::All)?;
        self.cut(&slots);
        self.config.seed = seed;
        self.stepper.reseed(&mut self.drive.world, Seed(seed));
        // Rows and episodes may be called as before.
        self.drive.forget_states();
        for entity in &self.entities {
            let Ok(mut row) = self.drive.world.get_entity_mut(*entity) else { continue };
            let Some(RowIndex(index)) = row.get::<RowIndex>().copied() else { continue };
            row.insert((
                Episode(0),
                Stream::new(Seed(seed), index, Purpose::Env, 0),
                ActionKey(Seed(seed).row_key(index, Purpose::Action)),
            ));
        }
        self.restart_rows(&slots)?;
        Ok(seed)
    }

    fn slots(&self, rows: Rows<'_>) -> Result<Vec<(u32, RowIndex)>, Error> {
        let all = || (0..).zip(self.drive.rows.iter().copied());
        match rows {
            Rows::All => Ok(all().collect()),
            Rows::Some(rows) => {
                if let Some(row) = rows.iter().find(|row| !self.drive.rows.contains(&RowIndex(**row))) {
                    return Err(Error::config("row", row, format!("0 to {}", self.rows() - 1)));
                }
                // Agents of one simulation begin and end together.
                let simulations = (self.rows() / self.agents) as u32;
                let simulation = |row: u32| row % simulations;
                let ended: HashSet<u32> = rows.iter().map(|row| simulation(*row)).collect();
                Ok(all().filter(|(slot, _)| ended.contains(&simulation(*slot))).collect())
            }
        }
    }

    /// Ends the episodes of the rows in `slots`; environments are not touched yet.
    fn cut(&mut self, slots: &[(u32, RowIndex)]) {
        let joins = self.joins();
        self.discard_waiting(slots);
        let Self { drive, entities, .. } = self;
        with_rollout::<T, _>(&mut drive.world, |world, rollout| {
            let mut ledger = drive.monitor.ledger();
            for (slot, row) in slots {
                let Ok(mut entity) = world.get_entity_mut(entities[*slot as usize]) else { continue };
                let Ok((mut step, mut total, mut id, mut episode, mut stream, last)) = entity.get_components_mut::<(
                    &mut EpisodeStep,
                    &mut EpisodeReturn,
                    &mut TrajectoryId,
                    &mut Episode,
                    &mut Stream,
                    &Observation<T>,
                )>() else {
                    continue;
                };
                let trajectory = Trajectory {
                    id: *id,
                    row: *row,
                    rollout: rollout.rollout,
                    // Before the first tick.
                    tick: u32::MAX,
                    length: step.0,
                    total_reward: total.0,
                    first_version: rollout.first_versions[*slot as usize],
                    last_version: rollout.plan.versions.of(*slot),
                    end: End::truncated_by(Truncation::ForcedReset),
                };
                if joins {
                    ledger.pending = ledger.pending.saturating_sub(u64::from(step.0));
                } else if step.0 > 0 {
                    ledger.episodes_ended(&[trajectory]);
                    rollout.forced.push_back((Ended { slot: *slot, last: last.0 }, trajectory));
                }
                (*step, *total, *id) = (EpisodeStep(0), EpisodeReturn(0.0), rollout.next_id());
                episode.0 += 1;
                stream.start_episode(episode.0);
                rollout.started.push(*slot);
            }
            ledger.counters.trajectory_serial = rollout.serial;
        });
    }

    /// Drops the frames of the rows in `slots` that wait for the end of their episode or for a batch.
    fn discard_waiting(&mut self, slots: &[(u32, RowIndex)]) {
        if !self.joins() {
            return;
        }
        let specs = self.drive.specs.clone();
        let Some(mut assembly) = self.drive.assembly() else { return };
        let frames = assembly.clear_rows(slots, &specs) as u64;
        let open = assembly.open_frames() as u64;
        let mut ledger = self.drive.monitor.ledger();
        ledger.counters.discarded.reset += frames;
        ledger.in_flight -= frames;
        ledger.open = open;
    }

    fn restart_rows(&mut self, slots: &[(u32, RowIndex)]) -> Result<(), Error> {
        let entities: Vec<Entity> = slots.iter().map(|(slot, _)| self.entities[*slot as usize]).collect();
        // Rows that did not start have no first observation to go on from.
        self.stepper.restart(&mut self.drive.world, &entities).inspect_err(|_| self.shutdown())
    }
}

impl<E: Env> Collector<E> {
    /// Replaces the options of all later resets.
    pub fn set_reset_options(&mut self, options: E::Options) {
        *self.reset_options() = options;
    }

    /// [`reset`](Self::reset) with options of its own; later resets have the old ones.
    pub fn reset_with(&mut self, rows: Rows<'_>, options: E::Options) -> Result<(), Error> {
        let kept = std::mem::replace(self.reset_options(), options);
        let done = self.reset(rows);
        self.set_reset_options(kept);
        done
    }

    fn reset_options(&mut self) -> &mut E::Options {
        let world = &mut self.drive.world;
        if world.contains_resource::<PoolOptions<E>>() {
            return &mut world.resource_mut::<PoolOptions<E>>().into_inner().0;
        }
        &mut world.resource_mut::<EnvSettings<E>>().into_inner().options
    }
}

impl<S: BatchEnv> Collector<S> {
    /// Replaces the options of all later resets of a simulator.
    pub fn set_simulator_options(&mut self, options: S::Options) {
        self.drive.world.resource_mut::<BatchSim<S>>().options = options;
    }
}
