//! Independent normal numbers, from means and a free logarithm of the deviation.

use pulp::{Simd, WithSimd};

use super::LANES;
use crate::{
    math,
    policy::plan::{Exploration, Forward, Outcome},
};

/// Log-density of `action`: the sum of `-z²/2 - log_std - ln(2π)/2` with `z = (action - mean) / e^log_std`.
pub fn log_prob(mean: &[f32], log_std: &[f32], action: &[f32]) -> f32 {
    let elements = mean.iter().zip(log_std).zip(action);
    elements.map(|((mean, log_std), action)| log_density((action - mean) / math::exp(*log_std), *log_std)).sum()
}

#[inline(always)]
fn log_density(z: f32, log_std: f32) -> f32 {
    -0.5 * (z * z) - log_std - math::HALF_LN_TAU
}

/// Acts for all rows.
pub(super) struct Act<'a, 'b, 'c> {
    pub(super) n: usize,
    pub(super) input: &'a Forward<'b>,
    pub(super) out: &'a mut Outcome<'c>,
    pub(super) log_std: &'a [f32],
}

impl WithSimd for Act<'_, '_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let count = self.input.keys.len();
        for first in (0..count).step_by(LANES) {
            let rows = super::lanes(first, count);
            act(self.n, self.log_std, &rows, self.input, self.out);
        }
    }
}

/// Acts for [`LANES`] rows.
#[inline(always)]
fn act(n: usize, log_std: &[f32], rows: &[usize; LANES], input: &Forward<'_>, out: &mut Outcome<'_>) {
    let mut log_probs = [0.0; LANES];
    for pair in 0..n.div_ceil(2) {
        let mut normals = [[0.0; LANES]; 2];
        if input.exploration == Exploration::Sample {
            let words = super::draw(rows, input, pair as u32);
            for lane in 0..LANES {
                [normals[0][lane], normals[1][lane]] = math::box_muller(words[0][lane], words[1][lane]);
            }
        }
        for (i, normals) in (2 * pair..n.min(2 * pair + 2)).zip(&normals) {
            let std = math::exp(log_std[i]);
            for lane in 0..LANES {
                let at = rows[lane] * n + i;
                out.actions[at] = (out.params[at] + std * normals[lane]).to_bits();
                log_probs[lane] += log_density(normals[lane], log_std[i]);
            }
        }
    }
    for lane in 0..LANES {
        out.log_probs[rows[lane]] = log_probs[lane];
    }
}
