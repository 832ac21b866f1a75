//! Threefry2x32-20 (Salmon et al. 2011), many blocks side by side.

/// `N` blocks, word by word: the compiler keeps a word of all blocks in a few registers.
#[inline(always)]
pub fn blocks<const N: usize>(key: [[u32; N]; 2], counter: [[u32; N]; 2]) -> [[u32; N]; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let [mut a, mut b] = counter;
    let mut third = [0x1BD1_1BDA_u32; N];
    for i in 0..N {
        third[i] ^= key[0][i] ^ key[1][i];
        a[i] = a[i].wrapping_add(key[0][i]);
        b[i] = b[i].wrapping_add(key[1][i]);
    }
    let keys = [key[0], key[1], third];
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            for i in 0..N {
                a[i] = a[i].wrapping_add(b[i]);
                b[i] = b[i].rotate_left(rotation) ^ a[i];
            }
        }
        let (first, second) = (keys[(group + 1) % 3], keys[(group + 2) % 3]);
        for i in 0..N {
            a[i] = a[i].wrapping_add(first[i]);
            b[i] = b[i].wrapping_add(second[i]).wrapping_add(group as u32 + 1);
        }
    }
    [a, b]
}

/// One block.
#[inline(always)]
pub fn block(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    let [[a], [b]] = blocks([[key[0]], [key[1]]], [[counter[0]], [counter[1]]]);
    [a, b]
}
