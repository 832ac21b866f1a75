//! One of `n` actions, from logits.

use pulp::{Simd, WithSimd};

use super::LANES;
use crate::{
    math,
    policy::plan::{Exploration, Forward, Outcome},
    seed,
};

const UNSET: u32 = u32::MAX;

/// Log-probability of `action` among the actions that `mask` allows (0 for illegal; empty for none): the logit less
/// the logarithm of the legal ones' summed exponentials, shifted by the largest. NaN for an illegal action.
pub fn log_prob(logits: &[f32], mask: &[u8], action: usize) -> f32 {
    let legal = |i: usize| mask.get(i).is_none_or(|entry| *entry != 0);
    if action >= logits.len() || !legal(action) {
        return f32::NAN;
    }
    let largest = (0..logits.len()).filter(|i| legal(*i)).fold(f32::NEG_INFINITY, |m, i| m.max(logits[i]));
    let total: f32 = (0..logits.len()).filter(|i| legal(*i)).map(|i| math::exp(logits[i] - largest)).sum();
    logits[action] - largest - math::ln(total)
}

/// Acts for all rows.
pub(super) struct Act<'a, 'b, 'c> {
    pub(super) n: usize,
    pub(super) input: &'a Forward<'b>,
    pub(super) out: &'a mut Outcome<'c>,
    pub(super) weights: &'a mut [[f32; LANES]],
}

impl WithSimd for Act<'_, '_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let count = self.input.keys.len();
        for first in (0..count).step_by(LANES) {
            let rows = super::lanes(first, count);
            act(self.n, &rows, self.input, self.out, self.weights);
        }
    }
}

/// Acts for [`LANES`] rows. A row whose mask forbids everything takes action 0 with log-probability NaN.
#[inline(always)]
fn act(n: usize, rows: &[usize; LANES], input: &Forward<'_>, out: &mut Outcome<'_>, weights: &mut [[f32; LANES]]) {
    let weights = &mut weights[..n];
    let mut largest = [f32::NEG_INFINITY; LANES];
    let mut mode = [UNSET; LANES];
    let mut last = [0_u32; LANES];
    for (i, logits) in weights.iter_mut().enumerate() {
        *logits = std::array::from_fn(|lane| out.params[rows[lane] * n + i]);
        let legal = legal(rows, input, i);
        for lane in 0..LANES {
            last[lane] = if legal[lane] { i as u32 } else { last[lane] };
            logits[lane] = if legal[lane] { logits[lane] } else { f32::NEG_INFINITY };
            let larger = logits[lane] > largest[lane];
            // The first legal one stands where no logit exceeds minus infinity: NaN.
            mode[lane] = if larger | (legal[lane] & (mode[lane] == UNSET)) { i as u32 } else { mode[lane] };
            largest[lane] = if larger { logits[lane] } else { largest[lane] };
        }
    }
    let mut total = [0.0; LANES];
    for weights in weights.iter_mut() {
        for lane in 0..LANES {
            weights[lane] = math::exp(weights[lane] - largest[lane]);
            total[lane] += weights[lane];
        }
    }
    let chosen = match input.exploration {
        Exploration::Sample => sample(weights, &total, &last, super::draw(rows, input, 0)[0]),
        _ => mode.map(|action| if action == UNSET { 0 } else { action }),
    };
    for lane in 0..LANES {
        let (row, action) = (rows[lane], chosen[lane]);
        out.actions[row] = action;
        let logit = out.params[row * n + action as usize];
        out.log_probs[row] = logit - largest[lane] - math::ln(total[lane]);
    }
}

/// The first action whose cumulated weight exceeds the drawn share of the total; none is left by rounding, or in NaN:
/// the last legal one.
#[inline(always)]
fn sample(weights: &[[f32; LANES]], total: &[f32; LANES], last: &[u32; LANES], words: [u32; LANES]) -> [u32; LANES] {
    let mut sum = [0.0; LANES];
    let mut below = [0_u32; LANES];
    for weights in weights {
        for lane in 0..LANES {
            sum[lane] += weights[lane];
            // Weights are not negative, so the sums that do not exceed the share come first and are counted.
            let exceeds = sum[lane] > seed::unit(words[lane]) * total[lane];
            below[lane] += u32::from(!exceeds);
        }
    }
    std::array::from_fn(|lane| below[lane].min(last[lane]))
}

#[inline(always)]
fn legal(rows: &[usize; LANES], input: &Forward<'_>, action: usize) -> [bool; LANES] {
    if input.masks.width() == 0 { [true; LANES] } else { rows.map(|row| input.masks.legal(row, action)) }
}
