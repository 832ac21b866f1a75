// A learned vector for each value of a discrete observation: a thread an element. Twin: `policy::layer::embedding`.
#import shared/grid
#import shared/math
#import shared/weights

struct EmbeddingParams {
    rows: u32,
    // The column that is read, and columns of a row there.
    start: u32,
    stride: u32,
    outputs: u32,
    entries: u32,
}

@group(0) @binding(0) var<uniform> params: EmbeddingParams;
@group(0) @binding(1) var<storage, read> from_: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<u32>;
@group(0) @binding(3) var<storage, read_write> to_: array<f32>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = item(group, groups, local);
    let row = i / params.outputs;
    if row >= params.rows {
        return;
    }
    let x = from_[row * params.stride + params.start];
    // What is outside of the table has the nearest entry, NaN the first; a cast alone may give anything for them.
    let bounded = select(clamp(x, 0.0, f32(params.entries)), 0.0, is_nan(x));
    let entry = min(u32(bounded), params.entries - 1u);
    let at = entry * params.outputs + i % params.outputs;
    to_[i] = element(weight[slot(at)], at);
}
