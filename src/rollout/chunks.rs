//! Memory of episodes that run: lists of chunks from one pool.

use std::ops::Range;

use bytemuck::Pod;

use super::{ready::Ready, transpose::Transposed};
use crate::{
    bytes::Bytes,
    checkpoint::{BlockReader, BlockWriter},
    components::ColumnSpec,
    error::Error,
};

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

    /// Adds a chunk to a piece whose last one is full.
    fn chunk_for(&mut self, piece: &mut Piece) -> usize {
        let chunk = self.take();
        if piece.frames == 0 {
            piece.first = chunk;
        } else {
            self.next[piece.last as usize] = chunk;
        }
        piece.last = chunk;
        chunk as usize
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
                self.chunk_for(piece);
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

    /// Writes the frames of a piece, chunk by chunk.
    pub(super) fn save(&self, piece: &Piece, specs: &[ColumnSpec], to: &mut BlockWriter<'_>) -> Result<(), Error> {
        let (mut chunk, mut left) = (piece.first, piece.frames);
        while left > 0 {
            let n = left.min(CHUNK);
            for (column, spec) in specs.iter().enumerate() {
                let from = chunk as usize * self.size() + self.offsets[column];
                to.raw(&self.memory.bytes()[from..from + n * spec.stride])?;
            }
            chunk = self.next[chunk as usize];
            left -= n;
        }
        Ok(())
    }

    /// Reads the frames of a piece that was [saved](Self::save).
    pub(super) fn load(
        &mut self,
        frames: u64,
        specs: &[ColumnSpec],
        from: &mut BlockReader<'_>,
    ) -> Result<Piece, Error> {
        let (mut piece, mut bytes) = (EMPTY, Vec::new());
        while (piece.frames as u64) < frames {
            let n = (frames - piece.frames as u64).min(CHUNK as u64) as usize;
            let chunk = self.chunk_for(&mut piece);
            for (column, spec) in specs.iter().enumerate() {
                from.raw((n * spec.stride) as u64, &mut bytes)?;
                let start = chunk * self.size() + self.offsets[column];
                self.memory.bytes_mut()[start..start + bytes.len()].copy_from_slice(&bytes);
            }
            piece.frames += n;
        }
        Ok(piece)
    }

    /// Hands over the values of a column of a piece, chunk by chunk.
    pub(super) fn values<'c, V: Pod>(&'c self, piece: &Piece, column: usize) -> impl Iterator<Item = &'c V> {
        let (first, mut left) = (piece.first, piece.frames);
        let chunks = std::iter::successors(Some(first), |chunk| self.next.get(*chunk as usize).copied());
        chunks.take_while(|chunk| *chunk != NONE).flat_map(move |chunk| {
            let n = left.min(CHUNK);
            left -= n;
            let from = chunk as usize * self.size() + self.offsets[column];
            bytemuck::cast_slice(&self.memory.bytes()[from..from + n * size_of::<V>()])
        })
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.memory.capacity()
    }
}
