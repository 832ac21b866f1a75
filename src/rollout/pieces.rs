//! Trajectory mode: frames of rollouts joined to whole episodes.
//!
//! An episode that ends in a rollout is copied behind the complete ones that wait for their batch; what runs on is copied
//! into pooled chunks, so a long episode pins no arena. A batch takes the waiting frames as they lie.

use std::{collections::VecDeque, ops::Range};

use super::{
    block::{Block, Final, Layout},
    chunks::{Chunks, EMPTY, Piece},
    ready::Ready,
    state::{Ended, Rollout},
    transpose::{ROWS, Transposed},
};
use crate::{
    components::{ColumnSpec, Flags, RowIndex, Trajectory, column},
    task::Task,
};

/// No episode.
const NONE: u32 = u32::MAX;

/// An episode that is complete and waits for its batch.
struct Complete<O> {
    trajectory: Trajectory,
    last: O,
}

impl<O> Complete<O> {
    fn frames(&self) -> usize {
        self.trajectory.length as usize
    }
}

/// Joins rollouts to episodes and keeps those that are complete until a batch takes them.
pub(crate) struct Assembly<T: Task> {
    chunks: Chunks,
    /// By slot: the running episode.
    open: Vec<Piece>,
    /// By slot: the first episode that ended in the rollout, and by episode the next one of its slot. Scratch.
    first: Vec<u32>,
    next: Vec<u32>,
    /// By episode that ended in the rollout: where its frames go. Scratch.
    places: Vec<usize>,
    /// The rows that are being taken in. Scratch.
    rows: Transposed,
    complete: VecDeque<Complete<T::Observation>>,
    /// The frames of `complete`.
    ready: Ready,
    open_frames: usize,
}

impl<T: Task> Assembly<T> {
    pub(crate) fn new(specs: &[ColumnSpec]) -> Self {
        Self {
            chunks: Chunks::new(specs),
            open: Vec::new(),
            first: Vec::new(),
            next: Vec::new(),
            places: Vec::new(),
            rows: Transposed::default(),
            complete: VecDeque::new(),
            ready: Ready::default(),
            open_frames: 0,
        }
    }

