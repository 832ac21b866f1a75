// Adds noise to one vector of numbers a row: a thread a row. Twin: `policy::head::deterministic`.
#import shared/grid
#import shared/math

struct DeterministicParams {
    rows: u32,
    actions: u32,
}

// Whether a tanh squashes the numbers to a box; noise is then in units of half its width.
override squash: bool = false;

@group(0) @binding(0) var<uniform> params: DeterministicParams;
@group(0) @binding(1) var<storage, read> outputs: array<f32>;
// The bounds of each element, if there is a box, then the noise of each row.
@group(0) @binding(2) var<storage, read> words: array<f32>;
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
    for (var i = 0u; i < params.actions; i++) {
        let at = row * params.actions + i;
        if squash {
            let x = clip32(tanh32(outputs[at]) + words[2u * params.actions + at], -1.0, 1.0);
            actions[at] = to_box(x, words[2u * i], words[2u * i + 1u]);
        } else {
            actions[at] = outputs[at] + words[at];
        }
    }
    log_probs[row] = 0.0;
}
