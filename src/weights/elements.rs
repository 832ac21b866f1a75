//! Elements of a file's tensors as `f32`.

/// Reads little-endian elements; those of 16 bits exactly, `F64` rounded. The error says what is legal.
pub(super) fn to_f32(dtype: &str, bytes: &[u8]) -> Result<Vec<f32>, String> {
    match dtype {
        "F32" => read(bytes, f32::from_le_bytes),
        "F16" => read(bytes, |x| f16(u16::from_le_bytes(x))),
        "BF16" => read(bytes, |x| bf16(u16::from_le_bytes(x))),
        "F64" => read(bytes, |x| f64::from_le_bytes(x) as f32),
        _ => Err(format!("dtype is {dtype}; legal: F32, F16, BF16 or F64")),
    }
}

fn read<const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> f32) -> Result<Vec<f32>, String> {
    let (elements, rest) = bytes.as_chunks::<N>();
    if !rest.is_empty() {
        return Err(format!("{} bytes; legal: a multiple of {N}", bytes.len()));
    }
    Ok(elements.iter().map(|x| convert(*x)).collect())
}

/// The upper half of an `f32`.
fn bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

fn f16(bits: u16) -> f32 {
    let (sign, magnitude) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7fff) << 13);
    // Exponents 31 mean infinity or NaN, as 255 does in an `f32`.
    if bits & 0x7c00 == 0x7c00 {
        return f32::from_bits(sign | 0x7f80_0000 | magnitude);
    }
    // The exponent's bias is 15 instead of 127. A product, not a sum of bits: it is exact for subnormals as well.
    let scale = f32::from_bits((127 + 127 - 15) << 23);
    f32::from_bits(sign | (f32::from_bits(magnitude) * scale).to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition of a binary float of 16 bits, in `f64`, which holds all of them.
    fn defined(bits: u16, fraction_bits: i32, bias: i32) -> f64 {
        let fraction = f64::from(bits & ((1 << fraction_bits) - 1)) / f64::from(fraction_bits).exp2();
        let exponent = i32::from(bits & 0x7fff) >> fraction_bits;
        let magnitude = match exponent {
            0 => fraction * f64::from(1 - bias).exp2(),
            e if e == 2 * bias + 1 && fraction == 0.0 => f64::INFINITY,
            e if e == 2 * bias + 1 => f64::NAN,
            e => (1.0 + fraction) * f64::from(e - bias).exp2(),
        };
        if bits & 0x8000 == 0 { magnitude } else { -magnitude }
    }

    fn same(x: f32, expected: f64) -> bool {
        (x.is_nan() && expected.is_nan()) || f64::from(x).to_bits() == expected.to_bits()
    }

    #[test]
    fn all_16_bit_patterns_are_converted_exactly() {
        for bits in 0..=u16::MAX {
            let pair = bits.to_le_bytes();
            let [half, brain] = ["F16", "BF16"].map(|dtype| to_f32(dtype, &pair).unwrap()[0]);
            assert!(same(half, defined(bits, 10, 15)), "F16 {bits:#06x}: {half:e}");
            assert!(same(brain, defined(bits, 7, 127)), "BF16 {bits:#06x}: {brain:e}");
        }
    }

    #[test]
    fn doubles_are_rounded_to_the_nearest() {
        let bytes: Vec<u8> = [0.1_f64, -2.0, 1e-300, 1e300].iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(to_f32("F64", &bytes).unwrap(), [0.1_f32, -2.0, 0.0, f32::INFINITY]);
    }

    #[test]
    fn other_types_and_half_elements_are_refused() {
        assert_eq!(to_f32("I64", &[0; 8]).unwrap_err(), "dtype is I64; legal: F32, F16, BF16 or F64");
        assert_eq!(to_f32("F32", &[0; 6]).unwrap_err(), "6 bytes; legal: a multiple of 4");
    }
}