    /// Complete episodes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.complete.len()
    }

    /// Takes in the rollout's block: its first `ticks` ticks.
    pub(crate) fn ingest(&mut self, rollout: &Rollout<T>, block: &Block<T>, ticks: usize) {
        let (rows, specs) = (rollout.rows, &rollout.columns.specs);
        self.open.resize(rows, EMPTY);
        self.list(&block.trajectories, &rollout.ended, rows, specs);
        for first in (0..rows).step_by(ROWS) {
            let group = first..(first + ROWS).min(rows);
            self.rows.fill(block, specs, group.clone(), ticks);
            for (i, slot) in group.enumerate() {
                self.ingest_row(rollout, block, slot, i, ticks);
            }
        }
    }

    /// Lists the episodes that ended in the rollout: as complete, where their frames go, and by slot.
    fn list(
        &mut self,
        trajectories: &[Trajectory],
        ended: &[Ended<T::Observation>],
        rows: usize,
        specs: &[ColumnSpec],
    ) {
        let frames = trajectories.iter().map(|trajectory| trajectory.length as usize).sum();
        let mut place = self.ready.reserve(specs, frames);
        self.places.clear();
        for (trajectory, Ended { last, .. }) in trajectories.iter().zip(ended) {
            self.complete.push_back(Complete { trajectory: *trajectory, last: *last });
            self.places.push(place);
            place += trajectory.length as usize;
        }
        self.first.clear();
        self.first.resize(rows, NONE);
        self.next.clear();
        self.next.resize(ended.len(), NONE);
        for (i, ended) in ended.iter().enumerate().rev() {
            self.next[i] = std::mem::replace(&mut self.first[ended.slot as usize], i as u32);
        }
    }

    /// Takes in one slot, which is the `i`-th of the rows at hand.
    fn ingest_row(&mut self, rollout: &Rollout<T>, block: &Block<T>, slot: usize, i: usize, ticks: usize) {
        let Self { chunks, ready, rows, .. } = self;
        let specs = &rollout.columns.specs;
        let mut piece = std::mem::replace(&mut self.open[slot], EMPTY);
        self.open_frames -= piece.frames;
        let (mut tick, mut episode) = (0, self.first[slot]);
        while episode != NONE {
            let trajectory = &block.trajectories[episode as usize];
            // A fault on the rollout's first tick ends the episode at the rollout before: one tick before tick 0.
            let end = trajectory.tick.wrapping_add(1) as usize;
            let begin = self.places[episode as usize];
            let mut place = begin + piece.frames;
            chunks.move_to(std::mem::replace(&mut piece, EMPTY), ready, specs, begin);
            valid_runs(block, slot, tick..end, |run| {
                rows.copy_to(i, run.clone(), ready, specs, place);
                place += run.len();
            });
            debug_assert_eq!(place, begin + trajectory.length as usize, "frames of {trajectory:?}");
            tick = end.max(tick);
            episode = self.next[episode as usize];
        }
        valid_runs(block, slot, tick..ticks, |run| chunks.append(&mut piece, rows, specs, i, run));
        self.open_frames += piece.frames;
        self.open[slot] = piece;
    }

    /// Fills `block` with the next `n` complete episodes, flat or padded.
    pub(crate) fn emit(&mut self, block: &mut Block<T>, specs: &[ColumnSpec], n: usize, padded: bool) {
        let n = n.min(self.complete.len());
        let lengths = self.complete.iter().take(n).map(Complete::frames);
        block.frames = 0;
        let frames = lengths.clone().sum();
        if padded {
            block.shape(specs, Layout::Padded { trajectories: n, length: lengths.max().unwrap_or(0) });
        } else {
            block.shape(specs, Layout::Flat { frames });
            self.ready.take(block, specs, frames, 0);
        }
        let mut at = 0;
        for (trajectory, complete) in self.complete.drain(..n).enumerate() {
            let next = at + complete.frames();
            if let Layout::Padded { length, .. } = block.layout {
                self.ready.take(block, specs, complete.frames(), at);
                pad(block, specs, next..(trajectory + 1) * length);
            }
            block.trajectories.push(complete.trajectory);
            block.finals.push(Final { frame: next - 1, observation: complete.last });
            // The last frame carries the end, also when a fault was found one tick later.
            let end = &mut block.ends_mut()[next - 1];
            if !end.ends_episode() {
                *end = complete.trajectory.end;
            }
            at = match block.layout {
                Layout::Padded { length, .. } => (trajectory + 1) * length,
                _ => next,
            };
        }
        block.frames = frames;
    }

    /// Forgets running and waiting episodes; returns their frames.
    pub(crate) fn clear(&mut self) -> usize {
        let frames = self.open_frames + self.ready.len();
        for piece in self.open.drain(..) {
            self.chunks.give_back(piece);
        }
        self.complete.clear();
        self.ready.clear();
        self.open_frames = 0;
        frames
    }

    /// Forgets running and waiting episodes of the rows in `slots`; returns their frames.
    pub(crate) fn clear_rows(&mut self, slots: &[(u32, RowIndex)], specs: &[ColumnSpec]) -> usize {
        let before = self.open_frames + self.ready.len();
        for (slot, _) in slots {
            if let Some(piece) = self.open.get_mut(*slot as usize) {
                self.open_frames -= piece.frames;
                self.chunks.give_back(std::mem::replace(piece, EMPTY));
            }
        }
        let stays = |complete: &Complete<_>| !slots.iter().any(|(_, row)| *row == complete.trajectory.row);
        self.ready.retain(specs, self.complete.iter().map(|complete| (complete.frames(), stays(complete))));
        self.complete.retain(stays);
        before - self.open_frames - self.ready.len()
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        self.chunks.memory() + self.ready.memory()
    }
}

/// Calls `f` with the runs among `ticks` in which a slot of a time-major block holds frames.
#[inline]
fn valid_runs<T: Task>(block: &Block<T>, slot: usize, ticks: Range<usize>, mut f: impl FnMut(Range<usize>)) {
    if block.frames == block.layout.slots() {
        return f(ticks);
    }
    let flags = block.flags();
    let valid = |tick: usize| flags[tick * block.rows.len() + slot].valid();
    let mut tick = ticks.start;
    while tick < ticks.end {
        // Slots without a frame lie between episodes only, or behind the last one.
        let start = (tick..ticks.end).find(|tick| valid(*tick)).unwrap_or(ticks.end);
        let stop = (start..ticks.end).find(|tick| !valid(*tick)).unwrap_or(ticks.end);
        f(start..stop);
        tick = stop;
    }
}

fn pad<T: Task>(block: &mut Block<T>, specs: &[ColumnSpec], slots: std::ops::Range<usize>) {
    for (column, spec) in block.columns.iter_mut().zip(specs) {
        column.bytes_mut()[slots.start * spec.stride..slots.end * spec.stride].fill(0);
    }
    debug_assert!(block.columns[column::FLAGS].values::<Flags>()[slots].iter().all(|flags| !flags.valid()));
}
