//! Hyperbolic tangent.

use super::Elementwise;

/// Within 8 ulp: see [`math::tanh`](crate::math::tanh).
pub(crate) struct Tanh;

impl Elementwise for Tanh {
    #[inline(always)]
    fn apply<const FUSED: bool>(x: f32) -> f32 {
        crate::math::tanh_with::<FUSED>(x)
    }
}
