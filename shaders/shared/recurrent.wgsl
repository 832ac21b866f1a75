// What the recurrent layers share: bindings, and how threads are spread. A thread computes a unit for a tile of 4 rows,
// so that a weight serves 4 products. All units of a row belong to one workgroup: each reads the whole old hidden state,
// so none may write the new one before all are done.
#import shared/grid
#import shared/math
#import shared/weights

struct RecurrentParams {
    rows: u32,
    // First column that is read, and columns of a row there.
    start: u32,
    stride: u32,
    inputs: u32,
    // Units.
    outputs: u32,
    // First column of the hidden state, and columns of a place.
    state: u32,
    width: u32,
}

@group(0) @binding(0) var<uniform> params: RecurrentParams;
@group(0) @binding(1) var<storage, read> from_: array<f32>;
@group(0) @binding(2) var<storage, read> weight_x: array<u32>;
@group(0) @binding(3) var<storage, read> weight_h: array<u32>;
@group(0) @binding(4) var<storage, read> bias_x: array<u32>;
@group(0) @binding(5) var<storage, read> bias_h: array<u32>;
// Place of a row, and whether its state begins with zeros.
@group(0) @binding(6) var<storage, read> memory: array<vec2<u32>>;
@group(0) @binding(7) var<storage, read_write> states: array<f32>;
@group(0) @binding(8) var<storage, read_write> to_: array<f32>;

// A thread's 4 rows; `row` is past the end for a thread without work.
struct Tile {
    row: u32,
    unit: u32,
    // Where the rows' inputs and states begin.
    x: vec4<u32>,
    h: vec4<u32>,
    fresh: vec4<bool>,
}

fn tile_of(group: vec3<u32>, groups: vec3<u32>, local: u32) -> Tile {
    let units = min(params.outputs, GROUP);
    let tiles = GROUP / units;
    var tile: Tile;
    tile.row = ((group.y * groups.x + group.x) * tiles + local / units) * 4u;
    if local / units >= tiles {
        tile.row = params.rows;
    }
    tile.unit = local % units;
    // Past the edge the last row is read again.
    for (var j = 0u; j < 4u; j++) {
        let row = min(tile.row + j, params.rows - 1u);
        tile.x[j] = row * params.stride + params.start;
        tile.h[j] = memory[row].x * params.width + params.state;
        tile.fresh[j] = memory[row].y != 0u;
    }
    return tile;
}

fn weight_x_at(i: u32) -> f32 {
    return element(weight_x[slot(i)], i);
}

fn weight_h_at(i: u32) -> f32 {
    return element(weight_h[slot(i)], i);
}

fn bias_x_at(i: u32) -> f32 {
    return element(bias_x[slot(i)], i);
}

fn bias_h_at(i: u32) -> f32 {
    return element(bias_h[slot(i)], i);
}

fn inputs_at(tile: Tile, i: u32) -> vec4<f32> {
    let x = tile.x + i;
    return vec4<f32>(from_[x.x], from_[x.y], from_[x.z], from_[x.w]);
}

fn states_at(tile: Tile, i: u32) -> vec4<f32> {
    let h = tile.h + i;
    return select(vec4<f32>(states[h.x], states[h.y], states[h.z], states[h.w]), vec4<f32>(), tile.fresh);
}

// Puts the new hidden states, which are in `to_`, into the places.
fn remember(tile: Tile) {
    storageBarrier();
    for (var unit = tile.unit; unit < params.outputs; unit += GROUP) {
        for (var j = 0u; tile.row + j < params.rows && j < 4u; j++) {
            states[tile.h[j] + unit] = to_[(tile.row + j) * params.outputs + unit];
        }
    }
}
