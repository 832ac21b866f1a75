//! Weights on disk: safetensors.

use std::{
    borrow::Cow,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use safetensors::{Dtype, tensor::TensorView};

use super::{
    elements::to_f32,
    header::{self, Entry, MAX_NAME, METADATA},
    names::{NameMap, Way},
    watch::WeightsFile,
};
use crate::{
    components::{WeightTensor, Weights},
    data::finite,
    error::Error,
};

/// Largest file that [`Weights::load`] reads: 4 GiB.
pub const MAX_FILE: u64 = 1 << 32;

impl Weights {
    /// Reads a safetensors file of at most [`MAX_FILE`] bytes; tensors of `F16`, `BF16` and `F64` become `f32`. For one
    /// with other names than the network's see [`WeightsFile`].
    ///
    /// Errors: [`Error::Io`]; [`Error::Weights`] with the file for one that is cut, too large or malformed;
    /// [`Error::Tensor`] for other types and for numbers that are not finite.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        WeightsFile::new(path.as_ref()).load()
    }

    /// Reads the bytes of a safetensors file. Errors: [`Error::Weights`] and [`Error::Tensor`], as [`load`](Self::load).
    pub fn from_safetensors(bytes: &[u8]) -> Result<Self, Error> {
        decode(bytes, &NameMap::default())
    }

    /// Writes a safetensors file: beside the old one, flushed to disk, then put in its place, so that a reader finds
    /// either the old or the new one whole. Errors: [`Error::Io`]; [`Error::Tensor`] for what [`load`](Self::load)
    /// would refuse.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        save(path.as_ref(), self, &NameMap::default())
    }

    /// The bytes of a safetensors file. Errors: [`Error::Tensor`].
    pub fn to_safetensors(&self) -> Result<Vec<u8>, Error> {
        encode(self, &NameMap::default())
    }
}

/// Reads an open file, under the network's names.
pub(super) fn read(path: &Path, file: &File, names: &NameMap) -> Result<Weights, Error> {
    let io = |source| Error::Io { path: path.into(), source };
    let length = file.metadata().map_err(io)?.len();
    let mut bytes = Vec::new();
    if length <= MAX_FILE {
        // Read to the end rather than into `length` bytes: the file may grow meanwhile, or lie about its length.
        file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(io)?;
    }
    if length.max(bytes.len() as u64) > MAX_FILE {
        return Err(Error::Weights(format!("{}: larger than {MAX_FILE} bytes", path.display())));
    }
    decode(&bytes, names).map_err(|error| in_file(path, error))
}

/// Writes a file, under its own names.
pub(super) fn save(path: &Path, weights: &Weights, names: &NameMap) -> Result<(), Error> {
    let bytes = encode(weights, names)?;
    let temporary = temporary_beside(path);
    let written = write_new(&temporary, &bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // What is left of a failed attempt; the error that matters is the first.
        let _ = fs::remove_file(&temporary);
    }
    written.and_then(|()| sync_folder(path)).map_err(|source| Error::Io { path: path.into(), source })
}

/// The error, with the file it is about.
pub(super) fn in_file(path: &Path, error: Error) -> Error {
    match error {
        Error::Weights(problem) => Error::Weights(format!("{}: {problem}", path.display())),
        Error::Tensor { name, problem } => Error::Tensor { name: format!("{name} of {}", path.display()), problem },
        other => other,
    }
}

fn decode(bytes: &[u8], names: &NameMap) -> Result<Weights, Error> {
    let entries = header::read(bytes)?;
    let mut weights = Weights::new();
    for (name, in_file) in names.rename(Way::ToNetwork, entries.keys())? {
        let tensor = tensor(&entries[in_file]).map_err(|problem| Error::Tensor { name: in_file.into(), problem })?;
        weights.0.insert(name, tensor);
    }
    names.join(weights)
}

fn encode(weights: &Weights, names: &NameMap) -> Result<Vec<u8>, Error> {
    let weights = if names.only_renames() { Cow::Borrowed(weights) } else { Cow::Owned(names.split(weights.clone())?) };
    let error = |name: &str, problem| Error::Tensor { name: name.into(), problem };
    let mut encoded = Vec::with_capacity(weights.0.len());
    for (in_file, name) in names.rename(Way::ToFile, weights.0.keys())? {
        if in_file == METADATA || in_file.len() > MAX_NAME {
            return Err(error(name, format!("its name in the file; legal: at most {MAX_NAME} bytes, not {METADATA}")));
        }
        let tensor = &weights.0[name];
        check(tensor).map_err(|problem| error(name, problem))?;
        let bytes: Vec<u8> = tensor.data.iter().flat_map(|x| x.to_le_bytes()).collect();
        encoded.push((in_file, tensor, bytes));
    }
    let mut views = Vec::with_capacity(encoded.len());
    for (name, tensor, bytes) in &encoded {
        let view = TensorView::new(Dtype::F32, tensor.shape.clone(), bytes)
            .map_err(|problem| error(name, problem.to_string()))?;
        views.push((name.as_str(), view));
    }
    safetensors::serialize(views, None).map_err(|problem| Error::Weights(problem.to_string()))
}

fn tensor(entry: &Entry<'_>) -> Result<WeightTensor, String> {
    let tensor = WeightTensor { shape: entry.shape.clone(), data: to_f32(&entry.dtype, entry.bytes)? };
    check(&tensor)?;
    Ok(tensor)
}

fn check(tensor: &WeightTensor) -> Result<(), String> {
    let elements = tensor.shape.iter().try_fold(1_usize, |product, side| product.checked_mul(*side));
    if elements != Some(tensor.data.len()) {
        return Err(format!("{} elements for shape {:?}", tensor.data.len(), tensor.shape));
    }
    match tensor.data.iter().position(|x| !finite(*x)) {
        Some(i) => Err(format!("element {i} is {}; legal: finite", tensor.data[i])),
        None => Ok(()),
    }
}

/// A name that no other save of this or another process uses.
fn temporary_beside(path: &Path) -> PathBuf {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.{serial}.tmp", std::process::id()));
    path.with_file_name(name)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the rename itself last; only Unix opens folders.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
