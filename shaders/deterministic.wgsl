// Adds noise to one vector of numbers a row: a thread a row. Twin: `policy::head::deterministic`.
#import shared/grid

struct DeterministicParams {
    rows: u32,
    actions: u32,
}

@group(0) @binding(0) var<uniform> params: DeterministicParams;
@group(0) @binding(1) var<storage, read> outputs: array<f32>;
@group(0) @binding(2) var<storage, read> noise: array<f32>;
@group(0) @binding(3) var<storage, read_write> actions: array<f32>;
@group(0) @binding(4) var<storage, read_write> log_probs: array<f32>;

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
    for (var i = row * params.actions; i < (row + 1u) * params.actions; i++) {
        actions[i] = outputs[i] + noise[i];
    }
    log_probs[row] = 0.0;
}
