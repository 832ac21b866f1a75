// Convolution of an image with its activation: a thread a tile of 4 filters and 4 places, so that 8 loads serve 16
// products. Twin: `policy::layer::conv2d`.
#import shared/activation
#import shared/grid
#import shared/weights

struct Conv2dParams {
    rows: u32,
    // First word that is read, and words of a row there.
    start: u32,
    stride: u32,
    // Of the input.
    channels: u32,
    height: u32,
    width: u32,
    // Of the output: the places that a filter is applied to, and columns of them.
    filters: u32,
    places: u32,
    columns: u32,
    // Side and step of the kernel.
    side: u32,
    step: u32,
    // Applied to the input.
    scale: f32,
}

override activation: u32 = 0u;
// Whether the image is of bytes, four a word; else of floats.
override bytes: bool = false;
// Zeros beyond each edge of the image.
override padding: u32 = 0u;

@group(0) @binding(0) var<uniform> params: Conv2dParams;
@group(0) @binding(1) var<storage, read> from_: array<u32>;
@group(0) @binding(2) var<storage, read> weight: array<u32>;
@group(0) @binding(3) var<storage, read> bias: array<u32>;
@group(0) @binding(4) var<storage, read_write> to_: array<f32>;

fn weight_at(i: u32) -> f32 {
    return element(weight[slot(i)], i);
}

// Element `i` of the image that begins at word `first`.
fn pixel_at(first: u32, i: u32) -> f32 {
    if bytes {
        return f32((from_[first + i / 4u] >> (8u * (i % 4u))) & 0xffu);
    }
    return bitcast<f32>(from_[first + i]);
}

fn pixels_at(first: u32, at: vec4<u32>) -> vec4<f32> {
    let near = vec2<f32>(pixel_at(first, at.x), pixel_at(first, at.y));
    return vec4<f32>(near, pixel_at(first, at.z), pixel_at(first, at.w));
}

// Those of lines `y` and columns `x`, counted from the edge of the padding; `plane` is where their channel begins.
fn padded_at(first: u32, plane: u32, y: vec4<u32>, x: vec4<u32>) -> vec4<f32> {
    if padding == 0u {
        return pixels_at(first, plane + y * params.width + x);
    }
    let low = vec4<u32>(padding);
    let inside = (y >= low) & (y < low + params.height) & (x >= low) & (x < low + params.width);
    let at = select(vec4<u32>(), plane + (y - low) * params.width + x - low, inside);
    return select(vec4<f32>(), pixels_at(first, at), inside);
}

fn store(row: u32, filter_: u32, place: u32, sums: vec4<f32>) {
    let offset = element(bias[slot(filter_)], filter_);
    for (var j = 0u; filter_ < params.filters && j < 4u; j++) {
        if place + j < params.places {
            let at = (row * params.filters + filter_) * params.places + place + j;
            to_[at] = activated(activation, offset + params.scale * sums[j]);
        }
    }
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let tile = item(group, groups, local);
    let across = (params.places + 3u) / 4u;
    let down = (params.filters + 3u) / 4u;
    let row = tile / (across * down);
    let filter_ = tile / across % down * 4u;
    let place = tile % across * 4u;
    if row >= params.rows {
        return;
    }
    // Past the edge the last place and the last filter are read again; `store` leaves them out.
    let four = vec4<u32>(0u, 1u, 2u, 3u);
    let places = min(place + four, vec4<u32>(params.places - 1u));
    let y = places / params.columns * params.step;
    let x = places % params.columns * params.step;
    let first = row * params.stride + params.start;
    let patch_ = params.channels * params.side * params.side;
    var w = min(filter_ + four, vec4<u32>(params.filters - 1u)) * patch_;
    var sums = mat4x4<f32>();
    for (var line = 0u; line < params.channels * params.side; line++) {
        let plane = line / params.side * params.height * params.width;
        for (var k = 0u; k < params.side; k++) {
            let pixel = padded_at(first, plane, y + line % params.side, x + k);
            sums[0] += weight_at(w.x) * pixel;
            sums[1] += weight_at(w.y) * pixel;
            sums[2] += weight_at(w.z) * pixel;
            sums[3] += weight_at(w.w) * pixel;
            w += vec4<u32>(1u);
        }
    }
    store(row, filter_, place, sums[0]);
    store(row, filter_ + 1u, place, sums[1]);
    store(row, filter_ + 2u, place, sums[2]);
    store(row, filter_ + 3u, place, sums[3]);
}
