//! Trajectory mode: frames of rollouts joined to whole episodes.
//!
//! Each row's frames are copied once, at the end of a rollout, into pooled chunks, so a long episode pins no arena; a
//! batch of whole trajectories is a second copy, from chunks into flat columns.

use std::{collections::VecDeque, ops::Range};

use super::{
    block::{Block, Final, Layout, column},
    chunks::{Chunks, EMPTY, Piece},
    state::{Ended, Rollout},
    transpose::{ROWS, Transposed},
};
use crate::{
    components::{ColumnSpec, Flags, RowIndex, Trajectory},
    task::Task,
};

/// No episode.
const NONE: u32 = u32::MAX;

/// An episode that is complete and waits for its batch.
struct Complete<O> {
    piece: Piece,
    trajectory: Trajectory,
    last: O,
}

/// Joins rollouts to episodes and keeps those that are complete until a batch takes them.
pub(crate) struct Assembly<T: Task> {
    chunks: Chunks,
    /// By slot: the running episode.
    open: Vec<Piece>,
    /// By slot: the first episode that ended in the rollout, and by episode the next one of its slot. Scratch.
    first: Vec<u32>,
    next: Vec<u32>,
    /// The rows that are being taken in. Scratch.
    rows: Transposed,
    complete: VecDeque<Complete<T::Observation>>,
    complete_frames: usize,
    open_frames: usize,
}

impl<T: Task> Assembly<T> {
    pub(crate) fn new(specs: &[ColumnSpec]) -> Self {
        Self {
            chunks: Chunks::new(specs),
            open: Vec::new(),
            first: Vec::new(),
            next: Vec::new(),
            rows: Transposed::default(),
            complete: VecDeque::new(),
            complete_frames: 0,
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
        self.list_by_slot(&rollout.ended, rows);
        let waiting = self.complete.len();
        let complete = |ended: &Ended<_>| Complete { piece: EMPTY, trajectory: ended.trajectory, last: ended.last };
        self.complete.extend(rollout.ended.iter().map(complete));
        for first in (0..rows).step_by(ROWS) {
            let group = first..(first + ROWS).min(rows);
            self.rows.fill(block, specs, group.clone(), ticks);
            for (i, slot) in group.enumerate() {
                self.open_frames -= self.open[slot].frames;
                let (mut tick, mut episode) = (0, self.first[slot]);
                while episode != NONE {
                    // A fault on the rollout's first tick ends the episode at the rollout before: one tick before
                    // tick 0.
                    let end = rollout.ended[episode as usize].trajectory.tick.wrapping_add(1) as usize;
                    self.extend(block, specs, slot, i, tick..end);
                    tick = end.max(tick);
                    let piece = std::mem::replace(&mut self.open[slot], EMPTY);
                    self.complete_frames += piece.frames;
                    self.complete[waiting + episode as usize].piece = piece;
                    episode = self.next[episode as usize];
                }
                self.extend(block, specs, slot, i, tick..ticks);
                self.open_frames += self.open[slot].frames;
            }
        }
    }

    /// Lists the episodes that ended by slot, each slot's in order.
    fn list_by_slot(&mut self, ended: &[Ended<T::Observation>], rows: usize) {
        self.first.clear();
        self.first.resize(rows, NONE);
        self.next.clear();
        self.next.resize(ended.len(), NONE);
        for (i, ended) in ended.iter().enumerate().rev() {
            self.next[i] = std::mem::replace(&mut self.first[ended.slot as usize], i as u32);
        }
    }

    /// Appends the valid ones among `ticks` of a slot, which is the `i`-th row of those being taken in.
    fn extend(&mut self, block: &Block<T>, specs: &[ColumnSpec], slot: usize, i: usize, ticks: Range<usize>) {
        let Self { chunks, open, rows, .. } = self;
        let piece = &mut open[slot];
        if block.frames == block.layout.slots() {
            return chunks.append(piece, rows, specs, i, ticks);
        }
        let flags = block.flags();
        let valid = |tick: usize| flags[tick * block.rows.len() + slot].valid();
        let mut tick = ticks.start;
        while tick < ticks.end {
            // Slots without a frame lie between episodes only, or behind the last one.
            let start = (tick..ticks.end).find(|tick| valid(*tick)).unwrap_or(ticks.end);
            let stop = (start..ticks.end).find(|tick| !valid(*tick)).unwrap_or(ticks.end);
            chunks.append(piece, rows, specs, i, start..stop);
            tick = stop;
        }
    }

    /// Fills `block` with the next `n` complete episodes, flat or padded.
    pub(crate) fn emit(&mut self, block: &mut Block<T>, specs: &[ColumnSpec], n: usize, padded: bool) {
        let n = n.min(self.complete.len());
        let lengths = self.complete.iter().take(n).map(|complete| complete.piece.frames);
        let layout = if padded {
            Layout::Padded { trajectories: n, length: lengths.max().unwrap_or(0) }
        } else {
            Layout::Flat { frames: lengths.sum() }
        };
        block.shape(specs, layout);
        let mut at = 0;
        for trajectory in 0..n {
            let Some(Complete { piece, trajectory: meta, last }) = self.complete.pop_front() else { break };
            self.chunks.copy_to(piece, block, specs, at);
            self.chunks.give_back(piece);
            self.complete_frames -= piece.frames;
            block.frames += piece.frames;
            block.trajectories.push(meta);
            let frame = at + piece.frames - 1;
            block.finals.push(Final { frame, observation: last });
            // The last frame carries the end, also when a fault was found one tick later.
            let end = &mut block.ends_mut()[frame];
            if !end.ends_episode() {
                *end = meta.end;
            }
            at = match layout {
                Layout::Padded { length, .. } => {
                    pad(block, specs, frame + 1..(trajectory + 1) * length);
                    (trajectory + 1) * length
                }
                _ => frame + 1,
            };
        }
    }

    /// Forgets running and waiting episodes; returns their frames.
    pub(crate) fn clear(&mut self) -> usize {
        let frames = self.open_frames + self.complete_frames;
        for piece in self.open.drain(..).chain(self.complete.drain(..).map(|complete| complete.piece)) {
            self.chunks.give_back(piece);
        }
        (self.open_frames, self.complete_frames) = (0, 0);
        frames
    }

    /// Forgets running and waiting episodes of the rows in `slots`; returns their frames.
    pub(crate) fn clear_rows(&mut self, slots: &[(u32, RowIndex)]) -> usize {
        let before = self.open_frames + self.complete_frames;
        for (slot, _) in slots {
            if let Some(piece) = self.open.get_mut(*slot as usize) {
                self.open_frames -= piece.frames;
                self.chunks.give_back(std::mem::replace(piece, EMPTY));
            }
        }
        let Self { chunks, complete, complete_frames, .. } = self;
        complete.retain(|complete| {
            let dropped = slots.iter().any(|(_, row)| *row == complete.trajectory.row);
            if dropped {
                *complete_frames -= complete.piece.frames;
                chunks.give_back(complete.piece);
            }
            !dropped
        });
        before - self.open_frames - self.complete_frames
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        self.chunks.memory()
    }
}

fn pad<T: Task>(block: &mut Block<T>, specs: &[ColumnSpec], slots: std::ops::Range<usize>) {
    for (column, spec) in block.columns.iter_mut().zip(specs) {
        column.bytes_mut()[slots.start * spec.stride..slots.end * spec.stride].fill(0);
    }
    debug_assert!(block.columns[column::FLAGS].values::<Flags>()[slots].iter().all(|flags| !flags.valid()));
}
