// Draws several numbers a row, each from its legal logits: a thread a row. Twin: `policy::head::multi_discrete`.
#import shared/grid
#import shared/math

struct MultiDiscreteParams {
    rows: u32,
    // Numbers of an action.
    elements: u32,
    // Logits of a row.
    width: u32,
    // 0 sample, 1 mode.
    exploration: u32,
    // Words of one row's mask, a byte a logit; 0 if every value is legal.
    mask_words: u32,
}

@group(0) @binding(0) var<uniform> params: MultiDiscreteParams;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read> draws: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> masks: array<u32>;
// Values of each number.
@group(0) @binding(4) var<storage, read> counts: array<u32>;
@group(0) @binding(5) var<storage, read_write> actions: array<u32>;
@group(0) @binding(6) var<storage, read_write> log_probs: array<f32>;

fn legal(row: u32, entry: u32) -> bool {
    if params.mask_words == 0u {
        return true;
    }
    let word = masks[row * params.mask_words + entry / 4u];
    return ((word >> (8u * (entry % 4u))) & 0xffu) != 0u;
}

// The first of `n` values from entry `first` on whose cumulated probability exceeds `share`; the last legal one if
// rounding leaves none.
fn sample(row: u32, first: u32, n: u32, peak: f32, total: f32, share: f32) -> u32 {
    var cumulated = 0.0;
    var last = 0u;
    for (var a = 0u; a < n; a++) {
        if legal(row, first + a) {
            cumulated += exp32(logits[row * params.width + first + a] - peak);
            last = a;
            if cumulated > share * total {
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
    var log_prob = 0.0;
    var drawn = vec2<u32>(0u, 0u);
    var first = 0u;
    for (var element = 0u; element < params.elements; element++) {
        let n = counts[element];
        let base = row * params.width + first;
        if params.exploration == 0u && element % 2u == 0u {
            drawn = block(draws[row], element / 2u);
        }
        var any = false;
        var action = 0u;
        for (var a = 0u; a < n; a++) {
            if legal(row, first + a) && (!any || logits[base + a] > logits[base + action]) {
                action = a;
                any = true;
            }
        }
        let peak = logits[base + action];
        var total = 0.0;
        for (var a = 0u; a < n; a++) {
            if legal(row, first + a) {
                total += exp32(logits[base + a] - peak);
            }
        }
        if params.exploration == 0u {
            action = sample(row, first, n, peak, total, unit(select(drawn.x, drawn.y, element % 2u == 1u)));
        }
        actions[row * params.elements + element] = action;
        // `ln32` has no answer for NaN, and none for the empty sum of a mask that forbids everything.
        if any && is_finite(total) {
            log_prob += logits[base + action] - peak - ln32(total);
        } else {
            log_prob += nan32();
        }
        first += n;
    }
    log_probs[row] = log_prob;
}
