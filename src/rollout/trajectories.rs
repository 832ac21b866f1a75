//! Finished episodes as entities.

use std::marker::PhantomData;

use bevy_ecs::prelude::*;

use super::state::{Ended, Rollout};
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
    fn begin(&mut self, rollout: u64, world: &mut World, trajectories: &mut QueryState<&mut Trajectory>) {
        let mut pooled = trajectories.query_mut(&mut *world);
        for entity in &self.entities[..self.used] {
            if let Ok(mut trajectory) = pooled.get_mut(*entity) {
                trajectory.id = TrajectoryId::default();
            }
        }
        (self.rollout, self.used) = (rollout, 0);
    }

    /// Makes the next entities these trajectories; spawns what the pool lacks.
    fn write<O>(&mut self, ended: &[Ended<O>], world: &mut World, trajectories: &mut QueryState<&mut Trajectory>) {
        for ended in ended.iter().skip(self.entities.len() - self.used) {
            self.entities.push(world.spawn(ended.trajectory).id());
        }
        let mut gone = Vec::new();
        let mut pooled = trajectories.query_mut(&mut *world);
        for (entity, ended) in self.entities[self.used..].iter_mut().zip(ended) {
            match pooled.get_mut(*entity) {
                Ok(mut trajectory) => *trajectory = ended.trajectory,
                // A host may despawn what it likes.
                Err(_) => gone.push((entity, ended.trajectory)),
            }
        }
        for (entity, trajectory) in gone {
            *entity = world.spawn(trajectory).id();
        }
        self.used += ended.len();
    }
}

impl<T: Task> Rollout<T> {
    /// Overwrites pooled entities with the episodes that ended since the last call.
    pub(super) fn publish(&mut self, world: &mut World, trajectories: &mut QueryState<&mut Trajectory>) {
        if self.pool.rollout != self.rollout {
            self.pool.begin(self.rollout, world, trajectories);
        }
        let ended = &self.ended[self.pool.used.min(self.ended.len())..];
        if ended.is_empty() {
            return;
        }
        self.pool.write(ended, world, trajectories);
        if self.pool.events {
            for ended in ended {
                world.trigger(EpisodeEnded::<T> { trajectory: ended.trajectory, task: PhantomData });
            }
        }
    }
}
