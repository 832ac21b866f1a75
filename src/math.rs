//! Elementary functions that give the same bits on every platform, vectorise, and have twins in `shaders/shared/`.
//!
//! `f32::sin`, `exp` and their kin call the platform's libm, whose results differ between platforms and cannot be
//! inlined into a loop over rows. These are polynomials in plain multiplications and additions.
//! Coefficients: Cephes single precision (Moshier 1992), `sinf.c`, `expf.c`, `logf.c`.

use std::f32::consts::{FRAC_2_PI, LOG2_E};

/// π/2 in three parts, each short enough that a product with a quadrant number below 2¹² is exact.
const HALF_PI: [f32; 3] = [1.570_312_5, 4.837_513e-4, 7.549_79e-8];

/// Adding and subtracting this rounds to the nearest whole number: 1.5 · 2²³.
const ROUND: f32 = 12_582_912.0;

/// Sine and cosine of `x` radians; within 2 ulp of 1 for |x| ≤ 4,096.
#[inline(always)]
pub fn sin_cos(x: f32) -> (f32, f32) {
    let rounded = x * FRAC_2_PI + ROUND;
    let quadrant = rounded.to_bits();
    let n = rounded - ROUND;
    let r = ((x - n * HALF_PI[0]) - n * HALF_PI[1]) - n * HALF_PI[2];
    let z = r * r;
    let sin = r + r * z * (-1.666_665_5e-1 + z * (8.332_161e-3 + z * -1.951_529_6e-4));
    let cos = 1.0 - 0.5 * z + z * z * (4.166_664_6e-2 + z * (-1.388_731_6e-3 + z * 2.443_315_7e-5));
    let swap = quadrant & 1 != 0;
    let (s, c) = if swap { (cos, sin) } else { (sin, cos) };
    let sin_sign = (quadrant & 2) << 30;
    let cos_sign = (quadrant.wrapping_add(1) & 2) << 30;
    (f32::from_bits(s.to_bits() ^ sin_sign), f32::from_bits(c.to_bits() ^ cos_sign))
}

/// `e` to the power `x`; within 2 ulp; 0 below -87.3, infinite above 88.7, NaN for NaN.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let (y, n) = exp_parts(x.clamp(-87.3, 88.7));
    // 2ⁿ in two factors, since n reaches 128.
    let half = n >> 1;
    let y = y * power_of_two(half) * power_of_two(n - half);
    let y = if x < -87.3 { 0.0 } else { y };
    if x > 88.7 { f32::INFINITY } else { y }
}

/// `y` in about [√½, √2] and `n` with `eˣ = y · 2ⁿ`.
#[inline(always)]
fn exp_parts(x: f32) -> (f32, i32) {
    let rounded = x * LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = (x - n * 0.693_359_4) - n * -2.121_944_4e-4;
    let p = 1.987_569_1e-4;
    let p = 1.398_2e-3 + r * p;
    let p = 8.333_452e-3 + r * p;
    let p = 4.166_579_6e-2 + r * p;
    let p = 1.666_666_5e-1 + r * p;
    let p = 0.5 + r * p;
    let y = (r * r) * p + r + 1.0;
    // Rounding left n in the low bits; a cast would saturate, for which there is no vector instruction.
    (y, rounded.to_bits().wrapping_sub(ROUND.to_bits()) as i32)
}

/// 2ⁿ for n in -126 to 127; anything for what NaN gives.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// Natural logarithm of a positive normal number; within 2 ulp. For 0, negative and subnormal `x` the result is
/// finite and meaningless: callers keep away from them.
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    let bits = x.to_bits();
    // Mantissa in [√½, √2).
    let shifted = bits.wrapping_sub(0x3f35_04f3);
    let exponent = (shifted as i32) >> 23;
    let m = f32::from_bits((shifted & 0x007f_ffff).wrapping_add(0x3f35_04f3)) - 1.0;
    let z = m * m;
    let p = 7.037_683_6e-2;
    let p = p * m - 1.151_461e-1;
    let p = p * m + 1.167_699_9e-1;
    let p = p * m - 1.242_014_1e-1;
    let p = p * m + 1.424_932_3e-1;
    let p = p * m - 1.666_805_8e-1;
    let p = p * m + 2.000_071_5e-1;
    let p = p * m - 2.499_999_4e-1;
    let p = p * m + 0.333_333_3;
    let e = exponent as f32;
    let y = p * m * z + e * -2.121_944_4e-4 - 0.5 * z;
    m + y + e * 0.693_359_4
}

/// Hyperbolic tangent; within 6e-7 of the exact value, relatively; never beyond ±1, NaN for NaN.
///
/// A quotient of polynomials. An exponential form is closer (4 ulp), but its chain of dependent operations is three times
/// as long, which a policy's layers wait for.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let x = x.clamp(-TANH_LIMIT, TANH_LIMIT);
    let z = x * x;
    let at_z = |coefficients: &[f32]| coefficients.iter().fold(0.0, |sum, constant| sum * z + constant);
    x * at_z(&TANH_NUMERATOR) / at_z(&TANH_DENOMINATOR)
}

