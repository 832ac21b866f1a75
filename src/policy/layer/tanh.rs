//! Hyperbolic tangent.

use pulp::Simd;

use super::Elementwise;
use crate::math::{TANH_DENOMINATOR, TANH_LIMIT, TANH_NUMERATOR};

/// Within 6e-7: [`math::tanh`](crate::math::tanh), fused where the machine multiplies and adds in one instruction.
pub(crate) struct Tanh;

impl Elementwise for Tanh {
    #[inline(always)]
    fn apply<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
        let limit = simd.splat_f32s(TANH_LIMIT);
        let bounded = simd.max_f32s(simd.neg_f32s(limit), simd.min_f32s(limit, x));
        let z = simd.mul_f32s(bounded, bounded);
        let [mut p, mut q] = [TANH_NUMERATOR[0], TANH_DENOMINATOR[0]].map(|constant| simd.splat_f32s(constant));
        for constant in &TANH_NUMERATOR[1..] {
            p = simd.mul_add_e_f32s(p, z, simd.splat_f32s(*constant));
        }
        for constant in &TANH_DENOMINATOR[1..] {
            q = simd.mul_add_e_f32s(q, z, simd.splat_f32s(*constant));
        }
        let tanh = simd.div_f32s(simd.mul_f32s(bounded, p), q);
        // The smaller of a number and NaN is NaN in vector instructions, in this order, but not otherwise.
        if S::IS_SCALAR { simd.select_f32s(simd.equal_f32s(x, x), tanh, x) } else { tanh }
    }
}

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use super::*;
    use crate::policy::cpu::tests::instruction_sets;

    struct Apply<'a>(&'a mut [f32]);

    impl WithSimd for Apply<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let (xs, rest) = S::as_mut_simd_f32s(self.0);
            assert!(rest.is_empty());
            xs.iter_mut().for_each(|x| *x = Tanh::apply(simd, *x));
        }
    }

    #[test]
    fn is_close_and_keeps_nan() {
        for arch in instruction_sets() {
            let xs: Vec<f32> = (-120_000..120_000).map(|i| i as f32 * 1e-4).collect();
            let mut ys = xs.clone();
            arch.dispatch(Apply(&mut ys));
            for (x, y) in xs.iter().zip(ys) {
                let exact = f64::from(*x).tanh();
                assert!((f64::from(y) - exact).abs() <= 6e-7 * exact.abs().max(1e-3), "tanh {x}: {y} is not {exact}");
            }
            let mut edges = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0].repeat(4);
            arch.dispatch(Apply(&mut edges));
            assert!(edges[0].is_nan(), "{arch:?}");
            assert!((1.0 - edges[1]).abs() < 6e-7 && edges[1] <= 1.0, "{}", edges[1]);
            assert_eq!((edges[2], edges[3]), (-edges[1], 0.0));
        }
    }
}
