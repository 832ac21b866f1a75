//! Heads: from the last layer's parameters to actions and log-probabilities.

pub mod categorical;
pub mod gaussian;

use pulp::Arch;

use super::plan::{Forward, Head, Outcome};
use crate::seed::DRAWS_PER_FRAME;

/// Most elements of a Gaussian's action: a draw gives two normal numbers, and a frame has [`DRAWS_PER_FRAME`].
pub const MAX_GAUSSIAN: usize = 2 * DRAWS_PER_FRAME as usize;

/// Rows that a head computes side by side.
pub(super) const LANES: usize = 8;

/// Memory that a head needs between calls.
#[derive(Clone, Debug)]
pub(super) struct Scratch {
    /// Weights of the distribution of [`LANES`] rows.
    lanes: Vec<[f32; LANES]>,
}

impl Scratch {
    pub(super) fn new(head: &Head) -> Self {
        let lanes = match head {
            Head::Categorical { n } => *n,
            Head::Gaussian { .. } => 0,
        };
        Self { lanes: vec![[0.0; LANES]; lanes] }
    }
}

/// What a head's parameters stand for.
pub(super) fn unit_name(head: &Head) -> &'static str {
    match head {
        Head::Categorical { .. } => "actions",
        Head::Gaussian { .. } => "elements",
    }
}

/// Writes actions and log-probabilities of all rows from `out.params`.
pub(super) fn act(
    arch: Arch,
    head: &Head,
    log_std: &[f32],
    input: &Forward<'_>,
    out: &mut Outcome<'_>,
    scratch: &mut Scratch,
) {
    match *head {
        Head::Categorical { n } => arch.dispatch(categorical::Act { n, input, out, weights: &mut scratch.lanes }),
        Head::Gaussian { n } => arch.dispatch(gaussian::Act { n, log_std, input, out }),
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
pub(super) fn draw(rows: &[usize; LANES], input: &Forward<'_>, draw: u32) -> [[u32; LANES]; 2] {
    let (mut key, mut counter) = ([[0; LANES]; 2], [[0; LANES]; 2]);
    for (lane, row) in rows.iter().enumerate() {
        [key[0][lane], key[1][lane]] = input.keys[*row].0;
        counter[0][lane] = input.steps[*row].0.wrapping_mul(DRAWS_PER_FRAME).wrapping_add(draw);
        counter[1][lane] = input.episodes[*row].0;
    }
    crate::seed::threefry_lanes(key, counter)
}
