//! A bare gather: columns, places, and a copy loop a column. No draws, no trajectories, nothing else.

use memmap2::MmapMut;

use crate::pages::ones;

/// The columns of a buffer, and memory for what is gathered from them.
pub struct Bare {
    columns: Vec<(usize, MmapMut)>,
    out: Vec<Vec<u8>>,
    /// Places of runs, many times as many as are gathered at a time.
    places: Vec<usize>,
    at: usize,
}

impl Bare {
    /// Columns with these strides, in bytes, of `rows` rows.
    pub fn new(strides: impl IntoIterator<Item = usize>, rows: usize, run: usize) -> Self {
        let columns: Vec<_> = strides.into_iter().map(|stride| (stride, ones(stride * rows))).collect();
        // A multiplicative generator, whose low bits are dropped.
        let mut state = 1_u64;
        let mut place = || {
            state = state.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
            ((u128::from(state) * (rows - run) as u128) >> 64) as usize
        };
        let places = (0..1 << 20).map(|_| place()).collect();
        Self { out: vec![Vec::new(); columns.len()], columns, places, at: 0 }
    }

    /// Gathers `count` runs of `run` rows of every column; the last `next` columns give only the row behind each run.
    pub fn gather(&mut self, count: usize, run: usize, next: usize) -> u64 {
        if self.at + count > self.places.len() {
            self.at = 0;
        }
        let places = &self.places[self.at..self.at + count];
        self.at += count;
        let whole = self.columns.len() - next;
        for (i, ((stride, from), out)) in self.columns.iter().zip(&mut self.out).enumerate() {
            let (run, first) = if i < whole { (run, 0) } else { (1, run) };
            out.resize(count * run * stride, 0);
            match (*stride, run) {
                (1, 1) => copy::<1>(from, places, first, out),
                (4, 1) => copy::<4>(from, places, first, out),
                (8, 1) => copy::<8>(from, places, first, out),
                (16, 1) | (1, 16) => copy_strided::<16>(from, places, first, *stride, out),
                (96, 1) => copy::<96>(from, places, first, out),
                (4, 16) => copy_strided::<64>(from, places, first, 4, out),
                (8, 16) => copy_strided::<128>(from, places, first, 8, out),
                (16, 16) => copy_strided::<256>(from, places, first, 16, out),
                (stride, run) => {
                    for (place, out) in places.iter().zip(out.chunks_exact_mut(stride * run)) {
                        out.copy_from_slice(&from[(place + first) * stride..][..stride * run]);
                    }
                }
            }
        }
        std::hint::black_box(&self.out);
        (count * run) as u64
    }
}

fn copy<const N: usize>(from: &[u8], places: &[usize], first: usize, out: &mut [u8]) {
    copy_strided::<N>(from, places, first, N, out);
}

/// `N` bytes from each place on, whose size is known when it is compiled.
fn copy_strided<const N: usize>(from: &[u8], places: &[usize], first: usize, stride: usize, out: &mut [u8]) {
    for (place, out) in places.iter().zip(out.as_chunks_mut::<N>().0) {
        *out = *from[(place + first) * stride..].first_chunk().expect("places that are there");
    }
}
