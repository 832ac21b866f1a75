//! Which columns of a file are read, and what they become.

use arrow_array::{Array, cast::AsArray};
use arrow_schema::{DataType, Field as ArrowField, Schema};

use super::{
    Input,
    leaf::{self, EXTENSION_METADATA, Leaf, leaves},
    schema::{COLUMN, FIELD, LEADS, is_derived, last_leaves},
};
use crate::{
    components::ColumnSpec,
    data::{Dtype, Field},
    error::Error,
};

/// Columns of a file at most.
const MOST: usize = 4_096;

/// The recorded columns that a file has.
pub(crate) struct Plan {
    pub specs: Box<[ColumnSpec]>,
    /// With places in the file's schema.
    pub(super) leaves: Vec<(Leaf, usize)>,
    pub(super) last: Vec<(Leaf, usize)>,
}

impl Plan {
    /// For a file that has these columns, and no others unless `open`. Errors: columns that are missing, unknown, or of
    /// other types or shapes.
    pub(crate) fn new(input: &Input, mut specs: Vec<ColumnSpec>, open: bool) -> Result<Self, Error> {
        let schema = input.schema();
        let columns = schema.fields().len();
        if columns > MOST {
            return Err(input.failed(format!("has {columns} columns; legal: up to {MOST}")));
        }
        let own: Vec<_> = leaves(&specs).into_iter().map(|leaf| leaf.name).collect();
        let is_other = |name: &String| !own.contains(name) && !is_derived(name);
        for (place, field) in schema.fields().iter().enumerate().filter(|(_, field)| is_other(field.name())) {
            if !open {
                let problem = format!("column {:?} is unknown; legal: {}", field.name(), own.join(", "));
                return Err(input.failed(problem));
            }
            other(&mut specs, field, || first_length(input, place)).map_err(|problem| input.failed(problem))?;
        }
        let find = |leaf: Leaf| place(schema, &leaf).map(|place| (leaf, place)).map_err(|p| input.failed(p));
        let last = last_leaves(&specs).into_iter().map(find).collect::<Result<_, _>>()?;
        let leaves = leaves(&specs).into_iter().map(find).collect::<Result<_, _>>()?;
        Ok(Self { specs: specs.into(), leaves, last })
    }

    /// Places of all columns that are read, each once.
    pub(super) fn places(&self) -> Vec<usize> {
        self.leaves.iter().chain(&self.last).map(|(_, place)| *place).collect()
    }
}

/// Where a leaf stands.
fn place(schema: &Schema, leaf: &Leaf) -> Result<usize, String> {
    let name = &leaf.name;
    let mut found = schema.fields().iter().enumerate().filter(|(_, field)| field.name() == name);
    let (Some((place, field)), None) = (found.next(), found.next()) else {
        let names = schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
        return Err(format!("column {name:?} is missing, or there twice; it has {names}"));
    };
    let is = |item: &ArrowField| *item.data_type() == leaf.element();
    let fits = match field.data_type() {
        DataType::FixedSizeList(item, len) => !leaf.is_scalar() && is(item) && *len as usize == leaf.field.len(),
        DataType::List(item) => !leaf.is_scalar() && is(item),
        scalar => leaf.is_scalar() && *scalar == leaf.element(),
    };
    if !fits {
        return Err(format!("column {name:?} is {}; legal: {}", field.data_type(), leaf.data_type()));
    }
    match shape(field) {
        Some(shape) if shape != leaf.field.shape => {
            Err(format!("column {name:?} has shape {shape:?}; legal: {:?}", leaf.field.shape))
        }
        _ => Ok(place),
    }
}

/// The shape that a column says it has.
fn shape(field: &ArrowField) -> Option<Vec<usize>> {
    #[derive(serde::Deserialize)]
    struct Tensor {
        shape: Vec<usize>,
    }
    let tensor: Tensor = serde_json::from_str(field.metadata().get(EXTENSION_METADATA)?).ok()?;
    Some(tensor.shape)
}

/// Elements of the list in the first record of a column; none without a record.
fn first_length(input: &Input, place: usize) -> Result<usize, String> {
    let arrays = input.records(&[place], 1)?.next()?;
    let first = arrays.as_ref().and_then(|arrays| arrays.first()?.as_list_opt::<i32>());
    let length = first.filter(|list| list.len() > 0).map_or(0, |list| list.value(0).len());
    Ok(length)
}

/// Adds a column that only the file knows, or a field of one. How long plain lists are its records tell.
fn other(
    specs: &mut Vec<ColumnSpec>,
    column: &ArrowField,
    first_length: impl FnOnce() -> Result<usize, String>,
) -> Result<(), String> {
    let name = column.name();
    let (element, len) = match column.data_type() {
        DataType::FixedSizeList(item, len) => (item.data_type(), usize::try_from(*len).ok()),
        DataType::List(item) if leaf::dtype(item.data_type()).is_some() => (item.data_type(), Some(first_length()?)),
        scalar => (scalar, None),
    };
    let Some(dtype) = leaf::dtype(element).filter(|_| len != Some(0)) else {
        let legal = [Dtype::F32, Dtype::I32, Dtype::U8, Dtype::U32, Dtype::U64].map(|d| leaf::element(d).to_string());
        let problem = format!("column {name:?} is {}; legal: ", column.data_type());
        return Err(problem + &legal.join(", ") + ", lists of them that are not empty");
    };
    let shape = match (len, shape(column)) {
        (None, _) => Vec::new(),
        (Some(len), Some(shape)) if elements(&shape) == Some(len) => shape,
        (Some(len), None) => vec![len],
        (Some(len), Some(shape)) => return Err(format!("column {name:?} has {len} elements and the shape {shape:?}")),
    };
    let metadata = |key: &str| column.metadata().get(key).cloned();
    let (spec, field) = metadata(COLUMN).zip(metadata(FIELD)).unwrap_or_else(|| (name.clone(), String::new()));
    let field = Field { name: field.into(), dtype, shape };
    let bytes = field.len() * dtype.size();
    let leads = metadata(LEADS).is_some() || spec == "action_mask";
    match specs.iter_mut().rev().find(|known| known.name == spec) {
        Some(known) => {
            known.stride = known.stride.checked_add(bytes).ok_or_else(|| format!("column {name:?} is too wide"))?;
            known.fields.push(field);
        }
        None => specs.push(ColumnSpec { name: spec.into(), fields: vec![field], stride: bytes, leads }),
    }
    Ok(())
}

fn elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |all, n| all.checked_mul(*n))
}
