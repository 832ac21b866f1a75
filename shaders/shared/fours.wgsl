// Weights of a linear layer: a load brings those of 4 outputs.

@group(0) @binding(2) var<storage, read> weight: array<vec4<f32>>;

fn weights_at(i: u32) -> vec4<f32> {
    return weight[i];
}
