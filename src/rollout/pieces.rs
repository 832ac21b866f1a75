//! Trajectory mode: frames of rollouts joined to whole episodes.
//!
//! An episode that ends in a rollout is copied behind the complete ones that wait for their batch; what runs on is copied
//! into pooled chunks, so a long episode pins no arena. A batch takes the waiting frames as they lie. What is to be stored
//! anyway need not wait for its end: [`Assembly::let_go`].

use std::{collections::VecDeque, ops::Range};

use bevy_ecs::prelude::Resource;

use super::{
    block::{Block, Final, Layout},
    chunks::{Chunks, EMPTY, Piece},
    ready::Ready,
    state::{Ended, Rollout},
    transpose::{ROWS, Transposed},
};
use crate::{
    components::{ColumnSpec, Flags, RowIndex, Trajectory, column},
    stats::Monitor,
    task::Task,
};

/// No episode.
const NONE: u32 = u32::MAX;

/// An episode that is complete and waits for its batch, or a piece of one that was let go before its end.
pub(super) struct Complete<O> {
    pub row: RowIndex,
    pub frames: usize,
    /// What followed the last frame.
    pub last: O,
    /// None if the episode goes on.
    pub trajectory: Option<Trajectory>,
}

/// Joins rollouts to episodes and keeps those that are complete until a batch takes them.
#[derive(Resource)]
pub(crate) struct Assembly<T: Task> {
    pub(super) chunks: Chunks,
    /// By slot: its row.
    pub(super) seats: Vec<RowIndex>,
    /// Running episodes of rows that have no slot any more, ascending, and how many frames of each were let go before.
    /// Scratch.
    left: Vec<(RowIndex, Piece, usize)>,
    /// By slot: the running episode.
    pub(super) open: Vec<Piece>,
    /// By slot: frames of the running episode that were let go before.
    pub(super) gone: Vec<usize>,
    /// By slot: the first episode that ended in the rollout, and by episode the next one of its slot. Scratch.
    first: Vec<u32>,
    next: Vec<u32>,
    /// By episode that ended in the rollout: where its frames go. Scratch.
    places: Vec<usize>,
    /// The rows that are being taken in. Scratch.
    rows: Transposed,
    pub(super) complete: VecDeque<Complete<T::Observation>>,
    /// The frames of `complete`.
    pub(super) ready: Ready,
    pub(super) open_frames: usize,
    /// Whether an episode that ended is listed although all its frames were let go before.
    lists_all: bool,
}

impl<T: Task> Assembly<T> {
    pub(crate) fn new(specs: &[ColumnSpec]) -> Self {
        Self {
            chunks: Chunks::new(specs),
            seats: Vec::new(),
            left: Vec::new(),
            open: Vec::new(),
            gone: Vec::new(),
            first: Vec::new(),
            next: Vec::new(),
            places: Vec::new(),
            rows: Transposed::default(),
            complete: VecDeque::new(),
            ready: Ready::default(),
            open_frames: 0,
            lists_all: false,
        }
    }

    /// Lists every episode that ends, also one whose frames were all let go before a fault ended it.
    pub(crate) fn listing_all(mut self) -> Self {
        self.lists_all = true;
        self
    }

