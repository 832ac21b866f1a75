// What follows a layer, fused into it. Twins: `policy::layer`'s activations.
#import shared/math

// 0 identity, 1 tanh, 2 relu, 3 silu, 4 gelu.
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
    return x;
}
