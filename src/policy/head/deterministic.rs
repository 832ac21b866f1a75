//! Numbers as the network gives them, with noise added for exploration.

use serde::{Deserialize, Serialize};

use super::lanes::{draw, put};
use crate::{
    math,
    policy::plan::{Exploration, Forward, Outcome},
};

/// What is added to a deterministic action under [`Exploration::Sample`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Noise {
    /// Nothing.
    None,
    /// An independent normal number an element and step.
    Gaussian {
        /// Standard deviation, at least 0, in units of the action; of half the box's width where a tanh squashes.
        std: f32,
    },
    /// A process of each row and element that starts at 0 with each episode and goes on by
    /// `x ← x - theta · x · dt + sigma · √dt · z`, `z` standard normal (Lillicrap et al. 2016, "Continuous control with
    /// deep reinforcement learning", section 7).
    OrnsteinUhlenbeck {
        /// Rate of return to 0, at least 0; `theta · dt` below 2, or it would diverge. In the paper 0.15.
        theta: f32,
        /// Scale of the noise, at least 0. In the paper 0.2.
        sigma: f32,
        /// Time of a step, above 0. In Stable-Baselines3 0.01.
        dt: f32,
    },
}

impl Noise {
    /// Writes what is added to the action of row `row` of a run, and advances its process: the row's first state
    /// columns. Zeros unless actions are sampled. A state belongs to one row, so rows may be taken in any order, but each
    /// once.
    pub(in crate::policy) fn fill(self, input: &Forward<'_>, row: usize, to: &mut [f32]) {
        if input.exploration != Exploration::Sample || self == Self::None {
            return to.fill(0.0);
        }
        let mut normals = [0.0; 2];
        let mut normal = |i: usize| {
            if i.is_multiple_of(2) {
                let [[a], [b]] = draw(&[row], input, i as u32 / 2);
                normals = math::box_muller(a, b);
            }
            normals[i % 2]
        };
        match (self, input.memory) {
            (Self::Gaussian { std }, _) => to.iter_mut().enumerate().for_each(|(i, x)| *x = std * normal(i)),
            (Self::OrnsteinUhlenbeck { theta, sigma, dt }, Some(memory)) => {
                let place = memory.places[row] as usize;
                if memory.fresh[row] != 0 {
                    to.fill(0.0);
                } else {
                    memory.states.read(place, 0, to);
                }
                let scale = sigma * dt.sqrt();
                to.iter_mut().enumerate().for_each(|(i, x)| *x += scale * normal(i) - theta * *x * dt);
                memory.states.write(place, 0, to);
            }
            _ => to.fill(0.0),
        }
    }
}

/// Acts for all rows. The log-probability is 0.
pub(super) fn act(
    noise: Noise,
    squash: Option<&[Vec<f32>; 2]>,
    input: &Forward<'_>,
    out: &mut Outcome<'_>,
    scratch: &mut [f32],
) {
    out.log_probs.fill(0.0);
    for row in 0..input.keys.len() {
        noise.fill(input, row, scratch);
        for (i, noise) in scratch.iter().enumerate() {
            let at = row * scratch.len() + i;
            let action = match squash {
                None => out.params[at] + noise,
                Some([low, high]) => {
                    math::to_box(math::clip(math::tanh(out.params[at]) + noise, -1.0, 1.0), low[i], high[i])
                }
            };
            put(out.actions, at, action.to_bits());
        }
    }
}
