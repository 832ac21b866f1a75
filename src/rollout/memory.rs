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
    /// Slots behind which a state is kept, ascending: frames that were truncated, and the whole last tick.
    pub frames: Vec<usize>,
    /// `[frames, width]`.
    pub after: Vec<f32>,
    /// Values of what followed a frame whose successor holds no frame any more: what the policy said of it.
    pub next_values: Vec<(usize, f32)>,
}

impl BlockStates {
    pub(super) fn clear(&mut self) {
        self.width = 0;
        self.initial.clear();
        self.frames.clear();
        self.after.clear();
        self.next_values.clear();
    }

    /// The state behind frame `frame`, if it is kept.
    pub(super) fn after(&self, frame: usize) -> Option<&[f32]> {
        let i = self.frames.binary_search(&frame).ok()?;
        Some(&self.after[i * self.width..(i + 1) * self.width])
    }

    /// Keeps what `from` has behind its frame `slot` behind `frame`, which comes after those that are kept.
    pub(super) fn keep(&mut self, from: &Self, slot: usize, frame: usize) {
        self.width = from.width;
        if let Some(state) = from.after(slot) {
            self.frames.push(frame);
            self.after.extend_from_slice(state);
        }
        let given = from.next_values.iter().find(|(given, _)| *given == slot);
        self.next_values.extend(given.map(|(_, value)| (frame, *value)));
    }

    /// Adds a piece that begins at slot `first` of a block of `rows`: in the middle of an episode only in its first tick.
    pub(super) fn begin(&mut self, from: &Self, first: usize, rows: usize) {
        if first < rows {
            self.initial.extend_from_slice(&from.initial[first * from.width..(first + 1) * from.width]);
        } else {
            self.initial.resize(self.initial.len() + from.width, 0.0);
        }
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
        let keeps = |end: &crate::components::End| last || end.is_frame() && end.truncated();
        let ends = &block.columns[crate::components::column::END].values()[first..first + self.rows];
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
