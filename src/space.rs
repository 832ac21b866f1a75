//! Spaces: what values observations and actions take.

#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    data::{Dtype, Field},
    math,
    seed::Stream,
};

/// The set of values of an observation or an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Space {
    /// One whole number in `0..n`; stored as an `i32`.
    Discrete {
        /// Number of values.
        n: u32,
    },
    /// Several whole numbers, the `i`-th in `0..n[i]`; stored as `[i32; N]`.
    MultiDiscrete {
        /// Number of values of each.
        n: Vec<u32>,
    },
    /// Several bits, each 0 or 1; stored as `[u8; n]`.
    MultiBinary {
        /// Number of bits.
        n: usize,
    },
    /// Numbers with inclusive bounds, which may be infinite for floats; stored as f32, i32 or u8 of any shape.
    Box {
        /// Lower bounds, one an element.
        low: Vec<f32>,
        /// Upper bounds, one an element.
        high: Vec<f32>,
    },
    /// A space for each field of a struct, in memory order.
    Fields(Vec<(String, Space)>),
}

impl Space {
    /// Whole numbers `0..n`.
    pub fn discrete(n: u32) -> Self {
        Self::Discrete { n }
    }

    /// A box with a pair of bounds an element.
    pub fn bounded(low: impl Into<Vec<f32>>, high: impl Into<Vec<f32>>) -> Self {
        Self::Box { low: low.into(), high: high.into() }
    }

    /// A box of `elements` numbers with the same bounds.
    pub fn uniform(low: f32, high: f32, elements: usize) -> Self {
        Self::bounded(vec![low; elements], vec![high; elements])
    }

    /// A box of `elements` numbers without bounds.
    pub fn unbounded(elements: usize) -> Self {
        Self::uniform(f32::NEG_INFINITY, f32::INFINITY, elements)
    }

    /// Elements of a value.
    pub fn len(&self) -> usize {
        match self {
            Self::Discrete { .. } => 1,
            Self::MultiDiscrete { n } => n.len(),
            Self::MultiBinary { n } => *n,
            Self::Box { low, .. } => low.len(),
            Self::Fields(fields) => fields.iter().map(|(_, space)| space.len()).sum(),
        }
    }

    /// Whether a value has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries of a legal-action mask: one for each value of each discrete part, none for boxes and bits.
    pub fn mask_len(&self) -> usize {
        match self {
            Self::Discrete { n } => *n as usize,
            Self::MultiDiscrete { n } => n.iter().map(|n| *n as usize).sum(),
            Self::MultiBinary { .. } | Self::Box { .. } => 0,
            Self::Fields(fields) => fields.iter().map(|(_, space)| space.mask_len()).sum(),
        }
    }

    /// Compares the space with the fields of the type that stores its values. Errors: what does not fit, in words, and
    /// what is legal.
    pub fn check(&self, fields: &[Field]) -> Result<(), String> {
        match self {
            Self::Fields(spaces) => {
                let (have, want) = (spaces.len(), fields.len());
                if have != want {
                    return Err(format!("it has {have} fields, the type has {want}"));
                }
                for ((name, space), field) in spaces.iter().zip(fields) {
                    if *name != field.name {
                        return Err(format!("field {name:?} stands where the type has {:?}", field.name));
                    }
                    space.check_field(field).map_err(|problem| format!("field {name:?}: {problem}"))?;
                }
                Ok(())
            }
            space => match fields {
                [field] => space.check_field(field),
                _ => Err(format!("the type has {} fields; legal: Space::Fields with one entry a field", fields.len())),
            },
        }
    }

    fn check_field(&self, field: &Field) -> Result<(), String> {
        let legal: &[Dtype] = match self {
            Self::Discrete { n } => {
                if *n == 0 || *n > i32::MAX as u32 {
                    return Err(format!("n is {n}; legal: 1 to {}", i32::MAX));
                }
                &[Dtype::I32]
            }
            Self::MultiDiscrete { n } => {
                if let Some(i) = n.iter().position(|n| *n == 0 || *n > i32::MAX as u32) {
                    return Err(format!("n[{i}] is {}; legal: 1 to {}", n[i], i32::MAX));
                }
                &[Dtype::I32]
            }
            Self::MultiBinary { .. } => &[Dtype::U8],
            Self::Box { low, high } => {
                check_bounds(low, high, field.dtype)?;
                &[Dtype::F32, Dtype::I32, Dtype::U8]
            }
            Self::Fields(_) => return Err("fields do not nest; legal: one space of one tensor".into()),
        };
        if !legal.contains(&field.dtype) {
            let legal = legal.iter().map(Dtype::to_string).collect::<Vec<_>>().join(", ");
            return Err(format!("{self} is stored as {}; legal: {legal}", field.dtype));
        }
        if self.len() != field.len() {
            let (have, want) = (self.len(), field.len());
            return Err(format!("it has {have} elements, the type has {want} (shape {:?})", field.shape));
        }
        Ok(())
    }

