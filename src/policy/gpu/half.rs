//! Weights as halves: IEEE 754 binary16, rounded to the nearest, of two equally near to the even one.

use crate::error::Error;

/// The largest finite half.
const MAX: f32 = 65_504.0;

/// Two halves a word; a last odd one is padded.
pub(super) fn pack(data: &[f32]) -> Vec<u8> {
    let mut bytes: Vec<u8> = data.iter().flat_map(|x| bits(*x).to_ne_bytes()).collect();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Whether all numbers are finite halves once they are rounded. Errors: [`Error::Tensor`] with the first that is not.
pub(super) fn check(name: &str, data: &[f32]) -> Result<(), Error> {
    match data.iter().position(|x| bits(*x) & 0x7fff >= 0x7c00) {
        None => Ok(()),
        Some(i) => {
            let problem = format!("element {i} is {}; legal with GpuConfig::half: -{MAX} to {MAX}", data[i]);
            Err(Error::Tensor { name: name.into(), problem })
        }
    }
}

/// The bits of the half nearest to `x`; infinity beyond the range, and for NaN.
pub(super) fn bits(x: f32) -> u16 {
    let sign = (x.to_bits() >> 16) as u16 & 0x8000;
    let magnitude = x.abs();
    let bits = if magnitude < f32::from_bits((127 - 14) << 23) {
        // Adding ½ leaves multiples of 2⁻²⁴, the spacing of the subnormal ones.
        (magnitude + 0.5).to_bits() - 0.5_f32.to_bits()
    } else if magnitude < f32::from_bits((127 + 16) << 23) {
        let bits = magnitude.to_bits() - ((127 - 15) << 23);
        (bits + 0xfff + (bits >> 13 & 1)) >> 13
    } else {
        0x7c00
    };
    sign | bits as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number that a half's bits mean.
    fn number(bits: u16) -> f32 {
        let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff));
        let magnitude = match exponent {
            0 => fraction * 2_f32.powi(-24),
            _ => (1.0 + fraction / 1024.0) * 2_f32.powi(exponent - 15),
        };
        if bits & 0x8000 == 0 { magnitude } else { -magnitude }
    }

    #[test]
    fn every_half_keeps_its_bits_and_what_lies_between_goes_to_the_nearest() {
        for sign in [0, 0x8000] {
            for low in 0..0x7bff_u16 {
                let (a, b) = (number(sign | low), number(sign | (low + 1)));
                assert_eq!((bits(a), bits(b)), (sign | low, sign | (low + 1)));
                let even = if low % 2 == 0 { low } else { low + 1 };
                assert_eq!(bits((a + b) / 2.0), sign | even, "{a} to {b}");
                assert_eq!(bits(a + (b - a) * 0.49), sign | low);
                assert_eq!(bits(a + (b - a) * 0.51), sign | (low + 1));
            }
        }
    }

    #[test]
    fn what_is_too_large_is_refused() {
        assert_eq!(bits(f32::INFINITY), 0x7c00);
        assert_eq!([65_519.9, 65_520.0, 1e30, -1e30].map(bits), [0x7bff, 0x7c00, 0x7c00, 0xfc00]);
        assert!(check("a", &[1.0, -65_504.0]).is_ok());
        let error = check("trunk.0.weight", &[1.0, -70_000.0]).unwrap_err().to_string();
        assert!(error.contains("trunk.0.weight") && error.contains("-70000") && error.contains("65504"), "{error}");
        assert_eq!(pack(&[1.0, 2.0, 0.5]).len(), 8);
    }
}