/// Of [`tanh`]: from here on the quotient is not to be trusted, and `tanh` is 1 but for its last digits.
pub(crate) const TANH_LIMIT: f32 = 7.8;
/// Of [`tanh`]: `p` in `x · p(x²) / q(x²)`, the highest power first. The pair of degrees 4 and 3 with the least relative
/// error on `(0, 7.9]` among those with the right slope at 0, 2e-7, found by iteratively reweighted least squares.
pub(crate) const TANH_NUMERATOR: [f32; 5] = [-6.312_931_4e-9, 7.260_506e-6, 2.709_856e-3, 0.127_257_58, 1.0];
/// Of [`tanh`]: `q`, the highest power first.
pub(crate) const TANH_DENOMINATOR: [f32; 4] = [1.984_483_3e-4, 0.022_908_171, 0.460_589_87, 1.0];

/// Logistic function `1 / (1 + e^-x)`; within 4 ulp above -87, 0 below -88.7, NaN for NaN.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `ln(1 + eˣ)`, without overflow; NaN for NaN.
#[inline(always)]
pub fn softplus(x: f32) -> f32 {
    let positive = if x > 0.0 { x } else { 0.0 };
    let y = positive + ln(1.0 + exp(-x.abs()));
    if x.is_nan() { x } else { y }
}

/// The nearest number from `low` to `high`; NaN for NaN. Unlike `f32::clamp` it does not panic for bounds that are none.
#[inline(always)]
pub fn clip(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// What `x` from -1 to 1 is in the box from `low` to `high`: 0 is its centre. Never outside, NaN for NaN.
#[inline(always)]
pub fn to_box(x: f32, low: f32, high: f32) -> f32 {
    clip((0.5 * low + 0.5 * high) + (0.5 * high - 0.5 * low) * x, low, high)
}

/// Two standard normal numbers from two words (Box and Muller, "A note on the generation of random normal deviates",
/// 1958). The first word's unit is taken in `(0, 1]`, so the logarithm is finite: |z| ≤ 5.8.
#[inline(always)]
pub fn box_muller(a: u32, b: u32) -> [f32; 2] {
    let u = ((a >> 8) + 1) as f32 * (1.0 / 16_777_216.0);
    let radius = (-2.0 * ln(u)).max(0.0).sqrt();
    let (sin, cos) = sin_cos(std::f32::consts::TAU * crate::seed::unit(b));
    [radius * cos, radius * sin]
}

/// ½ ln 2π, the constant of a Gaussian's log-density.
pub const HALF_LN_TAU: f32 = 0.918_938_5;

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(from: f64, to: f64, f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, bound: f64) {
        for i in 0..=200_000 {
            let x = (from + (to - from) * f64::from(i) / 200_000.0) as f32;
            let (got, want) = (f64::from(f(x)), exact(f64::from(x)));
            let error = (got - want).abs() / want.abs().max(1e-3);
            assert!(error <= bound, "at {x}: {got} is not {want}, relative error {error:e}");
        }
    }

    #[test]
    fn close_to_the_exact_functions() {
        sweep(-80.0, 80.0, exp, f64::exp, 3e-7);
        sweep(1e-7, 50.0, ln, f64::ln, 3e-7);
        sweep(-12.0, 12.0, tanh, f64::tanh, 6e-7);
        sweep(-0.01, 0.01, tanh, f64::tanh, 6e-7);
        sweep(-80.0, 80.0, sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 5e-7);
        // Far below 0 the absolute error counts.
        sweep(-5.0, 200.0, softplus, |x| x.max(0.0) + (-x.abs()).exp().ln_1p(), 2e-5);
    }

    #[test]
    fn sine_and_cosine_are_close_in_absolute_terms() {
        for i in -400_000..400_000 {
            let x = i as f32 * 0.01;
            let (sin, cos) = sin_cos(x);
            let (s, c) = f64::from(x).sin_cos();
            assert!((f64::from(sin) - s).abs() < 2.5e-7, "sin {x}: {sin} is not {s}");
            assert!((f64::from(cos) - c).abs() < 2.5e-7, "cos {x}: {cos} is not {c}");
        }
    }

    #[test]
    fn edges() {
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
        assert_eq!(exp(0.0), 1.0);
        assert!((1.0 - 6e-7..=1.0).contains(&tanh(f32::INFINITY)));
        assert_eq!(tanh(f32::NEG_INFINITY), -tanh(f32::INFINITY));
        assert!(tanh(f32::NAN).is_nan());
        assert!(sigmoid(f32::NAN).is_nan() && softplus(f32::NAN).is_nan());
        assert_eq!([sigmoid(f32::NEG_INFINITY), sigmoid(f32::INFINITY)], [0.0, 1.0]);
        assert_eq!([softplus(f32::NEG_INFINITY), softplus(f32::INFINITY)], [0.0, f32::INFINITY]);
        assert!(box_muller(0, 0)[0].is_finite());
    }
}
