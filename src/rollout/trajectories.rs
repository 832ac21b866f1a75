//! Finished episodes as entities.

use std::marker::PhantomData;

use bevy_ecs::prelude::*;

use super::state::Rollout;
use crate::{
    components::{Trajectory, TrajectoryId},
    task::Task,
};

/// Triggered for each finished episode of task `T`, if the collector was asked to (`episode_events`).
#[derive(Event, Debug)]
pub struct EpisodeEnded<T: Task> {
    /// The episode.
    pub trajectory: Trajectory,
    task: PhantomData<fn() -> T>,
}

/// What the pool looks at.
pub(super) type Pooled = (Entity, &'static mut Trajectory);

/// The pooled trajectory entities of a task.
#[derive(Default)]
pub(crate) struct TrajectoryPool {
    entities: Vec<Entity>,
    /// Entities in use by the rollout that is being written, or was written last.
    used: usize,
    rollout: u64,
    /// Whether each episode that ends triggers an event.
    events: bool,
}

impl TrajectoryPool {
    pub(crate) fn new(events: bool) -> Self {
        Self { events, ..Self::default() }
    }

    /// Frees all entities for another rollout: what the last one left beyond its use must not pass for an episode of
    /// this one.
    fn begin(&mut self, rollout: u64, world: &mut World, trajectories: &mut QueryState<Pooled>) {
        let used = &self.entities[..self.used];
        overwrite(used, 0, trajectories.query_mut(&mut *world), |_, trajectory| {
            trajectory.id = TrajectoryId::default()
        });
        (self.rollout, self.used) = (rollout, 0);
    }

    /// Makes the next entities these trajectories; spawns what the pool lacks.
    fn write(&mut self, ended: &[Trajectory], world: &mut World, trajectories: &mut QueryState<Pooled>) {
        for trajectory in ended.iter().skip(self.entities.len() - self.used) {
            self.entities.push(world.spawn(*trajectory).id());
        }
        let next = &self.entities[self.used..][..ended.len()];
        let gone = overwrite(next, self.used, trajectories.query_mut(&mut *world), |i, trajectory| {
            *trajectory = ended[i];
        });
        for i in gone {
            self.entities[self.used + i] = world.spawn(ended[i]).id();
        }
        self.used += ended.len();
    }
}

/// Calls `write` with the trajectory of each of `entities` and its place there; returns the places of those that are
/// gone: a host may despawn what it likes. As long as none was, the pool lies in its table as it was spawned, and the
/// trajectories are a slice from `first` on.
fn overwrite(
    entities: &[Entity],
    first: usize,
    mut trajectories: Query<Pooled>,
    mut write: impl FnMut(usize, &mut Trajectory),
) -> Vec<usize> {
    for (in_table, mut column) in trajectories.contiguous_iter_mut().into_iter().flatten() {
        let place = first..first + entities.len();
        if in_table.get(place.clone()) == Some(entities) {
            let now = column.this_run_tick();
            column.changed_ticks_slice_mut()[place.clone()].fill(now);
            let slice = &mut column.bypass_change_detection()[place];
            slice.iter_mut().enumerate().for_each(|(i, trajectory)| write(i, trajectory));
            return Vec::new();
        }
    }
    let mut gone = Vec::new();
    for (i, entity) in entities.iter().enumerate() {
        match trajectories.get_mut(*entity) {
            Ok((_, mut trajectory)) => write(i, &mut trajectory),
            Err(_) => gone.push(i),
        }
    }
    gone
}

impl<T: Task> Rollout<T> {
    /// Overwrites pooled entities with the episodes that ended since the last call.
    pub(super) fn publish(&mut self, world: &mut World, trajectories: &mut QueryState<Pooled>) {
        if self.pool.rollout != self.rollout {
            self.pool.begin(self.rollout, world, trajectories);
        }
        let Self { pool, block, .. } = self;
        let Some(ended) = block.as_ref().and_then(|block| block.trajectories.get(pool.used..)) else { return };
        if ended.is_empty() {
            return;
        }
        pool.write(ended, world, trajectories);
        if pool.events {
            for trajectory in ended {
                world.trigger(EpisodeEnded::<T> { trajectory: *trajectory, task: PhantomData });
            }
        }
    }
}
