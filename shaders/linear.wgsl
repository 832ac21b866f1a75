// One linear layer with its activation: a thread a tile of 4 rows and 4 outputs, so that 5 loads serve 16 products.
// Weights lie by inputs, 4 outputs side by side: a load brings 4, and threads beside each other load side by side.
// Twin: `policy::layer::linear`.
#import shared/activation
#import shared/grid
#import shared/weights

struct LinearParams {
    rows: u32,
    // First column that is read, and columns of a row there.
    start: u32,
    stride: u32,
    inputs: u32,
    outputs: u32,
}

override activation: u32 = 0u;

@group(0) @binding(0) var<uniform> params: LinearParams;
@group(0) @binding(1) var<storage, read> from_: array<f32>;
// Binding 2.
#import shared/fours
@group(0) @binding(3) var<storage, read> bias: array<u32>;
@group(0) @binding(4) var<storage, read_write> to_: array<f32>;

fn store(row: u32, output: u32, sums: vec4<f32>) {
    for (var j = 0u; row < params.rows && j < 4u; j++) {
        if output + j < params.outputs {
            let at = output + j;
            let sum = element(bias[slot(at)], at) + sums[j];
            to_[row * params.outputs + at] = activated(activation, sum);
        }
    }
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let tile = item(group, groups, local);
    let across = (params.outputs + 3u) / 4u;
    let row = tile / across * 4u;
    let output = tile % across * 4u;
    if row >= params.rows {
        return;
    }
    // Past the edge the last row is read again, and weights are zeros; `store` leaves them out.
    let four = vec4<u32>(0u, 1u, 2u, 3u);
    let x = min(row + four, vec4<u32>(params.rows - 1u)) * params.stride + params.start;
    var sums = mat4x4<f32>();
    for (var k = 0u; k < params.inputs; k++) {
        let weights = weights_at(k * across + output / 4u);
        sums[0] += from_[x.x + k] * weights;
        sums[1] += from_[x.y + k] * weights;
        sums[2] += from_[x.z + k] * weights;
        sums[3] += from_[x.w + k] * weights;
    }
    store(row, output, sums[0]);
    store(row + 1u, output, sums[1]);
    store(row + 2u, output, sums[2]);
    store(row + 3u, output, sums[3]);
}
