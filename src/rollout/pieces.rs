//! Trajectory mode: frames of rollouts joined to whole episodes.
//!
//! Each row's frames are copied once, at the end of a rollout, into pooled chunks, so a long episode pins no arena; a
//! batch of whole trajectories is a second copy, from chunks into flat columns.

use std::collections::VecDeque;

use super::{
    block::{Block, Final, Layout, column},
    column::Bytes,
    state::{Ended, Rollout},
};
use crate::{
    components::{ColumnSpec, Flags, RowIndex, Trajectory},
    task::Task,
};

/// Frames of a chunk.
const CHUNK: usize = 32;
const NONE: u32 = u32::MAX;

/// A list of chunks.
#[derive(Clone, Copy)]
struct Piece {
    first: u32,
    last: u32,
    frames: usize,
}

const EMPTY: Piece = Piece { first: NONE, last: NONE, frames: 0 };

/// An episode that is complete and waits for its batch.
struct Complete<O> {
    piece: Piece,
    trajectory: Trajectory,
    last: O,
}

/// The pool of chunks: per column `CHUNK` values, one behind the other.
struct Chunks {
    memory: Bytes,
    /// By chunk: the next one of its piece.
    next: Vec<u32>,
    free: Vec<u32>,
    /// Where each column begins in a chunk; the last entry is the chunk's size.
    offsets: Vec<usize>,
}

impl Chunks {
    fn new(specs: &[ColumnSpec]) -> Self {
        let mut offsets = vec![0];
        for spec in specs {
            let end: usize = offsets[offsets.len() - 1] + spec.stride * CHUNK;
            offsets.push(end.next_multiple_of(16));
        }
        Self { memory: Bytes::default(), next: Vec::new(), free: Vec::new(), offsets }
    }

    fn size(&self) -> usize {
        self.offsets[self.offsets.len() - 1]
    }

    /// A free chunk; the pool doubles when there is none.
    fn take(&mut self) -> u32 {
        if self.free.is_empty() {
            let have = self.next.len();
            let more = have.max(64);
            self.next.resize(have + more, NONE);
            self.memory.resize((have + more) * self.size());
            // Room for all, so that giving back never allocates.
            self.free.reserve(have + more);
            self.free.extend((have as u32..(have + more) as u32).rev());
        }
        match self.free.pop() {
            Some(chunk) => chunk,
            None => unreachable!("the pool has just grown"),
        }
    }

    fn give_back(&mut self, piece: Piece) {
        let mut chunk = piece.first;
        while chunk != NONE {
            self.free.push(chunk);
            chunk = std::mem::replace(&mut self.next[chunk as usize], NONE);
        }
    }

    /// Appends ticks `ticks` of `slot` of a time-major block.
    fn append<T: Task>(
        &mut self,
        piece: &mut Piece,
        block: &Block<T>,
        specs: &[ColumnSpec],
        slot: usize,
        rows: usize,
        ticks: std::ops::Range<usize>,
    ) {
        let mut tick = ticks.start;
        while tick < ticks.end {
            let within = piece.frames % CHUNK;
            if within == 0 {
                let chunk = self.take();
                if piece.frames == 0 {
                    piece.first = chunk;
                } else {
                    self.next[piece.last as usize] = chunk;
                }
                piece.last = chunk;
            }
            let n = (CHUNK - within).min(ticks.end - tick);
            let base = piece.last as usize * self.size();
            let memory = self.memory.bytes_mut();
            for (i, spec) in specs.iter().enumerate() {
                let start = base + self.offsets[i] + within * spec.stride;
                let to = &mut memory[start..start + n * spec.stride];
                gather(block.columns[i].bytes(), to, spec.stride, tick * rows + slot, rows);
            }
            piece.frames += n;
            tick += n;
        }
    }

    /// Copies a piece to slots from `at` on of a block of whole trajectories.
    fn copy_to<T: Task>(&self, piece: Piece, block: &mut Block<T>, specs: &[ColumnSpec], mut at: usize) {
        let (mut chunk, mut left) = (piece.first, piece.frames);
        let memory = self.memory.bytes();
        while left > 0 {
            let n = left.min(CHUNK);
            for (i, spec) in specs.iter().enumerate() {
                let from = chunk as usize * self.size() + self.offsets[i];
                let to = &mut block.columns[i].bytes_mut()[at * spec.stride..(at + n) * spec.stride];
                to.copy_from_slice(&memory[from..from + n * spec.stride]);
            }
            chunk = self.next[chunk as usize];
            (at, left) = (at + n, left - n);
        }
    }
}

