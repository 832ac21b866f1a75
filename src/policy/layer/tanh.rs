//! Hyperbolic tangent.

use pulp::Simd;

use super::Elementwise;
use crate::math::{TANH_DENOMINATOR, TANH_LIMIT, TANH_NUMERATOR};

/// Within 7e-7: [`math::tanh`](crate::math::tanh), fused where the machine multiplies and adds in one instruction.
pub(crate) struct Tanh;

impl Elementwise for Tanh {
    #[inline(always)]
    fn apply<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
        let [p, q] = tanh(simd, x);
        keep_nan(simd, x, simd.div_f32s(p, q))
    }

    /// A division takes as long as some twenty products: one for both.
    #[inline(always)]
    fn apply_two<S: Simd>(simd: S, [x, y]: [S::f32s; 2]) -> [S::f32s; 2] {
        let [[p, q], [r, s]] = [tanh(simd, x), tanh(simd, y)];
        let inverse = simd.div_f32s(simd.splat_f32s(1.0), simd.mul_f32s(q, s));
        let first = simd.mul_f32s(simd.mul_f32s(p, s), inverse);
        let second = simd.mul_f32s(simd.mul_f32s(r, q), inverse);
        [keep_nan(simd, x, first), keep_nan(simd, y, second)]
    }
}

#[inline(always)]
fn tanh<S: Simd>(simd: S, x: S::f32s) -> [S::f32s; 2] {
    fraction(simd, x, TANH_LIMIT, &TANH_NUMERATOR, &TANH_DENOMINATOR)
}

/// Numerator and denominator of `x · p(x²) / q(x²)` with `x` bounded by `limit`; coefficients begin with the highest power.
#[inline(always)]
pub(super) fn fraction<S: Simd, const P: usize, const Q: usize>(
    simd: S,
    x: S::f32s,
    limit: f32,
    numerator: &[f32; P],
    denominator: &[f32; Q],
) -> [S::f32s; 2] {
    let limit = simd.splat_f32s(limit);
    let bounded = simd.max_f32s(simd.neg_f32s(limit), simd.min_f32s(limit, x));
    let z = simd.mul_f32s(bounded, bounded);
    let [mut p, mut q] = [numerator[0], denominator[0]].map(|constant| simd.splat_f32s(constant));
    for constant in &numerator[1..] {
        p = simd.mul_add_e_f32s(p, z, simd.splat_f32s(*constant));
    }
    for constant in &denominator[1..] {
        q = simd.mul_add_e_f32s(q, z, simd.splat_f32s(*constant));
    }
    [simd.mul_f32s(bounded, p), q]
}

/// The smaller of a number and NaN is NaN in vector instructions, in the order above, but not otherwise.
#[inline(always)]
fn keep_nan<S: Simd>(simd: S, x: S::f32s, tanh: S::f32s) -> S::f32s {
    if S::IS_SCALAR { simd.select_f32s(simd.equal_f32s(x, x), tanh, x) } else { tanh }
}

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use super::*;
    use crate::policy::cpu::tests::instruction_sets;

    /// Alone, and beside the number ten places on.
    struct Apply<'a>(&'a [f32], [&'a mut [f32]; 2]);

    impl WithSimd for Apply<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let Self(xs, [alone, beside]) = self;
            let (xs, rest) = S::as_simd_f32s(xs);
            assert!(rest.is_empty());
            let (alone, beside) = (S::as_mut_simd_f32s(alone).0, S::as_mut_simd_f32s(beside).0);
            for (i, x) in xs.iter().enumerate() {
                alone[i] = Tanh::apply(simd, *x);
                let other = xs[(i + 10) % xs.len()];
                let [first, _] = Tanh::apply_two(simd, [*x, other]);
                let [_, second] = Tanh::apply_two(simd, [other, *x]);
                beside[i] = simd.select_f32s(simd.equal_f32s(first, second), first, simd.splat_f32s(f32::INFINITY));
            }
        }
    }

    fn both(arch: pulp::Arch, xs: &[f32]) -> [Vec<f32>; 2] {
        let [mut alone, mut beside] = [xs.to_vec(), xs.to_vec()];
        arch.dispatch(Apply(xs, [&mut alone, &mut beside]));
        [alone, beside]
    }

    #[test]
    fn is_close_and_keeps_nan() {
        for arch in instruction_sets() {
            let xs: Vec<f32> = (-120_000..120_000).map(|i| i as f32 * 1e-4).collect();
            for ys in both(arch, &xs) {
                for (x, y) in xs.iter().zip(ys) {
                    let exact = f64::from(*x).tanh();
                    assert!(
                        (f64::from(y) - exact).abs() <= 7e-7 * exact.abs().max(1e-3),
                        "tanh {x}: {y} is not {exact}"
                    );
                }
            }
            for (ys, most) in both(arch, &[f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0].repeat(8))
                .into_iter()
                .zip([1.0, 1.0 + f32::EPSILON])
            {
                assert!((1.0 - ys[0]).abs() < 6e-7 && ys[0] <= most, "{}", ys[0]);
                assert_eq!((ys[1], ys[2]), (-ys[0], 0.0));
            }
            let [alone, _] = both(arch, &[f32::NAN, 1.0].repeat(8));
            assert!(alone[0].is_nan(), "{arch:?}");
            let [_, beside] = both(arch, &[f32::NAN; 16]);
            assert!(beside[0].is_infinite(), "{arch:?}");
        }
    }
}
