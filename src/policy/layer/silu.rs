//! The sigmoid-weighted linear unit.

use pulp::Simd;

use super::{Elementwise, sigmoid};

/// `x · σ(x)` (Elfwing, Uchibe and Doya 2018).
pub(crate) struct Silu;

impl Elementwise for Silu {
    #[inline(always)]
    fn apply<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
        simd.mul_f32s(x, sigmoid(simd, x))
    }
}
