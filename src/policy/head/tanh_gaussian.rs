//! Normal numbers squashed to a box by a hyperbolic tangent (Haarnoja et al. 2018, "Soft actor-critic", appendix C).
//!
//! With the normal number `u` and the box's half width `s` an element is `centre + s · tanh(u)`; its log-density is the
//! normal one less `ln s + ln(1 - tanh²u)`, the latter as `2 (ln 2 - u - softplus(-2u))`, which does not cancel.

use super::gaussian::{self, Squash};
use crate::math;

/// Log-density of the action that the normal numbers `u` become within bounds `low` and `high`.
pub fn log_prob(mean: &[f32], log_std: &[f32], u: &[f32], low: &[f32], high: &[f32]) -> f32 {
    let bounds = Bounds { low, high };
    gaussian::log_prob(mean, log_std, u) + u.iter().enumerate().map(|(i, u)| bounds.squash(i, *u).1).sum::<f32>()
}

/// The logarithm of half of the distance of two bounds.
pub(in crate::policy) fn log_scale(low: f32, high: f32) -> f32 {
    math::ln(0.5 * high - 0.5 * low)
}

/// The box.
pub(super) struct Bounds<'a> {
    pub(super) low: &'a [f32],
    pub(super) high: &'a [f32],
}

impl Squash for Bounds<'_> {
    #[inline(always)]
    fn squash(&self, i: usize, u: f32) -> (f32, f32) {
        let (low, high) = (self.low[i], self.high[i]);
        let slope = 2.0 * (std::f32::consts::LN_2 - u - math::softplus(-2.0 * u));
        (math::to_box(math::tanh(u), low, high), -slope - log_scale(low, high))
    }
}
