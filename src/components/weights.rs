//! Named tensors: the weights of a network as they are published, adopted and saved.

use std::collections::BTreeMap;

use crate::{data::finite, error::Error};

/// One tensor, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightTensor {
    /// Shape, in PyTorch's order: `[outputs, inputs]` for a linear layer's weight.
    pub shape: Vec<usize>,
    /// Elements.
    pub data: Vec<f32>,
}

/// A whole set of named tensors. Immutable once published: readers share it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights(pub BTreeMap<String, WeightTensor>);

/// Name and shape of a tensor that a network needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name, as a PyTorch module of the same structure gives it.
    pub name: String,
    /// Shape.
    pub shape: Vec<usize>,
}

impl Weights {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a tensor.
    pub fn insert(&mut self, name: impl Into<String>, shape: impl Into<Vec<usize>>, data: impl Into<Vec<f32>>) {
        self.0.insert(name.into(), WeightTensor { shape: shape.into(), data: data.into() });
    }

    /// The tensor called `name`.
    pub fn get(&self, name: &str) -> Option<&WeightTensor> {
        self.0.get(name)
    }

    /// Checks names, shapes and values against what a network needs. Nothing is tolerated. Errors: [`Error::Tensor`]
    /// for a missing, an additional and a misshapen tensor, and for a number that is not finite.
    pub fn check(&self, specs: &[TensorSpec]) -> Result<(), Error> {
        self.check_shapes(specs)?;
        for (name, tensor) in &self.0 {
            tensor.data.chunks(CHUNK).enumerate().try_for_each(|(i, chunk)| check_finite(name, i * CHUNK, chunk))?;
        }
        Ok(())
    }

    /// Makes this set a copy of `from`, in the memory that it has. Errors: those of [`check`](Self::check) on `from`; what
    /// is in this set is then unspecified.
    pub(crate) fn copy_checked(&mut self, from: &Self, specs: &[TensorSpec]) -> Result<(), Error> {
        from.check_shapes(specs)?;
        self.0.retain(|name, _| from.0.contains_key(name));
        for (name, WeightTensor { shape, data }) in &from.0 {
            if !self.0.contains_key(name) {
                self.insert(name, [], []);
            }
            let Some(to) = self.0.get_mut(name) else { continue };
            to.shape.clone_from(shape);
            to.data.clear();
            to.data.reserve_exact(data.len());
            // Each piece is still in the first cache when it is copied.
            for (i, chunk) in data.chunks(CHUNK).enumerate() {
                check_finite(name, i * CHUNK, chunk)?;
                to.data.extend_from_slice(chunk);
            }
        }
        Ok(())
    }

    fn check_shapes(&self, specs: &[TensorSpec]) -> Result<(), Error> {
        let error = |name: &str, problem| Error::Tensor { name: name.into(), problem };
        for spec in specs {
            let tensor = self.get(&spec.name).ok_or_else(|| {
                let have = name_list(self.0.keys().map(String::as_str));
                error(&spec.name, format!("missing; the set has {have}"))
            })?;
            if tensor.shape != spec.shape {
                return Err(error(&spec.name, format!("shape is {:?}; legal: {:?}", tensor.shape, spec.shape)));
            }
            if tensor.data.len() != spec.shape.iter().product::<usize>() {
                return Err(error(&spec.name, format!("{} elements for shape {:?}", tensor.data.len(), spec.shape)));
            }
        }
        match self.0.keys().find(|name| !specs.iter().any(|spec| spec.name == **name)) {
            Some(name) => {
                let legal = name_list(specs.iter().map(|spec| spec.name.as_str()));
                Err(error(name, format!("the network has no such tensor; legal: {legal}")))
            }
            None => Ok(()),
        }
    }
}

/// Elements that are looked at together, without a branch for each.
const CHUNK: usize = 2048;

/// Checks a piece of a tensor that begins at element `first`.
fn check_finite(name: &str, first: usize, piece: &[f32]) -> Result<(), Error> {
    if piece.iter().fold(true, |all, x| all & finite(*x)) {
        return Ok(());
    }
    let i = piece.iter().position(|x| !finite(*x)).unwrap_or_default();
    Err(Error::Tensor { name: name.into(), problem: format!("element {} is {}; legal: finite", first + i, piece[i]) })
}

/// Names for a message: a file may have any number of them.
pub(crate) fn name_list<'a>(mut names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 24;
    let mut list = names.by_ref().take(SHOWN).collect::<Vec<_>>().join(", ");
    match names.count() {
        0 => list,
        more => {
            list.push_str(&format!(" and {more} more"));
            list
        }
    }
}
