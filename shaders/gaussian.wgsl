// Draws one vector of numbers a row around its means: a thread a row. Twin: `policy::head::gaussian`.
#import shared/grid
#import shared/math

struct GaussianParams {
    rows: u32,
    actions: u32,
    // 0 sample; else the mean, which is the mode too.
    exploration: u32,
}

// Whether the logarithms of the deviations are parameters behind the means, and what they are clipped to.
override network: u32 = 0u;
override log_std_min: f32 = 0.0;
override log_std_max: f32 = 0.0;

@group(0) @binding(0) var<uniform> params: GaussianParams;
@group(0) @binding(1) var<storage, read> outputs: array<f32>;
@group(0) @binding(2) var<storage, read> draws: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> free: array<f32>;
@group(0) @binding(4) var<storage, read_write> actions: array<f32>;
@group(0) @binding(5) var<storage, read_write> log_probs: array<f32>;

fn log_std(first: u32, i: u32) -> f32 {
    if network == 0u {
        return free[i];
    }
    return clip32(outputs[first + params.actions + i], log_std_min, log_std_max);
}

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
    let first = row * params.actions * (1u + network);
    var log_prob = 0.0;
    var normals = vec2<f32>(0.0, 0.0);
    for (var i = 0u; i < params.actions; i++) {
        if params.exploration == 0u && i % 2u == 0u {
            normals = box_muller(block(draws[row], i / 2u));
        }
        let z = select(normals.x, normals.y, i % 2u == 1u);
        let deviation = log_std(first, i);
        actions[row * params.actions + i] = outputs[first + i] + exp32(deviation) * z;
        log_prob += normal_log_density(z, deviation);
    }
    log_probs[row] = log_prob;
}
