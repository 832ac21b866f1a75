// A whole network of small linear layers: a thread a row, whose matrices are in private memory. Where the weights are
// read from depends on the adapter: `network_uniform` or `network_workgroup`. Twin: `policy::gpu::fused`.
#import shared/activation
#import shared/grid
#import shared/weights

struct FusedParams {
    rows: u32,
    layers: u32,
    // Columns of an observation.
    inputs: u32,
    // Where outputs begin in a row's memory, and columns of them.
    params: u32,
    params_width: u32,
    value: u32,
    value_width: u32,
}

override activation: u32 = 0u;

@group(0) @binding(0) var<uniform> params: FusedParams;
// Binding 1.
#import shared/network_uniform
@group(0) @binding(2) var<storage, read> from_: array<f32>;
@group(0) @binding(3) var<storage, read_write> params_: array<f32>;
@group(0) @binding(4) var<storage, read_write> values: array<f32>;

var<private> memory: array<f32, 320>;

// Weights of 8 outputs.
fn tile_at(i: u32) -> mat2x4<f32> {
    if half {
        let words = four(i);
        let low = vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
        return mat2x4<f32>(low, vec4<f32>(unpack2x16float(words.z), unpack2x16float(words.w)));
    }
    return mat2x4<f32>(bitcast<vec4<f32>>(four(2u * i)), bitcast<vec4<f32>>(four(2u * i + 1u)));
}

fn store(at: u32, x: vec4<f32>, activate: bool) {
    for (var i = 0u; i < 4u; i++) {
        if activate {
            memory[at + i] = activated(activation, x[i]);
        } else {
            memory[at + i] = x[i];
        }
    }
}

fn run(layer: FusedLayer) {
    for (var tile = 0u; tile < layer.tiles; tile++) {
        var at = layer.first + tile;
        var sums = tile_at(at);
        for (var k = 0u; k < layer.inputs; k++) {
            at += layer.tiles;
            let x = memory[layer.start + k];
            let weights = tile_at(at);
            sums[0] += weights[0] * x;
            sums[1] += weights[1] * x;
        }
        store(layer.to_ + tile * 8u, sums[0], layer.activated != 0u);
        store(layer.to_ + tile * 8u + 4u, sums[1], layer.activated != 0u);
    }
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    fetch(local);
    let row = item(group, groups, local);
    // Past the end the last row is computed again: no thread leaves early, so that all stay together.
    let source = min(row, params.rows - 1u) * params.inputs;
    for (var k = 0u; k < params.inputs; k++) {
        memory[k] = from_[source + k];
    }
    for (var i = 0u; i < params.layers; i++) {
        run(network.layers[i]);
    }
    if row < params.rows {
        for (var i = 0u; i < params.params_width; i++) {
            params_[row * params.params_width + i] = memory[params.params + i];
        }
        for (var i = 0u; i < params.value_width; i++) {
            values[row * params.value_width + i] = memory[params.value + i];
        }
    }
}
