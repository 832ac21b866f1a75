//! A rollout of all rows that workers fill part by part, each with its own rows and some ticks at a time.
//!
//! The parts are copied while they are in the cache of who wrote them. What comes out is what one world with all rows
//! would have written: same order of rows, frames and episodes.

use std::ops::Range;

use super::{
    block::{Block, Final, Layout},
    state::{Ended, Rollout, sort_finals},
};
use crate::{
    components::{End, RowIndex, Trajectory, Truncation},
    task::Task,
};

/// Where a part lies in the whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Slot of its first row.
    pub first: usize,
    /// Tick of its first one.
    pub tick: usize,
}

/// The whole, while it is filled.
pub(crate) struct Merge<T: Task> {
    block: Box<Block<T>>,
    /// Bytes of a value of each column, and whether the column leads.
    columns: Vec<(usize, bool)>,
    ticks: usize,
    rows: usize,
    /// Number of the rollout.
    rollout: u64,
    /// Ticks that each row has, as far as it got.
    done: Vec<usize>,
    ended: Vec<(Trajectory, Ended<T::Observation>)>,
    /// Frames whose states behind them are kept, with the places of these in `states`.
    behind: Vec<(usize, usize)>,
    states: Vec<f32>,
}

impl<T: Task> Merge<T> {
    /// An empty whole of `ticks` ticks of the rows that `rollout` has.
    pub(crate) fn begin(rollout: &Rollout<T>, mut block: Box<Block<T>>, rows: usize, ticks: usize) -> Self {
        let specs = &rollout.columns.specs;
        block.shape(specs, Layout::TimeMajor { ticks, rows });
        block.rows.extend((0..rows as u32).map(RowIndex));
        Self {
            block,
            columns: specs.iter().map(|spec| (spec.stride, spec.leads)).collect(),
            ticks,
            rows,
            rollout: rollout.rollout,
            done: vec![0; rows],
            ended: Vec::new(),
            behind: Vec::new(),
            states: Vec::new(),
        }
    }

    /// Frames taken in.
    pub(crate) fn frames(&self) -> usize {
        self.block.frames
    }

    /// Takes in the first `ticks` ticks of a part; `ended` are the episodes that ended in it.
    pub(crate) fn take(&mut self, part: &Block<T>, ended: &[Ended<T::Observation>], ticks: usize, place: Place) {
        let Layout::TimeMajor { rows, .. } = part.layout else { return };
        self.keep_next(part, rows, place);
        self.copy_columns(part, rows, ticks, place);
        self.block.frames += part.frames;
        for last in &part.finals {
            let frame = self.frame_of(last.frame, rows, place);
            self.block.finals.push(Final { frame, ..*last });
        }
        for (trajectory, ended) in part.trajectories.iter().zip(ended) {
            let mut trajectory = *trajectory;
            if place.tick > 0 && trajectory.tick == u32::MAX {
                let slot = place.first + ended.slot as usize;
                let reason = trajectory.end.truncation().unwrap_or(Truncation::Fault);
                self.cut(slot..slot + 1, reason);
            }
            trajectory.rollout = self.rollout;
            // One tick before tick 0 stands for "before this rollout", also in a part.
            trajectory.tick = trajectory.tick.wrapping_add(place.tick as u32);
            let slot = ended.slot + place.first as u32;
            self.ended.push((trajectory, Ended { slot, ..*ended }));
        }
        self.keep_states(part, rows, ticks, place);
        self.done[place.first..place.first + rows].fill(place.tick + ticks);
    }

    /// Keeps what followed the last frames of the parts before, where this one begins with slots that hold no frame.
    fn keep_next(&mut self, part: &Block<T>, rows: usize, place: Place) {
        let Some(before) = place.tick.checked_sub(1) else { return };
        for (slot, _) in part.flags()[..rows].iter().enumerate().filter(|(_, flags)| !flags.valid()) {
            let frame = before * self.rows + place.first + slot;
            if self.block.flags()[frame].valid() && !self.block.ends()[frame].ends_episode() {
                let observation = self.block.observations()[frame + self.rows];
                self.block.finals.push(Final { frame, observation });
            }
        }
    }

    fn frame_of(&self, frame: usize, rows: usize, place: Place) -> usize {
        (place.tick + frame / rows) * self.rows + place.first + frame % rows
    }

    fn copy_columns(&mut self, part: &Block<T>, rows: usize, ticks: usize, place: Place) {
        for ((to, from), (stride, leads)) in self.block.columns.iter_mut().zip(&part.columns).zip(&self.columns) {
            let (to, from) = (to.bytes_mut(), from.bytes());
            for tick in 0..ticks + usize::from(*leads) {
                let at = ((place.tick + tick) * self.rows + place.first) * stride;
                let run = tick * rows * stride..(tick + 1) * rows * stride;
                to[at..at + run.len()].copy_from_slice(&from[run]);
            }
        }
    }

