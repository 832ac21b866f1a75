//! Several bits, from the logits of their being 1; independent given the observation.

use super::lanes::{Act, LANES, draw};
use crate::{
    math,
    policy::plan::{Exploration, Forward, Outcome},
    seed,
};

/// Log-probability of `action`, a byte a bit: the sum of `-softplus(-l)` for each 1 and of `-softplus(l)` for each 0.
pub fn log_prob(logits: &[f32], action: &[u8]) -> f32 {
    logits.iter().zip(action).map(|(logit, bit)| -math::softplus(if *bit != 0 { -logit } else { *logit })).sum()
}

/// Entropy in nats: the sum of `softplus(l) - l σ(l)`.
pub fn entropy(logits: &[f32]) -> f32 {
    // Even in the logit; taken where σ is small, nothing cancels, and an infinite logit leaves 0.
    let term = |logit: f32| {
        let x = -logit.abs();
        let weighted = if math::exp(x) > 0.0 { x * math::sigmoid(x) } else { 0.0 };
        math::softplus(x) - weighted
    };
    logits.iter().map(|logit| if logit.is_nan() { f32::NAN } else { term(*logit) }).sum()
}

/// The head.
pub(super) struct MultiBinary {
    pub(super) n: usize,
}

impl Act for MultiBinary {
    #[inline(always)]
    fn act(&mut self, rows: &[usize; LANES], input: &Forward<'_>, out: &mut Outcome<'_>) {
        let sample = input.exploration == Exploration::Sample;
        let (mut log_probs, mut words) = ([0.0; LANES], [[0; LANES]; 2]);
        for i in 0..self.n {
            if sample && i % 2 == 0 {
                words = draw(rows, input, i as u32 / 2);
            }
            let logits: [f32; LANES] = std::array::from_fn(|lane| out.params[rows[lane] * self.n + i]);
            let mut bits = [0; LANES];
            for lane in 0..LANES {
                let drawn = seed::unit(words[i % 2][lane]) < math::sigmoid(logits[lane]);
                let bit = if sample { drawn } else { logits[lane] > 0.0 };
                bits[lane] = u8::from(bit);
                log_probs[lane] -= math::softplus(if bit { -logits[lane] } else { logits[lane] });
            }
            for lane in 0..LANES {
                out.actions[rows[lane] * self.n + i] = bits[lane];
            }
        }
        for lane in 0..LANES {
            out.log_probs[rows[lane]] = log_probs[lane];
        }
    }
}
