//! Memory of episodes that are complete and wait for their batch.

use std::ops::Range;

use bytemuck::Pod;

use super::block::Block;
use crate::{
    bytes::Bytes,
    checkpoint::{BlockReader, BlockWriter},
    components::{ColumnSpec, Writer},
    error::Error,
    task::Task,
};

/// Frames in columns, one episode behind the other in the order in which they ended; batches take them from the front.
#[derive(Default)]
pub(super) struct Ready {
    columns: Vec<Bytes>,
    /// The frames that are there.
    frames: Range<usize>,
}

impl Ready {
    /// Frames that wait.
    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Makes room for `frames` more behind the last one; returns where they begin. They are to be written at once.
    pub(super) fn reserve(&mut self, specs: &[ColumnSpec], frames: usize) -> usize {
        self.columns.resize_with(specs.len(), Bytes::default);
        if self.frames.start > 0 {
            self.shift(specs, self.frames.clone(), 0);
            self.frames = 0..self.frames.len();
        }
        let begin = self.frames.end;
        self.frames.end += frames;
        for (column, spec) in self.columns.iter_mut().zip(specs) {
            column.resize(self.frames.end * spec.stride);
        }
        begin
    }

    /// A run of slots of a column of values of `stride` bytes, to be written.
    #[inline(always)]
    pub(super) fn run_mut(&mut self, column: usize, stride: usize, slots: Range<usize>) -> &mut [u8] {
        &mut self.columns[column].bytes_mut()[slots.start * stride..slots.end * stride]
    }

    /// Moves the first `frames` frames to slots from `at` on of a block.
    pub(super) fn take<T: Task>(&mut self, block: &mut Block<T>, specs: &[ColumnSpec], frames: usize, at: usize) {
        let from = self.frames.start..self.frames.start + frames;
        for ((to, column), spec) in block.columns.iter_mut().zip(&self.columns).zip(specs) {
            let stride = spec.stride;
            let to = &mut to.bytes_mut()[at * stride..(at + frames) * stride];
            Writer::default().copy(&column.bytes()[from.start * stride..from.end * stride], to);
        }
        self.frames.start = from.end;
    }

    /// Drops all but some of the frames. `episodes` are the lengths of all episodes and whether each stays.
    pub(super) fn retain(&mut self, specs: &[ColumnSpec], episodes: impl Iterator<Item = (usize, bool)>) {
        let (mut from, mut to) = (self.frames.start, self.frames.start);
        for (length, stays) in episodes {
            if stays {
                self.shift(specs, from..from + length, to);
                to += length;
            }
            from += length;
        }
        self.frames.end = to;
    }

    /// Drops all frames.
    pub(super) fn clear(&mut self) {
        self.frames = 0..0;
    }

    /// Writes the frames that wait, column by column.
    pub(super) fn save(&self, specs: &[ColumnSpec], to: &mut BlockWriter<'_>) -> Result<(), Error> {
        if self.frames.is_empty() {
            return Ok(());
        }
        for (column, spec) in self.columns.iter().zip(specs) {
            to.raw(&column.bytes()[self.frames.start * spec.stride..self.frames.end * spec.stride])?;
        }
        Ok(())
    }

    /// Reads frames that were [saved](Self::save).
    pub(super) fn load(frames: u64, specs: &[ColumnSpec], from: &mut BlockReader<'_>) -> Result<Self, Error> {
        let (mut ready, mut bytes) = (Self::default(), Vec::new());
        if frames == 0 {
            return Ok(ready);
        }
        for spec in specs {
            // Room is made once it was seen that the bytes are there.
            from.raw(frames.saturating_mul(spec.stride as u64), &mut bytes)?;
            let mut column = Bytes::default();
            column.resize(bytes.len());
            column.bytes_mut().copy_from_slice(&bytes);
            ready.columns.push(column);
        }
        ready.frames = 0..frames as usize;
        Ok(ready)
    }

    /// The values of a column of some of the frames that wait, counted from the first.
    pub(super) fn values<V: Pod>(&self, column: usize, frames: Range<usize>) -> impl Iterator<Item = &V> {
        self.columns[column].values()[self.frames.start..][frames].iter()
    }

    fn shift(&mut self, specs: &[ColumnSpec], from: Range<usize>, to: usize) {
        for (column, spec) in self.columns.iter_mut().zip(specs) {
            let stride = spec.stride;
            column.bytes_mut().copy_within(from.start * stride..from.end * stride, to * stride);
        }
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.columns.iter().map(Bytes::capacity).sum()
    }
}
