// A whole network of small linear layers: a thread a row, whose matrices are in private memory. The weights are in
// uniform memory: all threads read the same word at the same time, so one load serves many. Twin: `policy::gpu::fused`.
#import shared/activation
#import shared/grid

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

struct FusedLayer {
    // Where it reads and writes in a row's memory.
    start: u32,
    to_: u32,
    inputs: u32,
    // Tiles of 8 outputs.
    tiles: u32,
    // Its first word of `weights`: the bias, then the weights of each input.
    first: u32,
    // Whether the activation follows.
    activated: u32,
    padding: vec2<u32>,
}

struct FusedNetwork {
    layers: array<FusedLayer, 16>,
    weights: array<vec4<f32>, 4064>,
}

override activation: u32 = 0u;

@group(0) @binding(0) var<uniform> params: FusedParams;
@group(0) @binding(1) var<uniform> network: FusedNetwork;
@group(0) @binding(2) var<storage, read> from_: array<f32>;
@group(0) @binding(3) var<storage, read_write> params_: array<f32>;
@group(0) @binding(4) var<storage, read_write> values: array<f32>;

var<private> memory: array<f32, 320>;

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
        var at = layer.first + tile * 2u;
        var low = network.weights[at];
        var high = network.weights[at + 1u];
        for (var k = 0u; k < layer.inputs; k++) {
            at += layer.tiles * 2u;
            let x = memory[layer.start + k];
            low += network.weights[at] * x;
            high += network.weights[at + 1u] * x;
        }
        store(layer.to_ + tile * 8u, low, layer.activated != 0u);
        store(layer.to_ + tile * 8u + 4u, high, layer.activated != 0u);
    }
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
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
