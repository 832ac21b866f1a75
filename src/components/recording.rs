//! The rollout that is being written, as the Step stage sees it.

use std::{any::Any, ops::Range};

use bevy_ecs::prelude::*;

use super::{End, EpisodeStep, Flags, Reward, Slot, TrajectoryId, stream::Writer};
use crate::task::Task;

/// The holder of the rollout. Systems take it out to pass the world on beside it: a pointer moves.
#[derive(Resource)]
pub(crate) struct RolloutSlot<T: Task>(pub Option<Box<dyn Recording<T>>>);

/// A rollout that is being written.
pub(crate) trait Recording<T: Task>: Any + Send + Sync {
    /// Lends the slots of the running tick's frames of the rows `slots`, which are one table; none if Record shall write
    /// them. Who takes them writes them all, as frames of weights `version`; `split` says on several threads.
    fn lend(&mut self, slots: &[Slot], version: u64, split: bool) -> Option<FrameSlots<'_, T>>;
}

/// The slots of a tick's frames in the columns that every rollout has, one a row. A Step stage that writes them itself,
/// strip by strip, finds the frames in the first-level cache, and on several threads. Steps write their observations and
/// rewards here first: the memory takes its time over them while the next are computed.
pub(crate) struct FrameSlots<'a, T: Task> {
    /// Those of the coming tick: what follows the frames.
    pub observations: &'a mut [T::Observation],
    pub actions: &'a mut [T::Action],
    pub rewards: &'a mut [Reward],
    pub ends: &'a mut [End],
    pub steps: &'a mut [EpisodeStep],
    pub ids: &'a mut [TrajectoryId],
    /// Empty, as are the versions, if these columns hold already what they should.
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

    /// Those of some of the rows.
    #[inline(always)]
    pub(crate) fn part(&mut self, rows: Range<usize>) -> FrameSlots<'_, T> {
        let marked = if self.flags.is_empty() { 0..0 } else { rows.clone() };
        macro_rules! part {
            ($($column:ident),*; $($mark:ident),*) => {
                FrameSlots {
                    $($column: &mut self.$column[rows.clone()],)*
                    $($mark: &mut self.$mark[marked.clone()],)*
                }
            };
        }
        part!(observations, actions, rewards, ends, steps, ids; flags, versions)
    }

    /// Writes the columns that a step does not.
    #[inline(always)]
    pub(crate) fn close(
        &mut self,
        actions: &[T::Action],
        ends: &[End],
        steps: &[EpisodeStep],
        ids: &[TrajectoryId],
        version: u64,
    ) {
        let writer = Writer::default();
        writer.copy(actions, self.actions);
        writer.copy(ends, self.ends);
        writer.copy(steps, self.steps);
        writer.copy(ids, self.ids);
        self.flags.fill(Flags::VALID);
        self.versions.fill(version);
    }
}
