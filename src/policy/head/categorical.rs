//! One of `n` actions, from logits.

use super::lanes::{Act, LANES, draw, put};
use crate::{
    math,
    policy::plan::{Exploration, Forward, Outcome},
    seed,
};

const UNSET: u32 = u32::MAX;

/// Log-probability of `action` among the actions that `mask` allows (0 for illegal; empty for none): the logit less
/// the logarithm of the legal ones' summed exponentials, shifted by the largest. NaN for an illegal action.
pub fn log_prob(logits: &[f32], mask: &[u8], action: usize) -> f32 {
    if action >= logits.len() || !legal(mask, action) {
        return f32::NAN;
    }
    let (largest, total) = normalizer(logits, mask);
    // The logarithm does not know NaN.
    if total.is_nan() { f32::NAN } else { logits[action] - largest - math::ln(total) }
}

/// Entropy in nats among the actions that `mask` allows: `-Σ p ln p`. NaN if it allows none.
pub fn entropy(logits: &[f32], mask: &[u8]) -> f32 {
    let (largest, total) = normalizer(logits, mask);
    if total.is_nan() || total == 0.0 {
        return f32::NAN;
    }
    let shifted = (0..logits.len()).filter(|i| legal(mask, *i)).map(|i| logits[i] - largest);
    // A weight that vanished adds nothing, be its logit minus infinity.
    let term = |x: f32| if math::exp(x) > 0.0 { math::exp(x) * x } else { 0.0 };
    math::ln(total) - shifted.map(term).sum::<f32>() / total
}

pub(super) fn legal(mask: &[u8], action: usize) -> bool {
    mask.get(action).is_none_or(|entry| *entry != 0)
}

/// The largest legal logit, and the sum of the legal ones' exponentials once it is taken off.
fn normalizer(logits: &[f32], mask: &[u8]) -> (f32, f32) {
    let allowed = || (0..logits.len()).filter(|i| legal(mask, *i));
    let largest = allowed().fold(f32::NEG_INFINITY, |largest, i| largest.max(logits[i]));
    (largest, allowed().map(|i| math::exp(logits[i] - largest)).sum())
}

/// The head of one number.
pub(super) struct Categorical<'a> {
    pub(super) n: usize,
    pub(super) weights: &'a mut [[f32; LANES]],
}

impl Act for Categorical<'_> {
    #[inline(always)]
    fn act(&mut self, rows: &[usize; LANES], input: &Forward<'_>, out: &mut Outcome<'_>) {
        let part = Part { width: self.n, first: 0, n: self.n, elements: 1, element: 0 };
        let sample = input.exploration == Exploration::Sample;
        let words = if sample { draw(rows, input, 0)[0] } else { [0; LANES] };
        let log_probs = part.act(rows, input, words, out, self.weights);
        for lane in 0..LANES {
            out.log_probs[rows[lane]] = log_probs[lane];
        }
    }
}

/// One number of an action, and its logits among the row's.
pub(super) struct Part {
    /// Logits of a row.
    pub(super) width: usize,
    /// Its first logit, and entry of the mask.
    pub(super) first: usize,
    /// Its logits.
    pub(super) n: usize,
    /// Numbers of an action.
    pub(super) elements: usize,
    /// Its place among them.
    pub(super) element: usize,
}

impl Part {
    /// Chooses it for [`LANES`] rows; returns its log-probabilities. Where a mask forbids everything the action is 0 and
    /// the log-probability NaN.
    #[inline(always)]
    pub(super) fn act(
        &self,
        rows: &[usize; LANES],
        input: &Forward<'_>,
        words: [u32; LANES],
        out: &mut Outcome<'_>,
        weights: &mut [[f32; LANES]],
    ) -> [f32; LANES] {
        let weights = &mut weights[..self.n];
        let mut largest = [f32::NEG_INFINITY; LANES];
        let mut mode = [UNSET; LANES];
        let mut last = [0_u32; LANES];
        for (i, logits) in weights.iter_mut().enumerate() {
            *logits = std::array::from_fn(|lane| out.params[rows[lane] * self.width + self.first + i]);
            let legal = self.legal(rows, input, i);
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
            Exploration::Sample => sample(weights, &total, &last, words),
            _ => mode.map(|action| if action == UNSET { 0 } else { action }),
        };
        // Loops of their own, so that the logarithms are computed side by side.
        let mut log_probs = [0.0; LANES];
        for lane in 0..LANES {
            let (row, action) = (rows[lane], chosen[lane]);
            put(out.actions, row * self.elements + self.element, action);
            log_probs[lane] = out.params[row * self.width + self.first + action as usize];
        }
        for lane in 0..LANES {
            let log_prob = log_probs[lane] - largest[lane] - math::ln(total[lane]);
            // The logarithm does not know NaN, which is what nothing legal sums up to too.
            log_probs[lane] = if total[lane].is_nan() { f32::NAN } else { log_prob };
        }
        log_probs
    }

    #[inline(always)]
    fn legal(&self, rows: &[usize; LANES], input: &Forward<'_>, action: usize) -> [bool; LANES] {
        let masked = input.masks.width() > 0;
        if masked { rows.map(|row| input.masks.legal(row, self.first + action)) } else { [true; LANES] }
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
