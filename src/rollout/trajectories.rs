//! Finished episodes as entities.

use std::marker::PhantomData;

use bevy_ecs::prelude::*;

use super::state::RolloutSlot;
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
#[derive(Resource)]
pub(crate) struct TrajectoryPool<T: Task> {
    entities: Vec<Entity>,
    /// Entities in use by the rollout that is being written, or was written last.
    used: usize,
    rollout: u64,
    events: bool,
    task: PhantomData<fn() -> T>,
}

impl<T: Task> TrajectoryPool<T> {
    pub(crate) fn new(events: bool) -> Self {
        Self { entities: Vec::new(), used: 0, rollout: 0, events, task: PhantomData }
    }
}

/// Overwrites pooled entities with the episodes that ended in this tick; spawns only what the pool lacks.
pub(crate) fn publish_trajectories<T: Task>(
    holder: Res<RolloutSlot<T>>,
    mut pool: ResMut<TrajectoryPool<T>>,
    mut trajectories: Query<&mut Trajectory>,
    mut commands: Commands,
) {
    let Some(rollout) = holder.0.as_deref() else { return };
    let pool = &mut *pool;
    if pool.rollout != rollout.rollout {
        // What the last rollout left beyond this one's use must not pass for an episode of this one.
        for entity in &pool.entities[..pool.used] {
            if let Ok(mut trajectory) = trajectories.get_mut(*entity) {
                trajectory.id = TrajectoryId::default();
            }
        }
        (pool.rollout, pool.used) = (rollout.rollout, 0);
    }
    for ended in &rollout.ended[pool.used.min(rollout.ended.len())..] {
        match pool.entities.get(pool.used).and_then(|entity| trajectories.get_mut(*entity).ok()) {
            Some(mut trajectory) => *trajectory = ended.trajectory,
            // Gone or never there: a host may despawn what it likes.
            None => {
                let entity = commands.spawn(ended.trajectory).id();
                match pool.entities.get_mut(pool.used) {
                    Some(slot) => *slot = entity,
                    None => pool.entities.push(entity),
                }
            }
        }
        pool.used += 1;
        if pool.events {
            commands.trigger(EpisodeEnded::<T> { trajectory: ended.trajectory, task: PhantomData });
        }
    }
}
