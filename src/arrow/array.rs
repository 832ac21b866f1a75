//! Between bytes of recorded columns and Arrow arrays.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, ListArray, PrimitiveArray,
    cast::AsArray,
    types::{ArrowPrimitiveType, Float32Type, Int32Type, UInt8Type, UInt32Type, UInt64Type},
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};

use super::{leaf::Leaf, schema::item};
use crate::data::Dtype;

/// Calls a function that is generic over the element's type.
macro_rules! by_dtype {
    ($dtype:expr, $f:ident($($argument:expr),*)) => {
        match $dtype {
            Dtype::F32 => $f::<Float32Type>($($argument),*),
            Dtype::I32 => $f::<Int32Type>($($argument),*),
            Dtype::U8 => $f::<UInt8Type>($($argument),*),
            Dtype::U32 => $f::<UInt32Type>($($argument),*),
            Dtype::U64 => $f::<UInt64Type>($($argument),*),
        }
    };
}

/// The leaf's part of values of its column.
fn part(leaf: &Leaf, values: &[u8]) -> Buffer {
    if leaf.bytes() == leaf.stride {
        return Buffer::from(values);
    }
    let values = values.chunks_exact(leaf.stride);
    Buffer::from(values.flat_map(|value| &value[leaf.offset..][..leaf.bytes()]).copied().collect::<Vec<u8>>())
}

fn primitive<P: ArrowPrimitiveType>(elements: Buffer, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    let len = elements.len() / size_of::<P::Native>();
    // What was copied byte by byte may lie anywhere.
    let elements = if elements.as_ptr().align_offset(align_of::<P::Native>()) == 0 {
        elements
    } else {
        let mut aligned = arrow_buffer::MutableBuffer::new(elements.len());
        aligned.extend_from_slice(elements.as_slice());
        aligned.into()
    };
    Ok(Arc::new(PrimitiveArray::<P>::try_new(ScalarBuffer::new(elements, 0, len), nulls)?))
}

/// A leaf of `n` values of its column.
pub(super) fn array(leaf: &Leaf, values: &[u8], n: usize) -> Result<ArrayRef, ArrowError> {
    let elements = by_dtype!(leaf.field.dtype, primitive(part(leaf, values), None))?;
    let DataType::FixedSizeList(item, len) = leaf.data_type() else { return Ok(elements) };
    Ok(Arc::new(FixedSizeListArray::try_new_with_length(item, len, elements, None, n)?))
}

/// A leaf of values that only the `places` of `n` records have, ascending.
pub(super) fn sparse(leaf: &Leaf, values: &[u8], places: &[usize], n: usize) -> Result<ArrayRef, ArrowError> {
    let (mut there, part) = (vec![false; n], part(leaf, values));
    places.iter().for_each(|place| there[*place] = true);
    let nulls = NullBuffer::from(there.as_slice());
    if !leaf.is_scalar() {
        let lengths = there.iter().map(|there| if *there { leaf.field.len() } else { 0 });
        let elements = by_dtype!(leaf.field.dtype, primitive(part, None))?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        return Ok(Arc::new(ListArray::try_new(item(leaf).into(), offsets, elements, Some(nulls))?));
    }
    let (size, mut all) = (leaf.bytes(), vec![0; n * leaf.bytes()]);
    for (place, value) in places.iter().zip(part.chunks_exact(size)) {
        all[place * size..][..size].copy_from_slice(value);
    }
    by_dtype!(leaf.field.dtype, primitive(Buffer::from(all), Some(nulls)))
}

/// Copies a leaf that an array holds to values of its column; records that are null are left as they are. The error says
/// what is wrong with the array, which has the leaf's type or is a list of its elements.
pub(super) fn copy(leaf: &Leaf, array: &dyn Array, values: &mut [u8]) -> Result<(), String> {
    let len = leaf.field.len();
    match array.data_type() {
        DataType::FixedSizeList(..) => {
            let list = array.as_fixed_size_list();
            let elements = list.values().as_ref();
            elements_of(leaf, elements, array, values, |i| Some((i.checked_mul(len)?, len)))
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let offsets = list.value_offsets();
            elements_of(leaf, list.values().as_ref(), array, values, |i| {
                let begin = usize::try_from(offsets[i]).ok()?;
                Some((begin, usize::try_from(offsets[i + 1]).ok()?.checked_sub(begin)?))
            })
        }
        _ => elements_of(leaf, array, array, values, |i| Some((i, 1))),
    }
}

/// `place` says where a record's elements begin and how many they are.
fn elements_of(
    leaf: &Leaf,
    elements: &dyn Array,
    records: &dyn Array,
    values: &mut [u8],
    place: impl Fn(usize) -> Option<(usize, usize)>,
) -> Result<(), String> {
    let (size, len) = (leaf.field.dtype.size(), leaf.field.len());
    let bytes = by_dtype!(leaf.field.dtype, bytes_of(elements)).ok_or("has elements of another type")?;
    for (i, value) in values.chunks_exact_mut(leaf.stride).enumerate().take(records.len()) {
        if records.is_null(i) {
            continue;
        }
        let (begin, own) = place(i).ok_or("has lists that end before they begin")?;
        if own != len {
            return Err(format!("has a list of {own}; legal: {len}"));
        }
        if elements.null_count() > 0 && (begin..begin + len).any(|element| elements.is_null(element)) {
            return Err("has a null in a list; legal: numbers".into());
        }
        let from = bytes.get(begin * size..(begin + len) * size).ok_or("has lists beyond its elements")?;
        value[leaf.offset..][..len * size].copy_from_slice(from);
    }
    Ok(())
}

fn bytes_of<P: ArrowPrimitiveType>(elements: &dyn Array) -> Option<&[u8]> {
    let elements = elements.as_primitive_opt::<P>()?;
    Some(elements.values().inner().as_slice())
}
