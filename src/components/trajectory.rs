use std::fmt;

use bevy_ecs::prelude::Component;
use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};

use super::{End, RowIndex};

/// Number of an episode: worker in the upper 16 bits, serial from 1 in the lower 48. Unique over workers, resets,
/// restarts and resumes; 0 means none. A column.
#[derive(
    Component, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable, Serialize, Deserialize,
)]
#[repr(transparent)]
pub struct TrajectoryId(pub u64);

impl TrajectoryId {
    /// The id with this worker and serial.
    pub const fn new(worker: u16, serial: u64) -> Self {
        Self((worker as u64) << 48 | serial & ((1 << 48) - 1))
    }

    /// The worker that collected the episode.
    pub const fn worker(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Serial number among the worker's episodes.
    pub const fn serial(self) -> u64 {
        self.0 & ((1 << 48) - 1)
    }
}

impl fmt::Debug for TrajectoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.worker(), self.serial())
    }
}

/// A finished episode: the one component of a trajectory entity.
///
/// Entities are pooled: what they say holds until the next rollout overwrites it. `id` 0 is an entity not in use.
#[derive(Component, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// The episode's id.
    pub id: TrajectoryId,
    /// Its row.
    pub row: RowIndex,
    /// Rollout in which it ended, from 0.
    pub rollout: u64,
    /// Tick within that rollout at which its last frame stands.
    pub tick: u32,
    /// Frames.
    pub length: u32,
    /// Sum of raw rewards.
    pub total_reward: f32,
    /// Version of the weights that chose its first action.
    pub first_version: u64,
    /// Version of the weights that chose its last action.
    pub last_version: u64,
    /// How it ended.
    pub end: End,
}