    fn keep_states(&mut self, part: &Block<T>, rows: usize, ticks: usize, place: Place) {
        let states = &part.states;
        if states.width == 0 {
            return;
        }
        let whole = &mut self.block.states;
        whole.width = states.width;
        if place.tick == 0 {
            whole.initial.resize(self.rows * states.width, 0.0);
            let first = place.first * states.width;
            whole.initial[first..first + states.initial.len()].copy_from_slice(&states.initial);
        }
        let last = place.tick + ticks == self.ticks;
        for (frame, state) in states.frames.iter().zip(states.after.chunks_exact(states.width)) {
            let end = part.ends()[*frame];
            // A part keeps its own last tick, which is the whole's only at the end.
            if end.is_frame() && end.truncated() || last && frame / rows + 1 == ticks {
                self.behind.push((self.frame_of(*frame, rows, place), self.states.len()));
                self.states.extend_from_slice(state);
            }
        }
        let values = states.next_values.iter().map(|(frame, value)| (self.frame_of(*frame, rows, place), *value));
        let values: Vec<_> = values.collect();
        self.block.states.next_values.extend(values);
    }

    /// The filled block; slots that no part came for hold no frame. `rollout` gets the episodes that ended.
    pub(crate) fn finish(mut self, rollout: &mut Rollout<T>) -> Box<Block<T>> {
        for slot in 0..self.rows {
            if self.done[slot] < self.ticks {
                self.vacate(slot, self.done[slot]..self.ticks);
            }
        }
        let Self { mut block, mut ended, mut behind, states, .. } = self;
        sort_finals(&mut block);
        // In the order in which one world notices them; of one tick by slot.
        ended.sort_by_key(|(trajectory, ended)| (noticed(trajectory), ended.slot));
        block.trajectories.extend(ended.iter().map(|(trajectory, _)| *trajectory));
        rollout.ended.clear();
        rollout.ended.extend(ended.iter().map(|(_, ended)| *ended));
        behind.sort_unstable();
        let width = block.states.width;
        for (frame, at) in behind {
            block.states.frames.push(frame);
            block.states.after.extend_from_slice(&states[at..at + width]);
        }
        rollout.rows = self.rows;
        rollout.ticks = self.ticks;
        rollout.rollout += 1;
        block
    }

    /// Empties slots that were not filled. What a row saw last stays, as the observation after its last frame.
    fn vacate(&mut self, slot: usize, ticks: Range<usize>) {
        for (column, (stride, leads)) in self.block.columns.iter_mut().zip(&self.columns) {
            let ticks = match leads {
                true => ticks.start + usize::from(ticks.start > 0)..ticks.end + 1,
                false => ticks.clone(),
            };
            for tick in ticks {
                let at = (tick * self.rows + slot) * stride;
                column.bytes_mut()[at..at + stride].fill(0);
            }
        }
    }

    /// Takes out what some rows had so far; returns how many frames that were.
    pub(crate) fn drop_rows(&mut self, slots: Range<usize>) -> usize {
        let mut frames = 0;
        for slot in slots.clone() {
            let ticks = (0..self.done[slot]).map(|tick| tick * self.rows + slot);
            frames += ticks.filter(|frame| self.block.flags()[*frame].valid()).count();
            self.done[slot] = 0;
        }
        let rows = self.rows;
        self.block.frames -= frames;
        self.block.finals.retain(|last| !slots.contains(&(last.frame % rows)));
        self.ended.retain(|(_, ended)| !slots.contains(&(ended.slot as usize)));
        self.behind.retain(|(frame, _)| !slots.contains(&(frame % rows)));
        frames
    }

    /// Closes the running episodes of some rows where they stand, as far as they got in this rollout.
    pub(crate) fn cut(&mut self, slots: Range<usize>, reason: Truncation) {
        for slot in slots {
            let Some(frame) = self.done[slot].checked_sub(1).map(|tick| tick * self.rows + slot) else { continue };
            if self.block.flags()[frame].valid() && !self.block.ends()[frame].ends_episode() {
                self.block.ends_mut()[frame] = self.block.ends()[frame].or_truncated(reason);
            }
        }
    }
}

/// The tick that an episode's end is noticed in, counted from 1; 0 for what was cut before the rollout.
fn noticed(trajectory: &Trajectory) -> u32 {
    // A quarantined frame ends its episode at the frame before.
    let after = u32::from(trajectory.end == End::truncated_by(Truncation::Fault));
    trajectory.tick.wrapping_add(1 + after)
}
