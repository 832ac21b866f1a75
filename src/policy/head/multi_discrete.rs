//! Several numbers, each one of its own `n[i]`, from their logits side by side; independent given the observation.

use super::{
    categorical::{self, Part},
    lanes::{Act, LANES, draw},
};
use crate::policy::plan::{Exploration, Forward, Outcome};

/// Log-probability of `action`: the sum over its numbers. `n` are their counts; logits and mask lie side by side.
pub fn log_prob(n: &[usize], logits: &[f32], mask: &[u8], action: &[i32]) -> f32 {
    let parts = parts(n, logits, mask).zip(action);
    parts.map(|((logits, mask), action)| categorical::log_prob(logits, mask, *action as usize)).sum()
}

/// Entropy in nats: the sum over its numbers.
pub fn entropy(n: &[usize], logits: &[f32], mask: &[u8]) -> f32 {
    parts(n, logits, mask).map(|(logits, mask)| categorical::entropy(logits, mask)).sum()
}

fn parts<'a>(n: &'a [usize], logits: &'a [f32], mask: &'a [u8]) -> impl Iterator<Item = (&'a [f32], &'a [u8])> {
    let mut first = 0;
    n.iter().map(move |n| {
        let range = first..first + n;
        first += n;
        (&logits[range.clone()], if mask.is_empty() { mask } else { &mask[range] })
    })
}

/// The head.
pub(super) struct MultiDiscrete<'a> {
    pub(super) n: &'a [usize],
    /// As many as the largest of them.
    pub(super) weights: &'a mut [[f32; LANES]],
}

impl Act for MultiDiscrete<'_> {
    #[inline(always)]
    fn act(&mut self, rows: &[usize; LANES], input: &Forward<'_>, out: &mut Outcome<'_>) {
        let (width, elements) = (self.n.iter().sum(), self.n.len());
        let (mut first, mut log_probs, mut words) = (0, [0.0; LANES], [[0; LANES]; 2]);
        for (element, n) in self.n.iter().enumerate() {
            if input.exploration == Exploration::Sample && element % 2 == 0 {
                words = draw(rows, input, element as u32 / 2);
            }
            let part = Part { width, first, n: *n, elements, element };
            let own = part.act(rows, input, words[element % 2], out, self.weights);
            for lane in 0..LANES {
                log_probs[lane] += own[lane];
            }
            first += n;
        }
        for lane in 0..LANES {
            out.log_probs[rows[lane]] = log_probs[lane];
        }
    }
}
