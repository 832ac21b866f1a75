//! The action of the greatest value, or with probability epsilon any legal one (Mnih et al. 2015, "Human-level control
//! through deep reinforcement learning", methods).

use serde::{Deserialize, Serialize};

use super::{
    categorical::legal,
    lanes::{draw, put},
};
use crate::{
    math,
    policy::plan::{Exploration, Forward, Outcome},
    seed,
};

/// A number that moves linearly from one value to another and stays there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Annealed {
    /// Value at the first frame that the policy acts for, 0 to 1. In the paper 1.
    pub from: f32,
    /// Value from frame number `frames` on, 0 to 1. In the paper 0.1.
    pub to: f32,
    /// Frames, over all rows, that the way takes; random warm-up not counted. In the paper 1,000,000.
    pub frames: u64,
}

impl Annealed {
    /// The value in a tick that the policy has acted for `frames` frames before.
    pub fn at(&self, frames: u64) -> f32 {
        if frames >= self.frames {
            return self.to;
        }
        let share = frames as f64 / self.frames as f64;
        (f64::from(self.from) + (f64::from(self.to) - f64::from(self.from)) * share) as f32
    }
}

/// Log-probability of `action` among the actions that `mask` allows (0 for illegal; empty for none), of which there are
/// `l`: `ln(1 - epsilon + epsilon / l)` for the greedy one, `ln(epsilon / l)` for another. NaN for an illegal action and
/// where a legal value is NaN; minus infinity for one that is never taken.
pub fn log_prob(values: &[f32], mask: &[u8], epsilon: f32, action: usize) -> f32 {
    let greedy = Greedy::of(values, mask);
    if action < values.len() && legal(mask, action) { greedy.log_prob(epsilon, action) } else { f32::NAN }
}

/// Entropy in nats of the distribution of [`log_prob`].
pub fn entropy(values: &[f32], mask: &[u8], epsilon: f32) -> f32 {
    let greedy = Greedy::of(values, mask);
    let other = epsilon / greedy.legal as f32;
    let term = |p: f32| if p > f32::MIN_POSITIVE { -p * math::ln(p) } else { 0.0 };
    let entropy = term(1.0 - epsilon + other) + (greedy.legal.saturating_sub(1)) as f32 * term(other);
    if greedy.number { entropy } else { f32::NAN }
}

/// What there is to choose from.
struct Greedy {
    /// The first legal action of the greatest value; 0 if none is legal.
    action: usize,
    /// Legal actions.
    legal: u32,
    /// Whether there are any, and no legal value is NaN.
    number: bool,
}

impl Greedy {
    fn of(values: &[f32], mask: &[u8]) -> Self {
        let mut own = Self { action: 0, legal: 0, number: true };
        for (i, value) in values.iter().enumerate().filter(|(i, _)| legal(mask, *i)) {
            if own.legal == 0 || *value > values[own.action] {
                own.action = i;
            }
            own.legal += 1;
            own.number &= !value.is_nan();
        }
        own.number &= own.legal > 0;
        own
    }

    fn log_prob(&self, epsilon: f32, action: usize) -> f32 {
        let other = epsilon / self.legal as f32;
        let p = if action == self.action { 1.0 - epsilon + other } else { other };
        match p {
            _ if !self.number => f32::NAN,
            p if p < f32::MIN_POSITIVE => f32::NEG_INFINITY,
            p => math::ln(p),
        }
    }
}

/// Acts for all rows.
pub(super) fn act(n: usize, epsilon: Annealed, input: &Forward<'_>, out: &mut Outcome<'_>) {
    let epsilon = epsilon.at(input.frames);
    for row in 0..input.keys.len() {
        let (values, mask) = (&out.params[row * n..(row + 1) * n], input.masks.row(row));
        let greedy = Greedy::of(values, mask);
        let mut action = greedy.action;
        if input.exploration == Exploration::Sample {
            let [[chance], [which]] = draw(&[row], input, 0);
            if seed::unit(chance) < epsilon {
                let chosen = seed::below(which, greedy.legal) as usize;
                action = (0..n).filter(|i| legal(mask, *i)).nth(chosen).unwrap_or(0);
            }
        }
        put(out.actions, row, action as u32);
        out.log_probs[row] = greedy.log_prob(epsilon, action);
    }
}
