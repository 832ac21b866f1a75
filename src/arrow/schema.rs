//! The columns of a file that is written.

use std::collections::HashMap;

use arrow_schema::{DataType, Field, Schema};

use super::leaf::{Leaf, leaves, leaves_of};
use crate::components::{ColumnSpec, column};

pub(super) const LAST_OBSERVATION: &str = "last_observation";
/// Columns that follow from the recorded ones or belong to episodes; type and whether there are nulls.
pub(super) const DERIVED: [(&str, DataType, bool); 8] = [
    ("terminated", DataType::Boolean, false),
    ("truncated", DataType::Boolean, false),
    ("episode_complete", DataType::Boolean, true),
    ("episode_end", DataType::Utf8, true),
    ("episode_row", DataType::UInt32, true),
    ("episode_return", DataType::Float64, true),
    ("episode_length", DataType::UInt32, true),
    ("episode_first_version", DataType::UInt64, true),
];

// Metadata of columns: what a recorded column is called whose field it is, the field, and whether it leads.
pub(super) const COLUMN: &str = "gleaner.column";
pub(super) const FIELD: &str = "gleaner.field";
pub(super) const LEADS: &str = "gleaner.leads";

/// The columns of a file, in its order: recorded ones, derived ones, the last observation's.
pub(super) struct Columns {
    pub schema: Schema,
    pub leaves: Vec<Leaf>,
    pub last: Vec<Leaf>,
}

/// The fields of what follows a trajectory's last frame.
pub(super) fn last_leaves(specs: &[ColumnSpec]) -> Vec<Leaf> {
    leaves_of(LAST_OBSERVATION, column::OBSERVATION, &specs[column::OBSERVATION])
}

/// Whether a column is no recorded one.
pub(super) fn is_derived(name: &str) -> bool {
    let last = name.strip_prefix(LAST_OBSERVATION).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    last || DERIVED.iter().any(|(derived, ..)| *derived == name)
}

impl Columns {
    /// The error says which column cannot be one of a file.
    pub(super) fn new(specs: &[ColumnSpec]) -> Result<Self, String> {
        let (leaves, last) = (leaves(specs), last_leaves(specs));
        for (i, leaf) in leaves.iter().enumerate() {
            let name = &leaf.name;
            if leaves[..i].iter().any(|other| other.name == *name) {
                return Err(format!("column {name:?} would be there twice; legal: other names"));
            }
            if is_derived(name) {
                return Err(format!("column {name:?} has the name of one that every file has; legal: another name"));
            }
            if i32::try_from(leaf.field.len()).is_err() {
                return Err(format!("column {name:?} has {} elements; legal: up to 2^31 - 1", leaf.field.len()));
            }
        }
        let derived = DERIVED.map(|(name, kind, nulls)| Field::new(name, kind, nulls));
        let fields = leaves.iter().map(|leaf| recorded(leaf, &specs[leaf.column])).chain(derived);
        let fields: Vec<_> = fields.chain(last.iter().map(last_field)).collect();
        let metadata = HashMap::from([("gleaner".to_string(), "1".to_string())]);
        Ok(Self { schema: Schema::new_with_metadata(fields, metadata), leaves, last })
    }
}

fn recorded(leaf: &Leaf, spec: &ColumnSpec) -> Field {
    let mut metadata: HashMap<_, _> = leaf.tensor().into_iter().flatten().collect();
    if !leaf.field.name.is_empty() {
        metadata.insert(COLUMN.into(), spec.name.to_string());
        metadata.insert(FIELD.into(), leaf.field.name.to_string());
    }
    if spec.leads {
        metadata.insert(LEADS.into(), "true".into());
    }
    Field::new(&leaf.name, leaf.data_type(), false).with_metadata(metadata)
}

/// A list of any size: one of fixed size would take room in every record.
fn last_field(leaf: &Leaf) -> Field {
    let list = || DataType::List(item(leaf).into());
    Field::new(&leaf.name, if leaf.is_scalar() { leaf.element() } else { list() }, true)
}

pub(super) fn item(leaf: &Leaf) -> Field {
    Field::new("item", leaf.element(), true)
}
