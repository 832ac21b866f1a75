// Takes the legal action of the greatest value, or at random any: a thread a row. Twin: `policy::head::q`.
#import shared/grid
#import shared/math

struct QParams {
    rows: u32,
    actions: u32,
    // 0 sample, 1 mode.
    exploration: u32,
    // Words of one row's mask, a byte an action; 0 if every action is legal.
    mask_words: u32,
    // Probability of a random action.
    epsilon: f32,
}

@group(0) @binding(0) var<uniform> params: QParams;
@group(0) @binding(1) var<storage, read> values: array<f32>;
@group(0) @binding(2) var<storage, read> draws: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> masks: array<u32>;
@group(0) @binding(4) var<storage, read_write> actions: array<u32>;
@group(0) @binding(5) var<storage, read_write> log_probs: array<f32>;

fn legal(row: u32, entry: u32) -> bool {
    if params.mask_words == 0u {
        return true;
    }
    let word = masks[row * params.mask_words + entry / 4u];
    return ((word >> (8u * (entry % 4u))) & 0xffu) != 0u;
}

// Legal action number `number`; 0 if there are not so many.
fn nth(row: u32, number: u32) -> u32 {
    var left = number;
    for (var a = 0u; a < params.actions; a++) {
        if legal(row, a) {
            if left == 0u {
                return a;
            }
            left -= 1u;
        }
    }
    return 0u;
}

// The high word of a product: twin of `seed::below`.
fn below(word: u32, n: u32) -> u32 {
    let low = (word & 0xffffu) * n;
    let high = (word >> 16u) * n;
    return (high + (low >> 16u)) >> 16u;
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
    var count = 0u;
    var greedy = 0u;
    var number = true;
    for (var a = 0u; a < params.actions; a++) {
        if legal(row, a) {
            let value = values[base + a];
            if count == 0u || (!is_nan(value) && value > values[base + greedy]) {
                greedy = a;
            }
            number = number && !is_nan(value);
            count += 1u;
        }
    }
    var action = greedy;
    if params.exploration == 0u {
        let drawn = block(draws[row], 0u);
        if unit(drawn.x) < params.epsilon {
            action = nth(row, below(drawn.y, count));
        }
    }
    actions[row] = action;
    var log_prob = nan32();
    if number && count > 0u {
        let other = params.epsilon / f32(count);
        log_prob = ln32(select(other, 1.0 - params.epsilon + other, action == greedy));
    }
    log_probs[row] = log_prob;
}
