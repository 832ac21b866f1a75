//! What a safetensors file holds, as far as its header can be trusted.
//!
//! Read here and not by the `safetensors` crate, which takes a name twice, does not say which tensor is wrong, and
//! overflows on sizes near 2⁶⁴. The format: length of the header (8 bytes, little-endian), header (JSON), elements.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
};

use crate::error::Error;

/// Longest header; the `safetensors` crate's own limit.
const MAX_HEADER: usize = 100_000_000;
/// Longest name of a tensor: messages show it.
pub(super) const MAX_NAME: usize = 1_024;

/// Stands among the tensors for what is said of the whole file.
pub(super) const METADATA: &str = "__metadata__";

/// A tensor as it lies in the file; `shape` is a claim.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub dtype: String,
    pub shape: Vec<usize>,
    pub bytes: &'a [u8],
}

/// The tensors of a file. They cover what is behind the header, without gaps and without sharing a byte. Errors:
/// [`Error::Weights`]; [`Error::Tensor`] with the tensor that has no place of its own.
pub(super) fn read(file: &[u8]) -> Result<BTreeMap<String, Entry<'_>>, Error> {
    let (header, data) = split(file).map_err(|problem| Error::Weights(format!("not a safetensors file: {problem}")))?;
    let mut tensors: Vec<_> = header.0.into_iter().collect();
    tensors.sort_by_key(|(_, info)| info.data_offsets);
    let mut entries = BTreeMap::new();
    let mut end = 0;
    for (name, Info { dtype, shape, data_offsets: (from, to) }) in tensors {
        let bytes = if from == end { data.get(from..to) } else { None };
        let Some(bytes) = bytes else {
            let legal = format!("to begin at {end}, where the one before ends, and to end at {} or before", data.len());
            return Err(Error::Tensor { name, problem: format!("data_offsets are [{from}, {to}]; legal: {legal}") });
        };
        end = to;
        entries.insert(name, Entry { dtype, shape, bytes });
    }
    match data.len() - end {
        0 => Ok(entries),
        more => Err(Error::Weights(format!("{more} bytes behind the last tensor; legal: none"))),
    }
}

fn split(file: &[u8]) -> Result<(Header, &[u8]), String> {
    let (length, rest) = file.split_first_chunk().ok_or("cut within the header's length")?;
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER as u64 {
        return Err(format!("the header's length is {length}; legal: at most {MAX_HEADER}"));
    }
    let (header, data) = rest.split_at_checked(length as usize).ok_or_else(|| {
        format!("the header's length is {length}; legal: at most {}, what follows (is the file cut?)", rest.len())
    })?;
    Ok((serde_json::from_slice(header).map_err(|problem| format!("header: {problem}"))?, data))
}

#[derive(Deserialize)]
struct Info {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

struct Header(BTreeMap<String, Info>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Tensors)
    }
}

struct Tensors;

impl<'de> Visitor<'de> for Tensors {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut tensors = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if name.len() > MAX_NAME {
                return Err(A::Error::custom(format!("a name of {} bytes; legal: at most {MAX_NAME}", name.len())));
            }
            if name == METADATA {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let info = map.next_value().map_err(|problem| A::Error::custom(format!("tensor {name}: {problem}")))?;
            if tensors.contains_key(&name) {
                return Err(A::Error::custom(format!("tensor {name} is there twice")));
            }
            tensors.insert(name, info);
        }
        Ok(Header(tensors))
    }
}
