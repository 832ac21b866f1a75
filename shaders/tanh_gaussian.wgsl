// Draws one vector of numbers a row around its means and squashes it to a box: a thread a row.
// Twin: `policy::head::tanh_gaussian`.
#import shared/grid
#import shared/math

struct TanhGaussianParams {
    rows: u32,
    actions: u32,
    // 0 sample; else the squashed mean.
    exploration: u32,
}

// Whether the logarithms of the deviations are parameters behind the means, and what they are clipped to.
override network: u32 = 0u;
override log_std_min: f32 = 0.0;
override log_std_max: f32 = 0.0;

@group(0) @binding(0) var<uniform> params: TanhGaussianParams;
@group(0) @binding(1) var<storage, read> outputs: array<f32>;
@group(0) @binding(2) var<storage, read> draws: array<vec4<u32>>;
// Of an element: bounds, logarithm of half their distance, free logarithm of the deviation.
@group(0) @binding(3) var<storage, read> elements: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> actions: array<f32>;
@group(0) @binding(5) var<storage, read_write> log_probs: array<f32>;

fn log_std(first: u32, i: u32) -> f32 {
    if network == 0u {
        return elements[i].w;
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
        let u = outputs[first + i] + exp32(deviation) * z;
        actions[row * params.actions + i] = to_box(tanh32(u), elements[i].x, elements[i].y);
        let slope = 2.0 * (0.6931472 - u - softplus32(-2.0 * u));
        log_prob += normal_log_density(z, deviation) - slope - elements[i].z;
    }
    log_probs[row] = log_prob;
}