/// Copies every `step`-th value of `from`, beginning with `first`, until `to` is full.
#[inline]
fn gather(from: &[u8], to: &mut [u8], stride: usize, first: usize, step: usize) {
    #[inline(always)]
    fn fixed<const N: usize>(from: &[u8], to: &mut [u8], first: usize, step: usize) {
        let (from, to) = (from.as_chunks::<N>().0, to.as_chunks_mut::<N>().0);
        for (to, from) in to.iter_mut().zip(from[first..].iter().step_by(step)) {
            *to = *from;
        }
    }
    match stride {
        1 => fixed::<1>(from, to, first, step),
        4 => fixed::<4>(from, to, first, step),
        8 => fixed::<8>(from, to, first, step),
        12 => fixed::<12>(from, to, first, step),
        16 => fixed::<16>(from, to, first, step),
        24 => fixed::<24>(from, to, first, step),
        _ => {
            for (i, to) in to.chunks_exact_mut(stride).enumerate() {
                let at = (first + i * step) * stride;
                to.copy_from_slice(&from[at..at + stride]);
            }
        }
    }
}

/// Joins rollouts to episodes and keeps those that are complete until a batch takes them.
pub(crate) struct Assembly<T: Task> {
    chunks: Chunks,
    /// By slot: the running episode.
    open: Vec<Piece>,
    /// By slot: the tick from which on the block belongs to the running episode. Scratch.
    from: Vec<usize>,
    complete: VecDeque<Complete<T::Observation>>,
    complete_frames: usize,
    open_frames: usize,
}

impl<T: Task> Assembly<T> {
    pub(crate) fn new(specs: &[ColumnSpec]) -> Self {
        Self {
            chunks: Chunks::new(specs),
            open: Vec::new(),
            from: Vec::new(),
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
        self.from.clear();
        self.from.resize(rows, 0);
        for Ended { slot, trajectory, last } in &rollout.ended {
            let slot = *slot as usize;
            // A fault on the rollout's first tick ends the episode at the rollout before: one tick before tick 0.
            let end = trajectory.tick.wrapping_add(1) as usize;
            let before = self.open[slot].frames;
            self.extend(block, specs, slot, rows, end);
            self.open_frames -= before;
            let piece = std::mem::replace(&mut self.open[slot], EMPTY);
            self.complete_frames += piece.frames;
            self.complete.push_back(Complete { piece, trajectory: *trajectory, last: *last });
        }
        for slot in 0..rows {
            let before = self.open[slot].frames;
            self.extend(block, specs, slot, rows, ticks);
            self.open_frames += self.open[slot].frames - before;
        }
    }

    /// Appends the slot's valid ticks up to `end`, and goes on behind them.
    fn extend(&mut self, block: &Block<T>, specs: &[ColumnSpec], slot: usize, rows: usize, end: usize) {
        if block.frames == block.layout.slots() {
            let from = self.from[slot];
            self.from[slot] = end.max(from);
            return self.chunks.append(&mut self.open[slot], block, specs, slot, rows, from..end);
        }
        let flags = block.flags();
        let valid = |tick: usize| flags[tick * rows + slot].valid();
        let mut tick = self.from[slot];
        while tick < end {
            // Slots without a frame lie between episodes only, or behind the last one.
            let start = (tick..end).find(|tick| valid(*tick)).unwrap_or(end);
            let stop = (start..end).find(|tick| !valid(*tick)).unwrap_or(end);
            if start < stop {
                self.chunks.append(&mut self.open[slot], block, specs, slot, rows, start..stop);
            }
            tick = stop.max(start);
        }
        self.from[slot] = self.from[slot].max(end);
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
        self.chunks.memory.capacity()
    }
}

fn pad<T: Task>(block: &mut Block<T>, specs: &[ColumnSpec], slots: std::ops::Range<usize>) {
    for (column, spec) in block.columns.iter_mut().zip(specs) {
        column.bytes_mut()[slots.start * spec.stride..slots.end * spec.stride].fill(0);
    }
    debug_assert!(block.columns[column::FLAGS].values::<Flags>()[slots].iter().all(|flags| !flags.valid()));
}
