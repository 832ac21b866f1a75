// Draws bits from their logits, a byte each: a thread a row. Twin: `policy::head::multi_binary`.
#import shared/grid
#import shared/math

struct MultiBinaryParams {
    rows: u32,
    bits: u32,
    // 0 sample, 1 mode.
    exploration: u32,
}

@group(0) @binding(0) var<uniform> params: MultiBinaryParams;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read> draws: array<vec4<u32>>;
// Four bits a word, rows padded to whole words.
@group(0) @binding(3) var<storage, read_write> actions: array<u32>;
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
    let words = (params.bits + 3u) / 4u;
    var log_prob = 0.0;
    var drawn = vec2<u32>(0u, 0u);
    var word = 0u;
    for (var i = 0u; i < params.bits; i++) {
        if params.exploration == 0u && i % 2u == 0u {
            drawn = block(draws[row], i / 2u);
        }
        let logit = logits[row * params.bits + i];
        let probability = sigmoid32(logit);
        let chance = unit(select(drawn.x, drawn.y, i % 2u == 1u));
        // NaN is 0, whatever its comparisons give.
        let bit = !is_nan(logit) && select(logit > 0.0, chance < probability, params.exploration == 0u);
        log_prob -= softplus32(select(logit, -logit, bit));
        word |= u32(bit) << (8u * (i % 4u));
        if i % 4u == 3u || i + 1u == params.bits {
            actions[row * words + i / 4u] = word;
            word = 0u;
        }
    }
    log_probs[row] = log_prob;
}
