// How all weights of a fused network lie in one buffer.

struct FusedLayer {
    // Where it reads and writes in a row's memory.
    start: u32,
    to_: u32,
    inputs: u32,
    // Tiles of 8 outputs.
    tiles: u32,
    // Its first tile in `weights`: the bias, then the weights of each input.
    first: u32,
    // Whether the activation follows.
    activated: u32,
    padding: vec2<u32>,
}

struct FusedNetwork {
    layers: array<FusedLayer, 16>,
    // A tile is two of them, or one of halves.
    weights: array<vec4<u32>, 4064>,
}
