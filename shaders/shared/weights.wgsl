// Weights lie in memory as words: a float each, or two halves (`GpuConfig::half`), which become floats when read.
override half: bool = false;

// The word that holds element `i` of a tensor.
fn slot(i: u32) -> u32 {
    return select(i, i / 2u, half);
}

// Element `i`, given its word.
fn element(word: u32, i: u32) -> f32 {
    if half {
        return unpack2x16float(word)[i % 2u];
    }
    return bitcast<f32>(word);
}
