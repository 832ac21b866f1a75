// One linear layer with its activation: a thread an element of the output. Twin: `policy::plan::Linear`.
#import shared/grid
#import shared/math

struct LinearParams {
    rows: u32,
    inputs: u32,
    outputs: u32,
    padding: u32,
}

// 0 identity, 1 tanh, 2 relu.
override activation: u32 = 0u;

@group(0) @binding(0) var<uniform> params: LinearParams;
@group(0) @binding(1) var<storage, read> from_: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> to_: array<f32>;

fn activate(x: f32) -> f32 {
    if activation == 1u {
        return tanh32(x);
    }
    if activation == 2u {
        // By bits, so that NaN stays NaN.
        return bitcast<f32>(select(bitcast<u32>(x), 0u, x < 0.0));
    }
    return x;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = item(group, groups, local);
    if i >= params.rows * params.outputs {
        return;
    }
    let row = i / params.outputs;
    let output = i % params.outputs;
    var sum = bias[output];
    for (var k = 0u; k < params.inputs; k++) {
        sum += from_[row * params.inputs + k] * weight[output * params.inputs + k];
    }
    to_[i] = activate(sum);
}
