//! The rollout that is being written, as the Step stage sees it.

use std::any::Any;

use bevy_ecs::prelude::*;

use super::{
    End, EpisodeStep, Flags, Reward, Slot, TrajectoryId,
    stream::{self, Writer},
};
use crate::task::Task;

/// The holder of the rollout. Systems take it out to pass the world on beside it: a pointer moves.
#[derive(Resource)]
pub(crate) struct RolloutSlot<T: Task>(pub Option<Box<dyn Recording<T>>>);

/// A rollout that is being written.
pub(crate) trait Recording<T: Task>: Any + Send + Sync {
    /// Lends the slots of the running tick's frames of the rows `slots`, which are one table; none if Record shall write
    /// them. Who takes them writes them all.
    fn lend(&mut self, slots: &[Slot]) -> Option<FrameSlots<'_, T>>;
}

/// The slots of a tick's frames in the columns that every rollout has, one a row. A Step stage that writes them itself,
/// strip by strip, finds the frames in the first-level cache, and on several threads.
pub(crate) struct FrameSlots<'a, T: Task> {
    /// Those of the coming tick: what follows the frames.
    pub observations: &'a mut [T::Observation],
    pub actions: &'a mut [T::Action],
    pub rewards: &'a mut [Reward],
    pub ends: &'a mut [End],
    pub steps: &'a mut [EpisodeStep],
    pub ids: &'a mut [TrajectoryId],
    pub flags: &'a mut [Flags],
    pub versions: &'a mut [u64],
}

impl<T: Task> FrameSlots<'_, T> {
    /// Splits off the first `n` rows.
    pub(crate) fn split_off(&mut self, n: usize) -> Self {
        macro_rules! first {
            ($($column:ident),*) => { Self { $($column: self.$column.split_off_mut(..n).unwrap_or_default()),* } };
        }
        first!(observations, actions, rewards, ends, steps, ids, flags, versions)
    }

    /// Asks for the memory of the first `n` rows, which will be written soon.
    #[inline(always)]
    pub(crate) fn fetch(&self, n: usize) {
        let n = n.min(self.ends.len());
        macro_rules! fetch {
            ($($column:ident),*) => {{ $( stream::fetch(&self.$column[..n]); )* }};
        }
        fetch!(observations, actions, rewards, ends, steps, ids, flags, versions);
    }

    /// Writes what is known of the frames before they are stepped.
    #[inline(always)]
    pub(crate) fn open(&mut self, actions: &[T::Action], steps: &[EpisodeStep], ids: &[TrajectoryId], version: u64) {
        let writer = Writer::default();
        writer.copy(actions, self.actions);
        writer.copy(steps, self.steps);
        writer.copy(ids, self.ids);
        self.flags.fill(Flags::VALID);
        self.versions.fill(version);
    }

    /// Writes what the step gave.
    #[inline(always)]
    pub(crate) fn close(&mut self, observations: &[T::Observation], rewards: &[Reward], ends: &[End]) {
        let writer = Writer::default();
        writer.copy(observations, self.observations);
        writer.copy(rewards, self.rewards);
        writer.copy(ends, self.ends);
    }
}
