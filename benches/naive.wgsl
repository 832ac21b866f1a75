// What the fused kernel is compared with: the network 4-64-64-2, a thread a row, weights read from storage as they come.
#import shared/grid
#import shared/math

struct NaiveParams {
    rows: u32,
}

@group(0) @binding(0) var<uniform> params: NaiveParams;
@group(0) @binding(1) var<storage, read> from_: array<f32>;
// Of each layer the weights, then the bias.
@group(0) @binding(2) var<storage, read> weights: array<f32>;
@group(0) @binding(3) var<storage, read_write> to_: array<f32>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = item(group, groups, local);
    if row >= params.rows {
        return;
    }
    var a: array<f32, 64>;
    var b: array<f32, 64>;
    for (var j = 0u; j < 64u; j++) {
        var sum = weights[256u + j];
        for (var k = 0u; k < 4u; k++) {
            sum += from_[row * 4u + k] * weights[j * 4u + k];
        }
        a[j] = tanh32(sum);
    }
    for (var j = 0u; j < 64u; j++) {
        var sum = weights[4416u + j];
        for (var k = 0u; k < 64u; k++) {
            sum += a[k] * weights[320u + j * 64u + k];
        }
        b[j] = tanh32(sum);
    }
    for (var j = 0u; j < 2u; j++) {
        var sum = weights[4608u + j];
        for (var k = 0u; k < 64u; k++) {
            sum += b[k] * weights[4480u + j * 64u + k];
        }
        to_[row * 2u + j] = sum;
    }
}
