// Twins of `math`: the same polynomials in the same order. Nearest whole numbers come from `round`, which gives what
// the Rust side's added constant gives, since a compiler that assumes exact sums could fold that constant away.
// NaN is told by its bits: shader compilers may assume that floats are finite.
#import shared/threefry

fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn is_finite(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u;
}

fn sin_cos32(x: f32) -> vec2<f32> {
    let n = round(x * 0.63661977);
    let quadrant = bitcast<u32>(i32(n));
    let r = ((x - n * 1.5703125) - n * 4.837512969970703e-4) - n * 7.549789948768648e-8;
    let z = r * r;
    let sin = r + r * z * (-1.6666655e-1 + z * (8.332161e-3 + z * -1.9515296e-4));
    let cos = 1.0 - 0.5 * z + z * z * (4.1666646e-2 + z * (-1.3887316e-3 + z * 2.4433157e-5));
    let pair = select(vec2<f32>(sin, cos), vec2<f32>(cos, sin), (quadrant & 1u) != 0u);
    let signs = vec2<u32>((quadrant & 2u) << 30u, ((quadrant + 1u) & 2u) << 30u);
    return bitcast<vec2<f32>>(bitcast<vec2<u32>>(pair) ^ signs);
}

fn exp32(x: f32) -> f32 {
    if is_nan(x) {
        return x;
    }
    let clamped = clamp(x, -87.3, 88.7);
    let n = round(clamped * 1.442695);
    let r = (clamped - n * 0.6933594) - n * -2.1219444e-4;
    var p = 1.3982e-3 + r * 1.9875691e-4;
    p = 8.333452e-3 + r * p;
    p = 4.1665796e-2 + r * p;
    p = 1.6666665e-1 + r * p;
    p = 0.5 + r * p;
    let half = i32(n) >> 1u;
    let low = bitcast<f32>(u32(half + 127) << 23u);
    let high = bitcast<f32>(u32(i32(n) - half + 127) << 23u);
    let y = select(((r * r) * p + r + 1.0) * low * high, 0.0, x < -87.3);
    return bitcast<f32>(select(bitcast<u32>(y), 0x7f800000u, x > 88.7));
}

fn ln32(x: f32) -> f32 {
    let shifted = bitcast<u32>(x) - 0x3f3504f3u;
    let e = f32(bitcast<i32>(shifted) >> 23u);
    let m = bitcast<f32>((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0;
    let z = m * m;
    var p = 7.0376836e-2 * m - 1.151461e-1;
    p = p * m + 1.1676999e-1;
    p = p * m - 1.2420141e-1;
    p = p * m + 1.4249323e-1;
    p = p * m - 1.6668058e-1;
    p = p * m + 2.0000715e-1;
    p = p * m - 2.4999994e-1;
    p = p * m + 3.3333331e-1;
    let y = p * m * z + e * -2.1219444e-4 - 0.5 * z;
    return m + y + e * 0.6933594;
}

fn tanh32(x: f32) -> f32 {
    if is_nan(x) {
        return x;
    }
    let y = clamp(x, -7.8, 7.8);
    let z = y * y;
    var p = -6.3129314e-9 * z + 7.260506e-6;
    p = p * z + 2.709856e-3;
    p = p * z + 0.12725758;
    p = p * z + 1.0;
    var q = 1.9844833e-4 * z + 0.022908171;
    q = q * z + 0.46058987;
    q = q * z + 1.0;
    return y * p / q;
}

// The logistic function.
fn sigmoid32(x: f32) -> f32 {
    if is_nan(x) {
        return x;
    }
    return 1.0 / (1.0 + exp32(min(-x, 88.0)));
}

fn softplus32(x: f32) -> f32 {
    if is_nan(x) {
        return x;
    }
    return max(x, 0.0) + ln32(1.0 + exp32(-abs(x)));
}

// NaN stays NaN.
fn clip32(x: f32, low: f32, high: f32) -> f32 {
    if is_nan(x) {
        return x;
    }
    return clamp(x, low, high);
}

// What `x` from -1 to 1 is in the box whose bounds are `low` and `high`.
fn to_box(x: f32, low: f32, high: f32) -> f32 {
    return clip32((0.5 * low + 0.5 * high) + (0.5 * high - 0.5 * low) * x, low, high);
}

// Not a constant, which the language refuses.
fn nan32() -> f32 {
    var bits = 0x7fc00000u;
    return bitcast<f32>(bits);
}

fn box_muller(words: vec2<u32>) -> vec2<f32> {
    let u = f32((words.x >> 8u) + 1u) * 5.9604644775390625e-8;
    let radius = sqrt(max(-2.0 * ln32(u), 0.0));
    return radius * sin_cos32(6.2831855 * unit(words.y)).yx;
}

// Log-density of a normal number, told by its standardised value.
fn normal_log_density(z: f32, log_std: f32) -> f32 {
    return -0.5 * z * z - log_std - 0.9189385;
}
