// What follows a layer, fused into it. Twins: `policy::layer`'s activations.
#import shared/math

// Twin: `policy::layer::gelu_erf`. NaN stays NaN by the product with `x`.
fn gelu_erf(x: f32) -> f32 {
    let y = clamp(x * 0.70710677, -4.0, 4.0);
    let z = y * y;
    var p = 1.9748506e-6 * z + 2.880404e-4;
    p = p * z + 4.0035704e-3;
    p = p * z + 0.053467236;
    p = p * z + 0.19624712;
    p = p * z + 1.1283792;
    var q = 3.748103e-5 * z + 1.2163431e-3;
    q = q * z + 0.015444266;
    q = q * z + 0.116475664;
    q = q * z + 0.50725067;
    q = q * z + 1.0;
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
