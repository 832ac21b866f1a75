//! Memory of episodes that run: lists of chunks from one pool.

use std::ops::Range;

use super::{ready::Ready, transpose::Transposed};
use crate::{bytes::Bytes, components::ColumnSpec};

/// Frames of a chunk.
const CHUNK: usize = 32;
const NONE: u32 = u32::MAX;

/// A list of chunks.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    first: u32,
    last: u32,
    pub frames: usize,
}

pub(super) const EMPTY: Piece = Piece { first: NONE, last: NONE, frames: 0 };

/// The pool of chunks: per column `CHUNK` values, one behind the other.
pub(super) struct Chunks {
    memory: Bytes,
    /// By chunk: the next one of its piece.
    next: Vec<u32>,
    free: Vec<u32>,
    /// Where each column begins in a chunk; the last entry is the chunk's size.
    offsets: Vec<usize>,
}

impl Chunks {
    pub(super) fn new(specs: &[ColumnSpec]) -> Self {
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

    pub(super) fn give_back(&mut self, piece: Piece) {
        let mut chunk = piece.first;
        while chunk != NONE {
            self.free.push(chunk);
            chunk = std::mem::replace(&mut self.next[chunk as usize], NONE);
        }
    }

    /// Appends ticks `ticks` of the `i`-th row of `rows`.
    pub(super) fn append(
        &mut self,
        piece: &mut Piece,
        rows: &Transposed,
        specs: &[ColumnSpec],
        i: usize,
        ticks: Range<usize>,
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
            for (column, spec) in specs.iter().enumerate() {
                let start = base + self.offsets[column] + within * spec.stride;
                let from = rows.run(column, spec.stride, i, tick..tick + n);
                memory[start..start + n * spec.stride].copy_from_slice(from);
            }
            piece.frames += n;
            tick += n;
        }
    }

    /// Moves a piece to slots from `at` on.
    pub(super) fn move_to(&mut self, piece: Piece, to: &mut Ready, specs: &[ColumnSpec], mut at: usize) {
        let (mut chunk, mut left) = (piece.first, piece.frames);
        let memory = self.memory.bytes();
        while left > 0 {
            let n = left.min(CHUNK);
            for (column, spec) in specs.iter().enumerate() {
                let from = chunk as usize * self.size() + self.offsets[column];
                let to = to.run_mut(column, spec.stride, at..at + n);
                to.copy_from_slice(&memory[from..from + n * spec.stride]);
            }
            chunk = self.next[chunk as usize];
            (at, left) = (at + n, left - n);
        }
        self.give_back(piece);
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.memory.capacity()
    }
}
