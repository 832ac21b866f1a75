// What follows a layer, fused into it. Twins: `policy::layer`'s activations.
#import shared/math

// Twin: `policy::layer::gelu_erf`. NaN stays NaN by the product with `x`.
fn gelu_erf(x: f32) -> f32 {
    let y = clamp(x * 0.70710677, -4.0, 4.0);
    let z = y * y;
    var p = -2.7261423e-10 * z + 2.7706814e-8;
    p = p * z - 2.101024e-6;
    p = p * z - 5.6925064e-5;
    p = p * z - 7.3499063e-4;
    p = p * z - 2.9546e-3;
    p = p * z - 1.6096033e-2;
    var q = -1.4566072e-5 * z - 2.1337405e-4;
    q = q * z - 1.682827e-3;
    q = q * z - 7.373329e-3;
    q = q * z - 1.4264739e-2;
    return select(0.5 * x * (1.0 + y * p / q), 0.0, x < -5.65);
}

// 0 identity, 1 tanh, 2 relu, 3 silu, 4 gelu in its tanh form, 5 gelu itself.
fn activated(kind: u32, x: f32) -> f32 {
    if kind == 1u {
        return tanh32(x);
    }
    if kind == 2u {
        // By bits, so that NaN stays NaN.
        return bitcast<f32>(select(bitcast<u32>(x), 0u, x < 0.0));
    }
    if kind == 3u {
        return x * sigmoid32(x);
    }
    if kind == 4u {
        return 0.5 * x * (1.0 + tanh32(0.79788456 * (x + 0.044715 * x * x * x)));
    }
    if kind == 5u {
        return gelu_erf(x);
    }
    return x;
}
