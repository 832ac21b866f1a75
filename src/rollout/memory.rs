//! The states of a recurrent policy that a rollout keeps: where it begins, and where learners bootstrap from.

use bevy_ecs::prelude::World;

use super::state::Rollout;
use crate::task::Task;

/// States of a time-major block; empty for a policy without memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockStates {
    pub width: usize,
    /// `[rows, width]`: what the rows' first frames begin with.
    pub initial: Vec<f32>,
    /// Frames behind which a state is kept, ascending: those that were truncated, and all of the last tick.
    pub frames: Vec<usize>,
    /// `[frames, width]`.
    pub after: Vec<f32>,
}

impl BlockStates {
    pub(super) fn clear(&mut self) {
        self.width = 0;
        self.initial.clear();
        self.frames.clear();
        self.after.clear();
    }

    /// The state behind frame `frame`, if it is kept; for a frame that was a row's last one because the last tick left
    /// the row out, that of the last tick.
    pub(super) fn after(&self, frame: usize, rows: usize) -> Option<&[f32]> {
        let at = |frame: &usize| self.frames.binary_search(frame).ok();
        let last = self.frames.last().map(|last| last / rows * rows + frame % rows);
        let i = at(&frame).or_else(|| at(&last?))?;
        Some(&self.after[i * self.width..(i + 1) * self.width])
    }

    pub(super) fn memory(&self) -> usize {
        4 * (self.initial.capacity() + self.after.capacity()) + 8 * self.frames.capacity()
    }
}

impl<T: Task> Rollout<T> {
    pub(super) fn remember_start(&mut self, world: &World) {
        let (Some(block), Some(memory)) = (&mut self.block, &mut self.columns.memory) else { return };
        block.states.width = memory.width();
        block.states.initial.resize(self.rows * memory.width(), 0.0);
        memory.before(world, &mut block.states.initial);
    }

    /// Keeps the states behind this tick's frames that learners bootstrap from.
    pub(super) fn remember_ends(&mut self, world: &World) {
        let (Some(block), Some(memory)) = (&mut self.block, &mut self.columns.memory) else { return };
        let (first, last) = (self.tick * self.rows, self.tick + 1 == self.ticks);
        let keeps = |end: &crate::components::End| last || end.truncated();
        let ends = &block.columns[super::block::column::END].values()[first..first + self.rows];
        if !ends.iter().any(keeps) {
            return;
        }
        let width = memory.width();
        self.states.resize(self.rows * width, 0.0);
        memory.after(world, &mut self.states);
        for (slot, _) in ends.iter().enumerate().filter(|(_, end)| keeps(end)) {
            block.states.frames.push(first + slot);
            block.states.after.extend_from_slice(&self.states[slot * width..(slot + 1) * width]);
        }
    }
}