    /// Complete episodes, and pieces that were let go, that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.complete.len()
    }

    /// Frames of running episodes that are held.
    pub(crate) fn open_frames(&self) -> usize {
        self.open_frames
    }

    /// Frames that are held, of running and of waiting episodes.
    pub(crate) fn held(&self) -> usize {
        self.open_frames + self.ready.len()
    }

    /// Takes in the rollout's block: its first `ticks` ticks.
    pub(crate) fn ingest(&mut self, rollout: &Rollout<T>, block: &Block<T>, ticks: usize) {
        let (rows, specs) = (rollout.rows, &rollout.columns.specs);
        self.seat(&block.rows);
        self.list(&block.trajectories, &rollout.ended, specs);
        self.drop_left(&rollout.monitor);
        for first in (0..rows).step_by(ROWS) {
            let group = first..(first + ROWS).min(rows);
            self.rows.fill(block, specs, group.clone(), ticks);
            for (i, slot) in group.enumerate() {
                self.ingest_row(rollout, block, slot, i, ticks);
            }
        }
    }

    /// Brings running episodes to the slots that their rows have now.
    fn seat(&mut self, rows: &[RowIndex]) {
        if self.seats == rows {
            return;
        }
        let running = self.seats.drain(..).zip(self.open.drain(..)).zip(self.gone.drain(..));
        self.left.extend(running.map(|((row, piece), gone)| (row, piece, gone)));
        sort_left(&mut self.left);
        for row in rows {
            let (piece, gone) = self.left_by(*row);
            self.seats.push(*row);
            self.open.push(piece);
            self.gone.push(gone);
        }
    }

    /// What is held of a row's running episode that has no slot, and how many frames of it are not any more.
    fn left_by(&mut self, row: RowIndex) -> (Piece, usize) {
        let Ok(i) = self.left.binary_search_by_key(&row, |(row, ..)| *row) else { return (EMPTY, 0) };
        let (_, piece, gone) = &mut self.left[i];
        (std::mem::replace(piece, EMPTY), std::mem::take(gone))
    }

    /// Drops the episodes of rows that vanished without an end, such as a despawned environment's.
    fn drop_left(&mut self, monitor: &Monitor) {
        let mut frames = 0;
        for (_, piece, _) in self.left.drain(..) {
            frames += piece.frames;
            self.chunks.give_back(piece);
        }
        if frames > 0 {
            self.open_frames -= frames;
            let mut ledger = monitor.ledger();
            ledger.counters.discarded.fault += frames as u64;
            ledger.in_flight -= frames as u64;
        }
    }

    /// Lists the episodes that ended in the rollout: as complete, where their frames go, and by slot.
    fn list(&mut self, trajectories: &[Trajectory], ended: &[Ended<T::Observation>], specs: &[ColumnSpec]) {
        self.places.clear();
        let (mut frames, mut left_before) = (0, Vec::new());
        for (i, (trajectory, Ended { slot, last })) in trajectories.iter().zip(ended).enumerate() {
            self.places.push(frames);
            let seated = self.seats.get(*slot as usize) == Some(&trajectory.row);
            let left = if seated {
                trajectory.length as usize - std::mem::take(&mut self.gone[*slot as usize])
            } else {
                // Its row has left before the rollout: all that there is of the episode is here.
                let (piece, _) = self.left_by(trajectory.row);
                let frames = piece.frames;
                left_before.push((i, piece));
                frames
            };
            frames += left;
            // One that a fault ended just behind a piece that was let go has nothing left.
            if left > 0 || self.lists_all {
                let (row, trajectory) = (trajectory.row, Some(*trajectory));
                self.complete.push_back(Complete { row, frames: left, last: *last, trajectory });
            }
        }
        let first = self.ready.reserve(specs, frames);
        self.places.iter_mut().for_each(|place| *place += first);
        self.first.clear();
        self.first.resize(self.seats.len(), NONE);
        self.next.clear();
        self.next.resize(ended.len(), NONE);
        let seated = |(i, _): &(usize, &Ended<_>)| !left_before.iter().any(|(before, _)| before == i);
        for (i, ended) in ended.iter().enumerate().rev().filter(seated) {
            self.next[i] = std::mem::replace(&mut self.first[ended.slot as usize], i as u32);
        }
        for (i, piece) in left_before {
            self.open_frames -= piece.frames;
            self.chunks.move_to(piece, &mut self.ready, specs, self.places[i]);
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
            let end_of_frames = self.places.get(episode as usize + 1).copied().unwrap_or(ready.len());
            debug_assert_eq!(place, end_of_frames, "frames of {trajectory:?}");
            tick = end.max(tick);
            episode = self.next[episode as usize];
        }
        valid_runs(block, slot, tick..ticks, |run| chunks.append(&mut piece, rows, specs, i, run));
        self.open_frames += piece.frames;
        self.open[slot] = piece;
    }

    /// Lets the longest running pieces go as they are, to wait with the complete episodes, until at most `most` frames of
    /// running episodes are held; the block is that of the rollout just taken in, and has `ticks` ticks. Returns how many.
    pub(crate) fn let_go(&mut self, block: &Block<T>, specs: &[ColumnSpec], ticks: usize, most: usize) -> usize {
        let mut pieces = 0;
        while self.open_frames > most {
            let longest = (0..self.open.len()).rev().max_by_key(|slot| self.open[*slot].frames);
            let Some(slot) = longest else { break };
            self.let_slot_go(block, specs, slot, ticks);
            pieces += 1;
        }
        pieces
    }

    /// Lets all running pieces go as they are, in row order; the block is that of the rollout just taken in, and has
    /// `ticks` ticks.
    pub(crate) fn let_all_go(&mut self, block: &Block<T>, specs: &[ColumnSpec], ticks: usize) {
        for slot in 0..self.open.len() {
            if self.open[slot].frames > 0 {
                self.let_slot_go(block, specs, slot, ticks);
            }
        }
    }

    fn let_slot_go(&mut self, block: &Block<T>, specs: &[ColumnSpec], slot: usize, ticks: usize) {
        let piece = std::mem::replace(&mut self.open[slot], EMPTY);
        self.gone[slot] += piece.frames;
        let (row, last) = (block.rows[slot], seen_last(block, slot, ticks));
        let frames = piece.frames;
        self.open_frames -= frames;
        let place = self.ready.reserve(specs, frames);
        self.chunks.move_to(piece, &mut self.ready, specs, place);
        self.complete.push_back(Complete { row, frames, last, trajectory: None });
    }

    /// Fills `block` with the next `n` complete episodes, flat or padded.
    pub(crate) fn emit(&mut self, block: &mut Block<T>, specs: &[ColumnSpec], n: usize, padded: bool) {
        let n = n.min(self.complete.len());
        let lengths = self.complete.iter().take(n).map(|complete| complete.frames);
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
            let next = at + complete.frames;
            if let Layout::Padded { length, .. } = block.layout {
                self.ready.take(block, specs, complete.frames, at);
                pad(block, specs, next..(trajectory + 1) * length);
            }
            block.trajectories.extend(complete.trajectory);
            if complete.frames == 0 {
                continue;
            }
            block.finals.push(Final { frame: next - 1, observation: complete.last });
            if let Some(trajectory) = complete.trajectory {
                // The last frame carries the end, also when a fault was found one tick later.
                let end = &mut block.ends_mut()[next - 1];
                if !end.ends_episode() {
                    *end = trajectory.end;
                }
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
        self.seats.clear();
        self.gone.clear();
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
                self.gone[*slot as usize] = 0;
            }
        }
        let stays = |complete: &Complete<_>| !slots.iter().any(|(_, row)| *row == complete.row);
        self.ready.retain(specs, self.complete.iter().map(|complete| (complete.frames, stays(complete))));
        self.complete.retain(stays);
        before - self.open_frames - self.ready.len()
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        self.chunks.memory() + self.ready.memory()
    }
}

/// Apart from the task, like all that does not depend on it: a sort is much code.
fn sort_left(left: &mut [(RowIndex, Piece, usize)]) {
    left.sort_unstable_by_key(|(row, ..)| *row);
}

/// What a row sees after its last frame in the first `ticks` ticks.
fn seen_last<T: Task>(block: &Block<T>, slot: usize, ticks: usize) -> T::Observation {
    let frames = (0..ticks).rev().map(|tick| tick * block.rows.len() + slot);
    match frames.into_iter().find(|frame| block.flags()[*frame].valid()) {
        Some(frame) => *block.next_observation(frame),
        // The budget left the row out: it sees what it saw, but its slot holds no frame.
        None => block.observations()[ticks * block.rows.len() + slot],
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
