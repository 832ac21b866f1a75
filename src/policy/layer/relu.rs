//! The positive part.

use pulp::Simd;

use super::Elementwise;

/// `max(x, 0)`; NaN stays NaN, as in PyTorch.
pub(crate) struct Relu;

impl Elementwise for Relu {
    #[inline(always)]
    fn apply<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
        let zero = simd.splat_f32s(0.0);
        simd.select_f32s(simd.less_than_f32s(x, zero), zero, x)
    }
}
