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
    rollout::{Assembly, Ended, Rollout, with_rollout},
    seed::{Purpose, Seed, Stream},
    task::Task,
};

impl<T: Task> Collector<T> {
    /// Ends the episodes of `rows`, truncated by a forced reset, and starts new ones under new ids; with the agents of a
    /// simulation that a row is of, those of all its agents. Frames of theirs
    /// that wait for a batch of whole trajectories are discarded and counted. Errors: [`Error::Config`] for a row that
    /// does not exist; what starting an episode gives, such as [`Error::EnvPanic`], after a clean shutdown;
    /// [`Error::Worker`] for a worker that ended or does not answer.
    pub fn reset(&mut self, rows: Rows<'_>) -> Result<(), Error> {
        let slots = self.slots(rows)?;
        if let Some(fleet) = &self.fleet {
            let own: Vec<u32> = slots.iter().map(|(_, row)| row.0).collect();
            let reset = fleet.on_rows(&own, |worker, rows| worker.reset(Rows::Some(rows)));
            self.discard_waiting(&slots);
            return whole(reset).inspect_err(|_| self.shutdown());
        }
        self.discard_waiting(&slots);
        self.cut(&slots, Truncation::ForcedReset);
        self.restart_rows(&slots)
    }

    /// Ends the episodes of all rows where a checkpoint stands that does not hold them, and starts new ones. Frames that
    /// wait are delivered with their episode. Errors: what `reset` of the environment gives, after a clean shutdown.
    pub(crate) fn end_at_checkpoint(&mut self) -> Result<(), Error> {
        let slots = self.slots(Rows::All)?;
        self.cut(&slots, Truncation::Checkpoint);
        self.drive.monitor.ledger().open = 0;
        self.restart_rows(&slots)
    }

    /// Gives all rows the streams of `seed`, ends their episodes as [`reset`](Self::reset) does, and returns the next
    /// seed of the chain: [`Seed::next`]. From here on the data are those of a new collector with this seed, but for what
    /// goes on: counters and so the warm-up, weights, normalisation, and what a factory drew. Errors: those of `reset`,
    /// but for rows.
    pub fn set_seed(&mut self, seed: u64) -> Result<u64, Error> {
        self.set_seed_static(seed)?;
        Ok(Seed(seed).next().0)
    }

