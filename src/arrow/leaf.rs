//! Which Arrow columns a recorded column becomes: one for each of its fields.

use arrow_schema::{DataType, Field as ArrowField};

use crate::{
    components::ColumnSpec,
    data::{Dtype, Field},
};

/// Metadata of Arrow's extension types, and the one for tensors.
pub(super) const EXTENSION: &str = "ARROW:extension:name";
pub(super) const EXTENSION_METADATA: &str = "ARROW:extension:metadata";
pub(super) const TENSOR: &str = "arrow.fixed_shape_tensor";

/// A field of a recorded column, which is a column of the file.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// In the file: the recorded column's, and the field's if it has one.
    pub name: String,
    /// Number of the recorded column.
    pub column: usize,
    pub field: Field,
    /// Where it lies in a value of the recorded column, and the bytes of such a value.
    pub offset: usize,
    pub stride: usize,
}

/// All fields of these columns that have elements.
pub(super) fn leaves(specs: &[ColumnSpec]) -> Vec<Leaf> {
    specs.iter().enumerate().flat_map(|(column, spec)| leaves_of(&spec.name, column, spec)).collect()
}

/// Those of one column, under another name.
pub(super) fn leaves_of(name: &str, column: usize, spec: &ColumnSpec) -> Vec<Leaf> {
    let (mut offset, mut leaves) = (0, Vec::new());
    for field in &spec.fields {
        let name = if field.name.is_empty() { name.into() } else { format!("{name}.{}", field.name) };
        let leaf = Leaf { name, column, field: field.clone(), offset, stride: spec.stride };
        offset += leaf.bytes();
        leaves.extend((!field.is_empty()).then_some(leaf));
    }
    leaves
}

impl Leaf {
    /// Bytes of one value.
    pub(super) fn bytes(&self) -> usize {
        self.field.len() * self.field.dtype.size()
    }

    pub(super) fn is_scalar(&self) -> bool {
        self.field.shape.is_empty()
    }

    /// Type of one element.
    pub(super) fn element(&self) -> DataType {
        element(self.field.dtype)
    }

    /// Type of one value.
    pub(super) fn data_type(&self) -> DataType {
        if self.is_scalar() {
            return self.element();
        }
        DataType::FixedSizeList(ArrowField::new("item", self.element(), true).into(), self.field.len() as i32)
    }

    /// Metadata that tells the shape, for a value that is a fixed-size list.
    pub(super) fn tensor(&self) -> Option<[(String, String); 2]> {
        let shape = serde_json::json!({ "shape": self.field.shape }).to_string();
        let extension = [(EXTENSION.into(), TENSOR.into()), (EXTENSION_METADATA.into(), shape)];
        (!self.is_scalar()).then_some(extension)
    }
}

pub(super) fn element(dtype: Dtype) -> DataType {
    match dtype {
        Dtype::F32 => DataType::Float32,
        Dtype::I32 => DataType::Int32,
        Dtype::U8 => DataType::UInt8,
        Dtype::U32 => DataType::UInt32,
        Dtype::U64 => DataType::UInt64,
    }
}

pub(super) fn dtype(element: &DataType) -> Option<Dtype> {
    let all = [Dtype::F32, Dtype::I32, Dtype::U8, Dtype::U32, Dtype::U64];
    all.into_iter().find(|dtype| self::element(*dtype) == *element)
}
