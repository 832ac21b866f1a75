//! From ticks to rows.

use std::ops::Range;

use super::{block::Block, ready::Ready};
use crate::{bytes::Bytes, components::ColumnSpec, task::Task};

/// Rows that are transposed together: a cache line of a column of 2 bytes or more, so that each line of a block is read
/// once; all columns of 64 ticks fit a second-level cache.
pub(super) const ROWS: usize = 32;

/// A few rows of a time-major block with each row's ticks one behind the other.
#[derive(Default)]
pub(super) struct Transposed {
    columns: Vec<Bytes>,
    /// Values from one row's first tick to the next row's: one more than ticks. Rows that lie a power of two apart would
    /// contend for the same few places of a cache.
    pitch: usize,
}

impl Transposed {
    /// Takes the first `ticks` ticks of `rows`, at most [`ROWS`] slots of a block.
    pub(super) fn fill<T: Task>(&mut self, block: &Block<T>, specs: &[ColumnSpec], rows: Range<usize>, ticks: usize) {
        self.columns.resize_with(specs.len(), Bytes::default);
        self.pitch = ticks + 1;
        for ((to, from), spec) in self.columns.iter_mut().zip(&block.columns).zip(specs) {
            to.resize(ROWS * self.pitch * spec.stride);
            touch(
                from.bytes(),
                rows.start * spec.stride..rows.end * spec.stride,
                block.rows.len() * spec.stride,
                ticks,
            );
            transpose(from.bytes(), to.bytes_mut(), spec.stride, rows.clone(), block.rows.len(), ticks);
        }
    }

    /// Ticks of the `i`-th row of a column of values of `stride` bytes.
    #[inline(always)]
    pub(super) fn run(&self, column: usize, stride: usize, i: usize, ticks: Range<usize>) -> &[u8] {
        let start = i * self.pitch;
        &self.columns[column].bytes()[(start + ticks.start) * stride..(start + ticks.end) * stride]
    }

    /// Copies ticks of the `i`-th row to slots from `at` on.
    pub(super) fn copy_to(&self, i: usize, ticks: Range<usize>, to: &mut Ready, specs: &[ColumnSpec], at: usize) {
        for (column, spec) in specs.iter().enumerate() {
            let from = self.run(column, spec.stride, i, ticks.clone());
            to.run_mut(column, spec.stride, at..at + ticks.len()).copy_from_slice(from);
        }
    }
}

/// Reads a byte of each cache line that [`transpose`] will read. A loop of loads alone has many of them under way at a
/// time; one that also writes waits for each.
fn touch(from: &[u8], columns: Range<usize>, pitch: usize, ticks: usize) {
    let lines = |tick| from[tick * pitch..][columns.clone()].iter().step_by(64);
    std::hint::black_box((0..ticks).flat_map(lines).fold(0, |all, byte| all | byte));
}

fn transpose(from: &[u8], to: &mut [u8], stride: usize, rows: Range<usize>, all: usize, ticks: usize) {
    #[inline(always)]
    fn fixed<const N: usize>(from: &[u8], to: &mut [u8], rows: Range<usize>, all: usize, ticks: usize) {
        let (from, to) = (from.as_chunks::<N>().0, to.as_chunks_mut::<N>().0);
        for (tick, from) in from.chunks_exact(all).take(ticks).enumerate() {
            for (to, from) in to[tick..].iter_mut().step_by(ticks + 1).zip(&from[rows.clone()]) {
                *to = *from;
            }
        }
    }
    match stride {
        1 => fixed::<1>(from, to, rows, all, ticks),
        4 => fixed::<4>(from, to, rows, all, ticks),
        8 => fixed::<8>(from, to, rows, all, ticks),
        12 => fixed::<12>(from, to, rows, all, ticks),
        16 => fixed::<16>(from, to, rows, all, ticks),
        24 => fixed::<24>(from, to, rows, all, ticks),
        _ => {
            for (tick, from) in from.chunks_exact(all * stride).take(ticks).enumerate() {
                for (i, row) in rows.clone().enumerate() {
                    let at = (i * (ticks + 1) + tick) * stride;
                    to[at..at + stride].copy_from_slice(&from[row * stride..(row + 1) * stride]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stride_and_a_part_of_the_rows() {
        for stride in [1, 3, 4, 8, 12, 16, 24, 40] {
            let (all, ticks, rows) = (7, 5, 2..6);
            // One tick more than is taken, as in the columns that lead.
            let from: Vec<u8> = (0..all * (ticks + 1) * stride).map(|i| (i * 31 % 251) as u8).collect();
            let mut to = vec![0; ROWS * (ticks + 1) * stride];
            transpose(&from, &mut to, stride, rows.clone(), all, ticks);
            for (i, row) in rows.enumerate() {
                for tick in 0..ticks {
                    let (a, b) = ((i * (ticks + 1) + tick) * stride, (tick * all + row) * stride);
                    assert_eq!(to[a..a + stride], from[b..b + stride], "stride {stride}, row {row}, tick {tick}");
                }
            }
        }
    }
}
