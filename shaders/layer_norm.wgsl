// Normalisation over the elements of a row, with its activation: a workgroup a row. Twin: `policy::layer::layer_norm`.
#import shared/activation
#import shared/reduce
#import shared/weights

struct LayerNormParams {
    rows: u32,
    // First column that is read, and columns of a row there.
    start: u32,
    stride: u32,
    // Elements of a row.
    columns: u32,
}

override activation: u32 = 0u;

@group(0) @binding(0) var<uniform> params: LayerNormParams;
@group(0) @binding(1) var<storage, read> from_: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<u32>;
@group(0) @binding(3) var<storage, read> bias: array<u32>;
@group(0) @binding(4) var<storage, read_write> to_: array<f32>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    thread: Thread,
) {
    let local = thread.local;
    let row = group.y * groups.x + group.x;
    if row >= params.rows {
        return;
    }
    let first = row * params.stride + params.start;
    let inverse = 1.0 / f32(params.columns);
    var part = 0.0;
    for (var i = local; i < params.columns; i += GROUP) {
        part += from_[first + i];
    }
    let mean = inverse * group_sum(thread, part);
    part = 0.0;
    for (var i = local; i < params.columns; i += GROUP) {
        let x = from_[first + i] - mean;
        part += x * x;
    }
    let scale = 1.0 / sqrt(inverse * group_sum(thread, part) + 1e-5);
    for (var i = local; i < params.columns; i += GROUP) {
        let x = (from_[first + i] - mean) * scale;
        let y = x * element(weight[slot(i)], i) + element(bias[slot(i)], i);
        to_[row * params.columns + i] = activated(activation, y);
    }
}
