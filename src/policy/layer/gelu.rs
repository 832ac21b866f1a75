//! The Gaussian error linear unit.

use pulp::Simd;

use super::{Elementwise, tanh::Tanh};

/// `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))` (Hendrycks and Gimpel 2016).
pub(crate) struct Gelu;

impl Elementwise for Gelu {
    #[inline(always)]
    fn apply<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
        let [one, scale, cubic, half] = [1.0, 0.797_884_6, 0.044_715, 0.5].map(|constant| simd.splat_f32s(constant));
        let inner = simd.mul_f32s(x, simd.mul_add_e_f32s(cubic, simd.mul_f32s(x, x), one));
        let tanh = Tanh::apply(simd, simd.mul_f32s(scale, inner));
        let half_x = simd.mul_f32s(half, x);
        simd.mul_add_e_f32s(half_x, tanh, half_x)
    }
}
