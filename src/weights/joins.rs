//! Tensors that are one in the network and several in a file, and biases that a file does not have.

use super::names::NameMap;
use crate::{
    components::{WeightTensor, Weights, name_list},
    error::Error,
};

impl NameMap {
    /// Whether tensors are the same on both sides, but for their names.
    pub(super) fn only_renames(&self) -> bool {
        self.join.is_empty() && self.no_bias.is_empty()
    }

    /// What the network needs of what a file has. Errors: [`Error::Tensor`] for parts that do not go together and for a
    /// tensor that would be there twice; [`Error::Weights`] for an entry that no tensor has.
    pub(super) fn join(&self, mut weights: Weights) -> Result<Weights, Error> {
        for (whole, parts) in &self.join {
            if let Some(name) = weights.0.keys().find(|name| inner_name(name, whole).is_some()) {
                return Err(error(name, format!("is there, and the name map joins {} to {whole}", parts.join(", "))));
            }
            for inner in inner_names(&weights, &parts[0])? {
                let joined = join(&mut weights, parts, &inner)?;
                insert(&mut weights, format!("{whole}{inner}"), joined)?;
            }
        }
        for module in &self.no_bias {
            for inner in inner_names(&weights, module)? {
                let name = format!("{module}{inner}");
                if name.ends_with(".bias") {
                    return Err(error(&name, format!("is there; legal: none in {module}, as the name map says")));
                }
                let Some(layer) = name.strip_suffix(".weight") else { continue };
                let WeightTensor { shape, data } = &weights.0[&name];
                let outputs = shape.first().copied().unwrap_or_default();
                if outputs > data.len() {
                    return Err(error(&name, format!("shape is {shape:?}; legal: one with elements")));
                }
                insert(&mut weights, format!("{layer}.bias"), tensor(vec![outputs], vec![0.0; outputs]))?;
            }
        }
        Ok(weights)
    }

    /// The way back. Errors: [`Error::Tensor`] for what cannot be split, for a bias that is not 0 and for a tensor that
    /// would be there twice; [`Error::Weights`] for an entry that no tensor has.
    pub(super) fn split(&self, mut weights: Weights) -> Result<Weights, Error> {
        for module in &self.no_bias {
            for inner in inner_names(&weights, module)?.iter().filter(|inner| inner.ends_with(".bias")) {
                let name = format!("{module}{inner}");
                let bias = weights.0.remove(&name).unwrap_or_else(|| tensor(vec![], vec![]));
                if let Some(i) = bias.data.iter().position(|x| *x != 0.0) {
                    let problem = format!("element {i} is {}; legal: 0, as the file has no such tensor", bias.data[i]);
                    return Err(error(&name, problem));
                }
            }
        }
        for (whole, parts) in &self.join {
            for inner in inner_names(&weights, whole)? {
                split(&mut weights, &format!("{whole}{inner}"), parts, &inner)?;
            }
        }
        Ok(weights)
    }

    /// Errors: [`Error::Weights`] for joins of fewer than two parts, and for a name that is there twice.
    pub(super) fn check_joins(&self) -> Result<(), Error> {
        let error = |problem| Err(Error::Weights(format!("name map: {problem}")));
        let mut names: Vec<&String> = Vec::new();
        for (whole, parts) in &self.join {
            if parts.len() < 2 {
                return error(format!("{whole} is joined of {} parts; legal: at least 2", parts.len()));
            }
            names.push(whole);
            names.extend(parts);
        }
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => error(format!("{} is joined twice; legal: once", pair[0])),
            None => Ok(()),
        }
    }
}

fn error(name: &str, problem: String) -> Error {
    Error::Tensor { name: name.into(), problem }
}

fn tensor(shape: Vec<usize>, data: Vec<f32>) -> WeightTensor {
    WeightTensor { shape, data }
}

/// What is behind `module` in the name of a tensor that is in it: nothing if it is the tensor itself, else a dot and the
/// rest.
fn inner_name<'n>(name: &'n str, module: &str) -> Option<&'n str> {
    name.strip_prefix(module).filter(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// That of all tensors in it.
fn inner_names(weights: &Weights, module: &str) -> Result<Vec<String>, Error> {
    let found: Vec<_> = weights.0.keys().filter_map(|name| inner_name(name, module).map(String::from)).collect();
    if found.is_empty() {
        let have = name_list(weights.0.keys().map(String::as_str));
        return Err(Error::Weights(format!("name map: no tensor is {module} or is in it; there are: {have}")));
    }
    Ok(found)
}

fn insert(weights: &mut Weights, name: String, tensor: WeightTensor) -> Result<(), Error> {
    match weights.0.insert(name.clone(), tensor) {
        Some(_) => Err(error(&name, "is there, and the name map makes another of this name".into())),
        None => Ok(()),
    }
}

/// Takes the tensors `inner` of all parts out, one behind the other along their first axis.
fn join(weights: &mut Weights, parts: &[String], inner: &str) -> Result<WeightTensor, Error> {
    let mut joined: Option<WeightTensor> = None;
    for part in parts {
        let name = format!("{part}{inner}");
        let Some(own) = weights.0.remove(&name) else {
            return Err(error(&name, format!("missing, while there is {}{inner}, which it is joined with", parts[0])));
        };
        let Some(whole) = &mut joined else {
            joined = Some(own);
            continue;
        };
        if own.shape != whole.shape {
            let legal = format!("{:?}, as of {}{inner}, which it is joined with", whole.shape, parts[0]);
            return Err(error(&name, format!("shape is {:?}; legal: {legal}", own.shape)));
        }
        whole.data.extend(own.data);
    }
    let mut whole = joined.unwrap_or_else(|| tensor(vec![], vec![]));
    match whole.shape.first_mut() {
        Some(outputs) => *outputs = outputs.saturating_mul(parts.len()),
        None => return Err(error(&format!("{}{inner}", parts[0]), "shape is []; legal: at least one axis".into())),
    }
    Ok(whole)
}

/// Puts equal parts of the tensor `name` in its place.
fn split(weights: &mut Weights, name: &str, parts: &[String], inner: &str) -> Result<(), Error> {
    let WeightTensor { mut shape, mut data } = weights.0.remove(name).unwrap_or_else(|| tensor(vec![], vec![]));
    let n = parts.len();
    match shape.first_mut() {
        Some(outputs) if outputs.is_multiple_of(n) && data.len().is_multiple_of(n) => *outputs /= n,
        _ => {
            let legal = format!("a first axis that {n} parts divide: {}", parts.join(", "));
            return Err(error(name, format!("shape is {shape:?}; legal: {legal}")));
        }
    }
    let len = data.len() / n;
    for part in parts {
        let rest = data.split_off(len.min(data.len()));
        insert(weights, format!("{part}{inner}"), tensor(shape.clone(), std::mem::replace(&mut data, rest)))?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "joins_tests.rs"]
mod tests;
