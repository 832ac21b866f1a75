// Draws one vector of numbers a row around its means: a thread a row. Twin: `policy::plan::Head::Gaussian`.
#import shared/grid
#import shared/math

struct GaussianParams {
    rows: u32,
    actions: u32,
    // 0 sample; else the mean, which is the mode too.
    exploration: u32,
    padding: u32,
}

@group(0) @binding(0) var<uniform> params: GaussianParams;
@group(0) @binding(1) var<storage, read> means: array<f32>;
@group(0) @binding(2) var<storage, read> draws: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> log_std: array<f32>;
@group(0) @binding(4) var<storage, read_write> actions: array<f32>;
@group(0) @binding(5) var<storage, read_write> log_probs: array<f32>;

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
    var log_prob = 0.0;
    var normals = vec2<f32>(0.0, 0.0);
    for (var i = 0u; i < params.actions; i++) {
        if params.exploration == 0u && i % 2u == 0u {
            normals = box_muller(block(draws[row], i / 2u));
        }
        let z = select(normals.x, normals.y, i % 2u == 1u);
        let at = row * params.actions + i;
        actions[at] = means[at] + exp32(log_std[i]) * z;
        log_prob += normal_log_density(z, log_std[i]);
    }
    log_probs[row] = log_prob;
}
