//! Independent normal numbers, from means and logarithms of the deviations.

use serde::{Deserialize, Serialize};

use super::lanes::{Act, LANES, draw, put};
use crate::{
    math,
    policy::plan::{Exploration, Forward, Outcome},
};

/// Where the logarithms of the standard deviations come from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum LogStd {
    /// The tensor `log_std`, the same for all observations, as in PPO. It starts from this value, -20 to 20, and is not
    /// clipped.
    Free(f32),
    /// The network's parameters behind the means, clipped, as in SAC.
    Network {
        /// Lower bound. Default: -20, as in Stable-Baselines3.
        #[serde(default = "LogStd::default_min")]
        min: f32,
        /// Upper bound, at least `min`. Default: 2, as in Stable-Baselines3.
        #[serde(default = "LogStd::default_max")]
        max: f32,
    },
}

impl LogStd {
    /// The network's, with the default bounds.
    pub const NETWORK: Self = Self::Network { min: -20.0, max: 2.0 };

    fn default_min() -> f32 {
        -20.0
    }

    fn default_max() -> f32 {
        2.0
    }

    /// Parameters of a row for `n` means.
    pub fn params(&self, n: usize) -> usize {
        match self {
            Self::Free(_) => n,
            Self::Network { .. } => 2 * n,
        }
    }

    /// That of element `i` of `n`, from the free tensor or from a row's parameters.
    #[inline(always)]
    pub fn of(&self, free: &[f32], params: &[f32], n: usize, i: usize) -> f32 {
        match *self {
            Self::Free(_) => free[i],
            Self::Network { min, max } => math::clip(params[n + i], min, max),
        }
    }
}

/// Log-density of `action`: the sum of `-z²/2 - log_std - ln(2π)/2` with `z = (action - mean) / e^log_std`.
pub fn log_prob(mean: &[f32], log_std: &[f32], action: &[f32]) -> f32 {
    let elements = mean.iter().zip(log_std).zip(action);
    elements.map(|((mean, log_std), action)| log_density((action - mean) / math::exp(*log_std), *log_std)).sum()
}

/// Entropy in nats: the sum of `log_std + (1 + ln 2π) / 2`.
pub fn entropy(log_std: impl IntoIterator<Item = f32>) -> f32 {
    log_std.into_iter().map(|log_std| log_std + 0.5 + math::HALF_LN_TAU).sum()
}

#[inline(always)]
fn log_density(z: f32, log_std: f32) -> f32 {
    -0.5 * (z * z) - log_std - math::HALF_LN_TAU
}

/// What a normal number becomes on its way to the action.
pub(super) trait Squash {
    /// The action's element `i`, and what is added to its log-density.
    fn squash(&self, i: usize, x: f32) -> (f32, f32);
}

/// Nothing.
pub(super) struct Unbounded;

impl Squash for Unbounded {
    #[inline(always)]
    fn squash(&self, _: usize, x: f32) -> (f32, f32) {
        (x, 0.0)
    }
}

/// The head.
pub(super) struct Gaussian<'a, S> {
    pub(super) n: usize,
    pub(super) log_std: LogStd,
    /// The free tensor.
    pub(super) free: &'a [f32],
    pub(super) squash: S,
}

impl<S: Squash> Act for Gaussian<'_, S> {
    #[inline(always)]
    fn act(&mut self, rows: &[usize; LANES], input: &Forward<'_>, out: &mut Outcome<'_>) {
        let (n, width) = (self.n, self.log_std.params(self.n));
        let mut log_probs = [0.0; LANES];
        let mut normals = [[0.0; LANES]; 2];
        for i in 0..n {
            if input.exploration == Exploration::Sample && i % 2 == 0 {
                let words = draw(rows, input, i as u32 / 2);
                for lane in 0..LANES {
                    [normals[0][lane], normals[1][lane]] = math::box_muller(words[0][lane], words[1][lane]);
                }
            }
            let mut x: [f32; LANES] = std::array::from_fn(|lane| out.params[rows[lane] * width + i]);
            let log_std: [f32; LANES] = match self.log_std {
                LogStd::Free(_) => [self.free[i]; LANES],
                LogStd::Network { .. } => std::array::from_fn(|lane| {
                    self.log_std.of(self.free, &out.params[rows[lane] * width..][..width], n, i)
                }),
            };
            // Nothing but arithmetic, so that the compiler takes the rows at once.
            for lane in 0..LANES {
                let z = normals[i % 2][lane];
                let (action, change) = self.squash.squash(i, x[lane] + math::exp(log_std[lane]) * z);
                x[lane] = action;
                log_probs[lane] += log_density(z, log_std[lane]) + change;
            }
            for lane in 0..LANES {
                put(out.actions, rows[lane] * n + i, x[lane].to_bits());
            }
        }
        for lane in 0..LANES {
            out.log_probs[rows[lane]] = log_probs[lane];
        }
    }
}