    /// Whether the space has the value in `bytes` (memory layout of a type that [`check`](Self::check) accepts), and
    /// `mask` allows it: one byte an entry of [`mask_len`](Self::mask_len), 0 for illegal; empty for none. Errors: why
    /// not, in words, and what is legal.
    pub fn contains(&self, bytes: &[u8], fields: &[Field], mask: &[u8]) -> Result<(), String> {
        match self {
            Self::Discrete { n } => contains_index(ints(bytes).next().unwrap_or(-1), *n, mask),
            Self::MultiDiscrete { n } => {
                let mut offset = 0;
                for (i, (x, n)) in ints(bytes).zip(n).enumerate() {
                    let part = if mask.is_empty() { mask } else { &mask[offset..offset + *n as usize] };
                    contains_index(x, *n, part).map_err(|problem| format!("element {i}: {problem}"))?;
                    offset += *n as usize;
                }
                Ok(())
            }
            Self::MultiBinary { .. } => match bytes.iter().position(|bit| *bit > 1) {
                Some(i) => Err(format!("bit {i} is {}; legal: 0 or 1", bytes[i])),
                None => Ok(()),
            },
            Self::Box { low, high } => {
                let dtype = fields.first().map_or(Dtype::F32, |field| field.dtype);
                for (i, x) in numbers(bytes, dtype).enumerate() {
                    // Written so that NaN fails.
                    if !(x >= low[i].into() && x <= high[i].into()) {
                        return Err(format!("element {i} is {x}; legal: {} to {}", low[i], high[i]));
                    }
                }
                Ok(())
            }
            Self::Fields(spaces) => {
                let (mut bytes, mut mask) = (bytes, mask);
                for ((name, space), field) in spaces.iter().zip(fields) {
                    let (own, rest) = bytes.split_at(field.len() * field.dtype.size());
                    let (own_mask, mask_rest) = mask.split_at(space.mask_len().min(mask.len()));
                    space
                        .contains(own, std::slice::from_ref(field), own_mask)
                        .map_err(|problem| format!("field {name:?}: {problem}"))?;
                    (bytes, mask) = (rest, mask_rest);
                }
                Ok(())
            }
        }
    }

    /// Writes a random value into `bytes`: uniform over legal values and over bounded intervals; for a float element
    /// without bounds a standard normal number, with one bound an exponential number from it (Gymnasium's rule).
    pub fn sample(&self, stream: &mut Stream, bytes: &mut [u8], fields: &[Field], mask: &[u8]) {
        match self {
            Self::Discrete { n } => write_int(bytes, sample_index(stream.word(), *n, mask)),
            Self::MultiDiscrete { n } => {
                let mut offset = 0;
                for (slot, n) in bytes.chunks_exact_mut(4).zip(n) {
                    let part = if mask.is_empty() { mask } else { &mask[offset..offset + *n as usize] };
                    write_int(slot, sample_index(stream.word(), *n, part));
                    offset += *n as usize;
                }
            }
            Self::MultiBinary { .. } => bytes.iter_mut().for_each(|bit| *bit = (stream.word() >> 31) as u8),
            Self::Box { low, high } => {
                let dtype = fields.first().map_or(Dtype::F32, |field| field.dtype);
                for (i, slot) in bytes.chunks_exact_mut(dtype.size()).enumerate() {
                    sample_number(stream, slot, dtype, low[i], high[i]);
                }
            }
            Self::Fields(spaces) => {
                let (mut bytes, mut mask) = (bytes, mask);
                for ((_, space), field) in spaces.iter().zip(fields) {
                    let (own, rest) = bytes.split_at_mut(field.len() * field.dtype.size());
                    let (own_mask, mask_rest) = mask.split_at(space.mask_len().min(mask.len()));
                    space.sample(stream, own, std::slice::from_ref(field), own_mask);
                    (bytes, mask) = (rest, mask_rest);
                }
            }
        }
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discrete { n } => write!(f, "discrete({n})"),
            Self::MultiDiscrete { n } => write!(f, "multi-discrete({n:?})"),
            Self::MultiBinary { n } => write!(f, "multi-binary({n})"),
            Self::Box { low, .. } => write!(f, "box of {}", low.len()),
            Self::Fields(fields) => {
                let names: Vec<_> = fields.iter().map(|(name, space)| format!("{name}: {space}")).collect();
                write!(f, "{{{}}}", names.join(", "))
            }
        }
    }
}

