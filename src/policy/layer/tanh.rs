//! Hyperbolic tangent.

use super::Elementwise;

/// Within 8 ulp: [`math::tanh`](crate::math::tanh).
pub(crate) struct Tanh;

impl Elementwise for Tanh {
    #[inline(always)]
    fn apply(x: f32) -> f32 {
        crate::math::tanh(x)
    }
}
