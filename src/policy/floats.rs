//! Floats at the start of a cache line.

use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// A fixed number of floats, the first at the start of a cache line: a vector that crosses two of them is loaded twice,
/// and where an allocator puts a `Vec<f32>` changes from run to run.
#[derive(Clone, Debug, Default)]
pub(super) struct Floats {
    lines: Vec<Line>,
    len: usize,
}

impl Floats {
    /// `len` zeros.
    pub(super) fn zeros(len: usize) -> Self {
        Self { lines: vec![Line::zeroed(); len.div_ceil(16)], len }
    }
}

impl Deref for Floats {
    type Target = [f32];

    #[inline(always)]
    fn deref(&self) -> &[f32] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }
}

impl DerefMut for Floats {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_float_begins_a_line() {
        for len in [0, 1, 15, 16, 17, 1000] {
            let mut floats = Floats::zeros(len);
            floats.iter_mut().for_each(|x| *x += 1.0);
            assert_eq!(*floats, vec![1.0; len]);
            assert_eq!(floats.as_ptr().addr() % 64, 0);
        }
    }
}
