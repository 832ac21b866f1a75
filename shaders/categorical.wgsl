// Draws one action a row from its legal logits: a thread a row. Twin: `policy::plan::Head::Categorical`.
#import shared/grid
#import shared/math

struct CategoricalParams {
    rows: u32,
    actions: u32,
    // 0 sample, 1 mode.
    exploration: u32,
    // Words of one row's mask, a byte an action; 0 if every action is legal.
    mask_words: u32,
}

@group(0) @binding(0) var<uniform> params: CategoricalParams;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read> draws: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> masks: array<u32>;
@group(0) @binding(4) var<storage, read_write> actions: array<u32>;
@group(0) @binding(5) var<storage, read_write> log_probs: array<f32>;

fn legal(row: u32, action: u32) -> bool {
    if params.mask_words == 0u {
        return true;
    }
    let word = masks[row * params.mask_words + action / 4u];
    return ((word >> (8u * (action % 4u))) & 0xffu) != 0u;
}

// The first action whose cumulated probability exceeds the row's unit; the last legal one if rounding leaves none.
fn sample(row: u32, peak: f32, total: f32) -> u32 {
    let threshold = unit(block(draws[row], 0u).x) * total;
    var cumulated = 0.0;
    var last = 0u;
    for (var a = 0u; a < params.actions; a++) {
        if legal(row, a) {
            cumulated += exp32(logits[row * params.actions + a] - peak);
            last = a;
            if cumulated > threshold {
                break;
            }
        }
    }
    return last;
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
    let base = row * params.actions;
    var any = false;
    var best = 0u;
    for (var a = 0u; a < params.actions; a++) {
        if legal(row, a) && (!any || logits[base + a] > logits[base + best]) {
            best = a;
            any = true;
        }
    }
    let peak = logits[base + best];
    var total = 0.0;
    for (var a = 0u; a < params.actions; a++) {
        if legal(row, a) {
            total += exp32(logits[base + a] - peak);
        }
    }
    var action = best;
    if params.exploration == 0u {
        action = sample(row, peak, total);
    }
    actions[row] = action;
    // `ln32` has no answer for NaN, and none for the empty sum of a mask that forbids everything.
    var log_prob = nan32();
    if any && is_finite(total) {
        log_prob = logits[base + action] - peak - ln32(total);
    }
    log_probs[row] = log_prob;
}
