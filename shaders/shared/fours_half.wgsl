// The same weights as halves. Takes the place of `fours`.

@group(0) @binding(2) var<storage, read> weight: array<vec2<u32>>;

fn weights_at(i: u32) -> vec4<f32> {
    let words = weight[i];
    return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
}
