//! Rows side by side: what heads share.

use pulp::{Simd, WithSimd};

use crate::{
    policy::plan::{Forward, Outcome},
    seed::{DRAWS_PER_FRAME, threefry_lanes},
};

/// Rows that a head computes side by side.
pub(crate) const LANES: usize = 16;

/// A head that acts for [`LANES`] rows at once.
pub(super) trait Act {
    /// Writes actions and log-probabilities of these rows, of which some may be the same.
    fn act(&mut self, rows: &[usize; LANES], input: &Forward<'_>, out: &mut Outcome<'_>);
}

/// Acts for all rows, by the widest instructions.
pub(super) struct All<'a, 'b, 'c, A> {
    pub(super) head: A,
    pub(super) input: &'a Forward<'b>,
    pub(super) out: &'a mut Outcome<'c>,
}

impl<A: Act> WithSimd for All<'_, '_, '_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let count = self.input.keys.len();
        for first in (0..count).step_by(LANES) {
            self.head.act(&lanes(first, count), self.input, self.out);
        }
    }
}

/// Runs of [`LANES`] rows. The last row of all stands in for those that are missing to the last run: one code path.
#[inline(always)]
fn lanes(first: usize, rows: usize) -> [usize; LANES] {
    let mut lanes = [0; LANES];
    for (lane, row) in lanes.iter_mut().enumerate() {
        *row = (first + lane).min(rows - 1);
    }
    lanes
}

/// Block `draw` of the coming frame of each row.
#[inline(always)]
pub(super) fn draw<const N: usize>(rows: &[usize; N], input: &Forward<'_>, draw: u32) -> [[u32; N]; 2] {
    let (mut key, mut counter) = ([[0; N]; 2], [[0; N]; 2]);
    for (lane, row) in rows.iter().enumerate() {
        [key[0][lane], key[1][lane]] = input.keys[*row].0;
        counter[0][lane] = input.steps[*row].0.wrapping_mul(DRAWS_PER_FRAME).wrapping_add(draw);
        counter[1][lane] = input.episodes[*row].0;
    }
    threefry_lanes(key, counter)
}

/// Writes the four bytes of element `at` of all actions.
#[inline(always)]
pub(super) fn put(actions: &mut [u8], at: usize, word: u32) {
    // One check of bounds.
    actions.as_chunks_mut().0[at] = word.to_ne_bytes();
}
