// Twin of `seed::threefry`: Threefry2x32, 20 rounds (Salmon et al. 2011). The same bits.

const DRAWS_PER_FRAME: u32 = 64u;

fn four_rounds(start: vec2<u32>, rotations: vec4<u32>) -> vec2<u32> {
    var x = start;
    for (var i = 0u; i < 4u; i++) {
        let r = rotations[i];
        x.x += x.y;
        x.y = ((x.y << r) | (x.y >> (32u - r))) ^ x.x;
    }
    return x;
}

fn threefry(key: vec2<u32>, counter: vec2<u32>) -> vec2<u32> {
    let parity = 0x1bd11bdau ^ key.x ^ key.y;
    let even = vec4<u32>(13u, 15u, 26u, 6u);
    let odd = vec4<u32>(17u, 29u, 16u, 24u);
    var x = counter + key;
    x = four_rounds(x, even) + vec2<u32>(key.y, parity + 1u);
    x = four_rounds(x, odd) + vec2<u32>(parity, key.x + 2u);
    x = four_rounds(x, even) + vec2<u32>(key.x, key.y + 3u);
    x = four_rounds(x, odd) + vec2<u32>(key.y, parity + 4u);
    return four_rounds(x, even) + vec2<u32>(parity, key.x + 5u);
}

// A word as a uniform number in [0, 1): twin of `seed::unit`.
fn unit(word: u32) -> f32 {
    return f32(word >> 8u) * 5.9604644775390625e-8;
}

// What a row draws from: its action key, episode and step, as `policy::gpu` packs them.
fn block(draw: vec4<u32>, number: u32) -> vec2<u32> {
    return threefry(draw.xy, vec2<u32>(draw.w * DRAWS_PER_FRAME + number, draw.z));
}