    /// [`set_seed`](Self::set_seed) without moving along the chain: returns `seed`. Errors: those of `set_seed`.
    pub fn set_seed_static(&mut self, seed: u64) -> Result<u64, Error> {
        let slots = self.slots(Rows::All)?;
        if let Some(fleet) = &self.fleet {
            let reseeded = fleet.on_all(move |worker| worker.set_seed_static(seed).map(drop));
            self.discard_waiting(&slots);
            self.config.seed = seed;
            return whole(reseeded).map(|()| seed).inspect_err(|_| self.shutdown());
        }
        self.discard_waiting(&slots);
        self.cut(&slots, Truncation::ForcedReset);
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
                    let (first, last) = (self.drive.rows.first(), self.drive.rows.last());
                    let bound = |row: Option<&RowIndex>| row.map_or(0, |row| row.0);
                    return Err(Error::config("row", row, format!("{} to {}", bound(first), bound(last))));
                }
                // Agents of one simulation begin and end together.
                let simulations = (self.rows() / self.agents) as u32;
                let first = self.drive.rows.first().map_or(0, |row| row.0);
                let simulation = |slot: u32| slot % simulations;
                let ended: HashSet<u32> = rows.iter().map(|row| simulation(row - first)).collect();
                Ok(all().filter(|(slot, _)| ended.contains(&simulation(*slot))).collect())
            }
        }
    }

    /// Ends the episodes of the rows in `slots`; environments are not touched yet. Whole trajectories are joined of frames
    /// that are held: of an episode whose frames are not, there is none.
    fn cut(&mut self, slots: &[(u32, RowIndex)], reason: Truncation) {
        let joins = self.joins();
        let Self { drive, entities, .. } = self;
        let specs = drive.specs.clone();
        with_rollout::<T, _>(&mut drive.world, |world, rollout| {
            let mut ledger = drive.monitor.ledger();
            for (slot, row) in slots {
                let entity = entities[*slot as usize];
                let Some((trajectory, last)) = next_episode(world, rollout, (entity, *slot, *row), reason) else {
                    continue;
                };
                let assembly = if joins { world.get_resource_mut::<Assembly<T>>() } else { None };
                let held = assembly.is_some_and(|mut held| held.end(*slot as usize, trajectory, last, &specs));
                if held || !joins && trajectory.length > 0 {
                    ledger.episodes_ended(&[trajectory]);
                } else {
                    ledger.pending = ledger.pending.saturating_sub(u64::from(trajectory.length));
                }
                if !joins && trajectory.length > 0 {
                    rollout.forced.push_back((Ended { slot: *slot, last }, trajectory));
                }
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

    /// Drops what is held of the episodes of rows whose worker is lost.
    pub(crate) fn lose_waiting(&mut self, rows: std::ops::Range<u32>) {
        let slots: Vec<_> = rows.map(|row| (row, RowIndex(row))).collect();
        let specs = self.drive.specs.clone();
        let Some(mut assembly) = self.drive.assembly() else { return };
        let frames = assembly.clear_rows(&slots, &specs) as u64;
        let open = assembly.open_frames() as u64;
        let mut ledger = self.drive.monitor.ledger();
        ledger.counters.discarded.fault += frames;
        ledger.in_flight -= frames;
        ledger.open = open;
    }

    fn restart_rows(&mut self, slots: &[(u32, RowIndex)]) -> Result<(), Error> {
        let entities: Vec<Entity> = slots.iter().map(|(slot, _)| self.entities[*slot as usize]).collect();
        // Rows that did not start have no first observation to go on from.
        self.stepper.restart(&mut self.drive.world, &entities).inspect_err(|_| self.shutdown())
    }
}

/// What all workers answered, as one.
fn whole(answers: Result<Vec<Result<(), Error>>, Error>) -> Result<(), Error> {
    answers?.into_iter().collect()
}

/// Lets a row, an entity in a slot, stand at the start of its next episode; returns the one that ended and what it saw
/// last. None for a row that has left the world.
fn next_episode<T: Task>(
    world: &mut World,
    rollout: &mut Rollout<T>,
    (entity, slot, row): (Entity, u32, RowIndex),
    reason: Truncation,
) -> Option<(Trajectory, T::Observation)> {
    let mut entity = world.get_entity_mut(entity).ok()?;
    let columns = entity.get_components_mut::<(
        &mut EpisodeStep,
        &mut EpisodeReturn,
        &mut TrajectoryId,
        &mut Episode,
        &mut Stream,
        &Observation<T>,
    )>();
    let (mut step, mut total, mut id, mut episode, mut stream, last) = columns.ok()?;
    let trajectory = Trajectory {
        id: *id,
        row,
        rollout: rollout.rollout,
        // Before the first tick.
        tick: u32::MAX,
        length: step.0,
        total_reward: total.0,
        first_version: rollout.first_versions[slot as usize],
        last_version: rollout.plan.versions.of(slot),
        end: End::truncated_by(reason),
    };
    (*step, *total, *id) = (EpisodeStep(0), EpisodeReturn(0.0), rollout.next_id());
    episode.0 += 1;
    stream.start_episode(episode.0);
    rollout.started.push(slot);
    Some((trajectory, last.0))
}

impl<E: Env> Collector<E> {
    /// Replaces the options of all later resets.
    pub fn set_reset_options(&mut self, options: E::Options) {
        if let Some(fleet) = &self.fleet {
            // A worker that is gone needs none.
            let _ = fleet.on_all(move |worker| worker.set_reset_options(options.clone()));
            return;
        }
        *self.reset_options() = options;
    }

    /// [`reset`](Self::reset) with options of its own; later resets have the old ones. Errors: those of `reset`.
    pub fn reset_with(&mut self, rows: Rows<'_>, options: E::Options) -> Result<(), Error> {
        if let Some(fleet) = &self.fleet {
            let slots = self.slots(rows)?;
            let own: Vec<u32> = slots.iter().map(|(_, row)| row.0).collect();
            let reset = fleet.on_rows(&own, move |worker, rows| worker.reset_with(Rows::Some(rows), options.clone()));
            self.discard_waiting(&slots);
            return whole(reset).inspect_err(|_| self.shutdown());
        }
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
