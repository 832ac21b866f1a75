//! The Gaussian error linear unit itself.

use std::f32::consts::FRAC_2_SQRT_PI;

use pulp::Simd;

use super::{Elementwise, tanh::fraction};

/// `x/2 · (1 + erf(x/√2))` (Hendrycks and Gimpel 2016), within 2e-6.
pub(crate) struct GeluErf;

/// From here on the error function is 1.
const LIMIT: f32 = 4.0;
/// `p` in `erf x = x · p(x²) / q(x²)` on `[-4, 4]`, the highest power first. The pair of degrees 5 and 5 with the least
/// error, 2e-8, found by iteratively reweighted least squares; with rounding, and the last one the constant next to it,
/// 4e-7.
const NUMERATOR: [f32; 6] = [1.974_850_6e-6, 2.880_404e-4, 4.003_570_4e-3, 0.053_467_236, 0.196_247_12, FRAC_2_SQRT_PI];
/// `q`, the highest power first.
const DENOMINATOR: [f32; 6] = [3.748_103e-5, 1.216_343_1e-3, 0.015_444_266, 0.116_475_664, 0.507_250_67, 1.0];
/// Below it the unit is 0 but for 1e-7, while what rounding leaves of `1 + erf` would grow with `x`.
const FLOOR: f32 = -5.65;

impl Elementwise for GeluErf {
    #[inline(always)]
    fn apply<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
        let [root, half, zero, floor] =
            [std::f32::consts::FRAC_1_SQRT_2, 0.5, 0.0, FLOOR].map(|constant| simd.splat_f32s(constant));
        let [p, q] = fraction(simd, simd.mul_f32s(root, x), LIMIT, &NUMERATOR, &DENOMINATOR);
        let half_x = simd.mul_f32s(half, x);
        let y = simd.mul_add_e_f32s(half_x, simd.div_f32s(p, q), half_x);
        simd.select_f32s(simd.less_than_f32s(x, floor), zero, y)
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
            xs.iter_mut().for_each(|x| *x = GeluErf::apply(simd, *x));
        }
    }

    /// The error function by its series of positive terms, `2/√π · e^-x² · Σ 2ⁿ x²ⁿ⁺¹ / (2n+1)!!`.
    fn erf(x: f64) -> f64 {
        let (mut term, mut sum) = (x, 0.0);
        for n in 1..400 {
            sum += term;
            term *= 2.0 * x * x / f64::from(2 * n + 1);
        }
        2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp() * sum
    }

    #[test]
    fn is_the_exact_form_and_keeps_nan() {
        for arch in instruction_sets() {
            let xs: Vec<f32> = (-80_000..80_000).map(|i| i as f32 * 1e-4).collect();
            let mut ys = xs.clone();
            arch.dispatch(Apply(&mut ys));
            for (x, y) in xs.iter().zip(ys) {
                let exact = 0.5 * f64::from(*x) * (1.0 + erf(f64::from(*x) * std::f64::consts::FRAC_1_SQRT_2));
                assert!((f64::from(y) - exact).abs() <= 2e-6, "{x}: {y} is not {exact}");
            }
            let mut far = [1e3, -1e3, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0, 1e30, -1e30].repeat(2);
            arch.dispatch(Apply(&mut far));
            assert!(far[4].is_nan(), "{arch:?}");
            assert!((far[0] - 1e3).abs() < 1e-3 && (far[6] - 1e30).abs() < 1e24, "{far:?}");
            assert_eq!([far[1], far[2], far[3], far[5], far[7]], [0.0, f32::INFINITY, 0.0, 0.0, 0.0]);
        }
    }
}