fn check_bounds(low: &[f32], high: &[f32], dtype: Dtype) -> Result<(), String> {
    if low.len() != high.len() {
        return Err(format!("{} lower and {} upper bounds; legal: as many", low.len(), high.len()));
    }
    let range = range_of(dtype);
    for (i, (low, high)) in low.iter().zip(high).enumerate() {
        // Written so that NaN fails.
        if !(low <= high && *low < f32::INFINITY && *high > f32::NEG_INFINITY) {
            return Err(format!(
                "bounds of element {i} are {low} and {high}; legal: low ≤ high, with a number between"
            ));
        }
        let Some((least, most)) = range else { continue };
        let is_value = |x: f32| x.fract() == 0.0 && (least as f64..=most as f64).contains(&f64::from(x));
        if ![*low, *high].into_iter().all(|x| x.is_infinite() || is_value(x)) {
            let legal = format!("whole numbers from {least} to {most}, or infinite");
            return Err(format!("bounds of element {i} are {low} and {high}; legal for {dtype}: {legal}"));
        }
    }
    Ok(())
}

/// The least and the greatest value of a type of whole numbers.
fn range_of(dtype: Dtype) -> Option<(i64, i64)> {
    match dtype {
        Dtype::U8 => Some((0, u8::MAX.into())),
        Dtype::I32 => Some((i32::MIN.into(), i32::MAX.into())),
        _ => None,
    }
}

fn contains_index(x: i32, n: u32, mask: &[u8]) -> Result<(), String> {
    if x < 0 || x as u32 >= n {
        return Err(format!("{x}; legal: 0 to {}", n - 1));
    }
    match mask.get(x as usize) {
        Some(0) => {
            let legal: Vec<_> = (0..n as usize).filter(|i| mask[*i] != 0).collect();
            Err(format!("{x}, which the mask forbids; legal: {legal:?}"))
        }
        _ => Ok(()),
    }
}

/// A uniform index among the legal ones; 0 where the mask forbids all.
#[inline]
pub(crate) fn sample_index(word: u32, n: u32, mask: &[u8]) -> i32 {
    if mask.is_empty() {
        return crate::seed::below(word, n) as i32;
    }
    let legal = mask.iter().filter(|entry| **entry != 0).count() as u32;
    let chosen = crate::seed::below(word, legal) as usize;
    mask.iter().enumerate().filter(|(_, entry)| **entry != 0).nth(chosen).map_or(0, |(i, _)| i as i32)
}

fn sample_number(stream: &mut Stream, slot: &mut [u8], dtype: Dtype, low: f32, high: f32) {
    let Some((least, most)) = range_of(dtype) else {
        let exponential = |stream: &mut Stream| -math::ln(1.0 - stream.unit());
        let x = match (low.is_finite(), high.is_finite()) {
            (true, true) => stream.uniform(low, high),
            (true, false) => low + exponential(stream),
            (false, true) => high - exponential(stream),
            (false, false) => stream.normal(),
        };
        return slot.copy_from_slice(&x.to_ne_bytes());
    };
    let (low, high) = ((low as i64).max(least), (high as i64).min(most));
    // All values of a word are as many as it has.
    let above = match u32::try_from(high - low + 1) {
        Ok(count) => stream.below(count),
        Err(_) => stream.word(),
    };
    let x = low + i64::from(above);
    match dtype {
        Dtype::U8 => slot[0] = x as u8,
        _ => write_int(slot, x as i32),
    }
}

fn write_int(slot: &mut [u8], x: i32) {
    slot[..4].copy_from_slice(&x.to_ne_bytes());
}

fn ints(bytes: &[u8]) -> impl Iterator<Item = i32> {
    bytes.chunks_exact(4).map(|chunk| i32::from_ne_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]))
}

fn numbers(bytes: &[u8], dtype: Dtype) -> impl Iterator<Item = f64> {
    bytes.chunks_exact(dtype.size()).map(move |chunk| match dtype {
        Dtype::F32 => f32::from_ne_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]).into(),
        Dtype::U8 => chunk[0].into(),
        _ => i32::from_ne_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]).into(),
    })
}
