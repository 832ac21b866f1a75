//! Plain old data: what observations, actions and masks are made of.

use std::{borrow::Cow, fmt};

use bytemuck::Pod;
use serde::{Deserialize, Serialize};

/// Element type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// 32-bit float.
    F32,
    /// 32-bit signed integer.
    I32,
    /// Byte.
    U8,
    /// 32-bit unsigned integer (engine columns).
    U32,
    /// 64-bit unsigned integer (engine columns).
    U64,
}

impl Dtype {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::U64 => 8,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::I32 => "i32",
            Self::U8 => "u8",
            Self::U32 => "u32",
            Self::U64 => "u64",
        })
    }
}

/// One named field of a plain-old-data type; the name of a bare tensor is empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// Name in the struct, or empty.
    pub name: Cow<'static, str>,
    /// Element type.
    pub dtype: Dtype,
    /// Shape; empty for a scalar.
    pub shape: Vec<usize>,
}

impl Field {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the field has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A value that lives in columns: fixed size, no padding, no pointers.
///
/// Implemented for `f32`, `i32`, `u8`, arrays of them of any depth, and `()`; for a struct of such fields use
/// [`data!`](crate::data!).
pub trait Data: Pod + Send + Sync + fmt::Debug + PartialEq {
    /// The fields, in memory order.
    fn fields() -> Vec<Field>;

    /// Whether no float in it is NaN or infinite.
    fn is_finite(&self) -> bool;

    /// Writes all elements as floats, in memory order; `out` has [`width`] elements.
    fn encode(&self, out: &mut [f32]);
}

/// Elements of a `D`, over all its fields.
pub fn width<D: Data>() -> usize {
    D::fields().iter().map(Field::len).sum()
}

/// A scalar or an array of scalars: one field.
pub trait Tensor: Pod + Send + Sync + fmt::Debug + PartialEq {
    /// Element type.
    const DTYPE: Dtype;
    /// Number of elements.
    const LEN: usize;
    /// Shape; empty for a scalar.
    fn shape() -> Vec<usize>;
    /// Whether no float in it is NaN or infinite.
    fn is_finite(&self) -> bool;
    /// Writes all elements as floats.
    fn encode(&self, out: &mut [f32]);
}

/// A finite float, told by its bits: optimisers may assume that floats are finite.
#[inline(always)]
pub fn finite(x: f32) -> bool {
    x.to_bits() & 0x7f80_0000 != 0x7f80_0000
}

macro_rules! scalar {
    ($type:ty, $dtype:ident, $value:ident => $finite:expr) => {
        impl Tensor for $type {
            const DTYPE: Dtype = Dtype::$dtype;
            const LEN: usize = 1;
            fn shape() -> Vec<usize> {
                Vec::new()
            }
            #[inline(always)]
            fn is_finite(&self) -> bool {
                let $value = *self;
                $finite
            }
            #[inline(always)]
            fn encode(&self, out: &mut [f32]) {
                out[0] = *self as f32;
            }
        }
    };
}
scalar!(f32, F32, x => finite(x));
scalar!(i32, I32, _x => true);
scalar!(u8, U8, _x => true);

impl<T: Tensor, const N: usize> Tensor for [T; N]
where
    [T; N]: Pod,
{
    const DTYPE: Dtype = T::DTYPE;
    const LEN: usize = N * T::LEN;
    fn shape() -> Vec<usize> {
        let mut shape = vec![N];
        shape.extend(T::shape());
        shape
    }
    #[inline(always)]
    fn is_finite(&self) -> bool {
        self.iter().fold(true, |all, x| all & x.is_finite())
    }
    #[inline(always)]
    fn encode(&self, out: &mut [f32]) {
        for (x, out) in self.iter().zip(out.chunks_exact_mut(T::LEN.max(1))) {
            x.encode(out);
        }
    }
}

impl<T: Tensor> Data for T {
    fn fields() -> Vec<Field> {
        vec![Field { name: "".into(), dtype: T::DTYPE, shape: T::shape() }]
    }
    #[inline(always)]
    fn is_finite(&self) -> bool {
        Tensor::is_finite(self)
    }
    #[inline(always)]
    fn encode(&self, out: &mut [f32]) {
        Tensor::encode(self, out);
    }
}

/// No data: the mask of a task whose actions are always legal.
impl Data for () {
    fn fields() -> Vec<Field> {
        Vec::new()
    }
    fn is_finite(&self) -> bool {
        true
    }
    fn encode(&self, _: &mut [f32]) {}
}

/// Declares a `#[repr(C)]` struct of tensors that can live in columns.
///
/// ```
/// gleaner::data! {
///     /// What the robot sees.
///     pub struct Scan {
///         /// Metres, one a beam.
///         pub range: [f32; 8],
///         /// Index of the room.
///         pub room: i32,
///     }
/// }
/// use gleaner::data::Data;
/// assert_eq!(Scan::fields()[0].shape, [8]);
/// ```
///
/// A struct with padding between its fields does not compile: put wide elements before narrow ones.
#[macro_export]
macro_rules! data {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $( $(#[$field_attribute:meta])* $field_visibility:vis $field:ident : $type:ty ),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, $crate::bytemuck::Pod, $crate::bytemuck::Zeroable)]
        #[bytemuck(crate = "gleaner::bytemuck")]
        #[repr(C)]
        $visibility struct $name {
            $( $(#[$field_attribute])* $field_visibility $field: $type ),*
        }

        impl $crate::data::Data for $name {
            fn fields() -> Vec<$crate::data::Field> {
                vec![ $( $crate::data::Field {
                    name: stringify!($field).into(),
                    dtype: <$type as $crate::data::Tensor>::DTYPE,
                    shape: <$type as $crate::data::Tensor>::shape(),
                } ),* ]
            }
            #[inline(always)]
            fn is_finite(&self) -> bool {
                true $( & $crate::data::Tensor::is_finite(&self.$field) )*
            }
            #[inline(always)]
            fn encode(&self, out: &mut [f32]) {
                let _rest = out;
                $(
                    let (field, _rest) = _rest.split_at_mut(<$type as $crate::data::Tensor>::LEN);
                    $crate::data::Tensor::encode(&self.$field, field);
                )*
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::data! {
        struct Mixed {
            position: [[f32; 2]; 3],
            count: i32,
            pixels: [u8; 4],
        }
    }

    #[test]
    fn a_struct_lists_its_fields_in_memory_order() {
        let fields = Mixed::fields();
        assert_eq!(fields[0], Field { name: "position".into(), dtype: Dtype::F32, shape: vec![3, 2] });
        assert_eq!(fields[2], Field { name: "pixels".into(), dtype: Dtype::U8, shape: vec![4] });
        assert_eq!(width::<Mixed>(), 11);
    }

    #[test]
    fn encodes_in_order_and_finds_nan() {
        let mut value = Mixed { position: [[1., 2.], [3., 4.], [5., 6.]], count: -7, pixels: [8, 9, 10, 255] };
        let mut out = [0.; 11];
        value.encode(&mut out);
        assert_eq!(out, [1., 2., 3., 4., 5., 6., -7., 8., 9., 10., 255.]);
        assert!(Data::is_finite(&value));
        value.position[2][1] = f32::NAN;
        assert!(!Data::is_finite(&value));
    }
}
