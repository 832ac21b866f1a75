// Copies columns, to concatenate matrices: a thread an element. Twin: `policy::layer::Copy`.
#import shared/grid

struct CopyParams {
    rows: u32,
    // First column that is read, and columns of a row there.
    start: u32,
    stride: u32,
    // Columns that are copied.
    columns: u32,
    // First column that is written, and columns of a row there.
    at: u32,
    width: u32,
}

@group(0) @binding(0) var<uniform> params: CopyParams;
@group(0) @binding(1) var<storage, read> from_: array<f32>;
@group(0) @binding(2) var<storage, read_write> to_: array<f32>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = item(group, groups, local);
    let row = i / params.columns;
    let column = i % params.columns;
    if row < params.rows {
        to_[row * params.width + params.at + column] = from_[row * params.stride + params.start + column];
    }
}
