//! What was read and checked becomes the collector's.

use bevy_ecs::prelude::*;

use super::{
    rows,
    staged::{Rows, Staged, running},
};
use crate::{
    collector::Collector,
    components::{PolicyWeights, TickPlan},
    error::Error,
    policy::{Actor, SavedNetwork, packing::PackedWeights},
    rollout::with_rollout,
    seed::Seed,
    task::Task,
};

impl<T: Task> Collector<T> {
    /// Takes over what was read; returns what was left out of it.
    pub(super) fn install(&mut self, staged: Staged<T>) -> Result<Vec<String>, Error> {
        let Staged { seed, mut ledger, policies, rows, skipped } = staged;
        let Some(rows) = rows else {
            ledger = ledger.without_frames();
            self.load_counters(&ledger.counters)?;
            self.install_networks(policies.into_iter().map(|(_, network)| network).collect())?;
            ledger.counters.trajectory_serial = self.drive.monitor.ledger().counters.trajectory_serial;
            ledger.versions = self.versions().iter().collect();
            *self.drive.monitor.ledger() = ledger;
            return Ok(skipped);
        };
        let goes_on = self.install_envs(&rows)?;
        // The frames of episodes that are to be joined were discarded at the end of the budget.
        let forgot = ledger.pending > 0 && rows.assembly.as_ref().is_some_and(|assembly| !assembly.is_seated());
        let frames: Vec<u64> = policies.iter().map(|(frames, _)| *frames).collect();
        self.install_networks(policies.into_iter().map(|(_, network)| network).collect())?;
        let serial = ledger.counters.trajectory_serial;
        *self.drive.monitor.ledger() = ledger;
        self.config.seed = seed;
        self.install_rows(rows, serial, &frames)?;
        if !goes_on || forgot && self.ticks_left() > 0 {
            self.end_at_checkpoint()?;
        }
        Ok(skipped)
    }

    /// Gives the environments their states; whether they can go on. After an error they are as they were.
    fn install_envs(&mut self, rows: &Rows<T>) -> Result<bool, Error> {
        let Some(states) = &rows.envs else { return Ok(false) };
        let Self { stepper, drive, entities, .. } = self;
        let before = stepper.save_states(&drive.world, entities)?;
        let loaded = stepper.load_states(&mut drive.world, entities, states);
        if let (Err(_), Some(before)) = (&loaded, before)
            && let Err(error) = stepper.load_states(&mut drive.world, entities, &before)
        {
            tracing::error!("environments did not take back their own states: {error}");
            self.shutdown();
        }
        loaded
    }

    fn install_networks(&mut self, networks: Vec<Option<(SavedNetwork, PackedWeights)>>) -> Result<(), Error> {
        let (mut failed, mut versions) = (None, Vec::new());
        let mut query = self.drive.world.query::<(&mut Actor<T>, &mut PolicyWeights<T>)>();
        for (mut actor, mut published) in query.iter_mut(&mut self.drive.world) {
            let number = actor.number();
            let Some(Some((saved, packed))) = networks.get(number) else { continue };
            if let Err(error) = actor.restore(saved, packed.clone()) {
                failed = Some(error);
            }
            let (version, weights) = saved.acts.clone();
            *published = PolicyWeights::new(version, weights);
            if let Some(handle) = self.policies.get(number).and_then(|seat| seat.weights.as_ref()) {
                handle.restore(version, saved.newer.clone().unwrap_or(saved.acts.clone()));
            }
            versions.push((number, version));
        }
        let mut plan = self.drive.world.resource_mut::<TickPlan<T>>();
        versions.into_iter().for_each(|(policy, version)| plan.versions.set(policy, version));
        match failed {
            Some(error) => {
                self.shutdown();
                Err(error)
            }
            None => Ok(()),
        }
    }

    /// `frames` are those that each policy acted for.
    fn install_rows(&mut self, rows: Rows<T>, serial: u64, frames: &[u64]) -> Result<(), Error> {
        let Rows { rollout: saved, receipts, rows, states, former, assembly, .. } = rows;
        let (running, by_episode) = (running(&rows, &saved), self.config.one_version_per_trajectory);
        let seed = self.config.seed;
        let first = self.first_row();
        let Self { drive, stepper, entities, .. } = self;
        stepper.reseed(&mut drive.world, Seed(seed));
        for ((row, entity), number) in rows.iter().zip(&*entities).zip(first..) {
            if let Ok(entity) = drive.world.get_entity_mut(*entity) {
                row.restore(entity, number, seed);
            }
        }
        let versions = drive.world.resource::<TickPlan<T>>().versions.clone();
        with_rollout::<T, _>(&mut drive.world, |_, rollout| {
            rollout.restore(saved, serial, versions);
            if by_episode {
                // The last frame of each episode was by the same weights as its first.
                rollout.plan.versions.set_by_slot(rollout.first_versions.iter().copied());
            }
        });
        if let Some(mut writer) = drive.writer() {
            writer.restore(receipts);
        }
        if let Some(assembly) = assembly {
            drive.world.insert_resource(assembly);
        }
        let keys = rows::keys(&rows, first, seed);
        let mut restored = Ok(());
        let (mut actors, mut former) = (drive.world.query::<&mut Actor<T>>(), former);
        for mut actor in actors.iter_mut(&mut drive.world) {
            let number = actor.number();
            if let (true, Some(sets)) = (by_episode, former.get_mut(number)) {
                restored = restored.and(actor.restore_former(std::mem::take(sets), running.iter().copied()));
            }
            actor.go_on_from(frames.get(number).copied().unwrap_or(0));
            if let Some(Some(states)) = states.get(number) {
                restored = restored.and(actor.restore_states(states, rows::identities(&keys)));
            }
        }
        restored.inspect_err(|_| self.shutdown())
    }
}
