//! Weights on disk: safetensors, `f32`.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::{
    components::{WeightTensor, Weights},
    data::finite,
    error::Error,
};

/// Largest file that [`Weights::load`] reads: 4 GiB.
pub const MAX_FILE: u64 = 1 << 32;

impl Weights {
    /// Reads a safetensors file of at most [`MAX_FILE`] bytes. Errors: [`Error::Io`]; [`Error::Weights`] with the file
    /// for one that is cut, too large or malformed; [`Error::Tensor`] for another type than `f32` and for numbers that
    /// are not finite.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let io = |source| Error::Io { path: path.into(), source };
        let file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(Error::Weights(format!("{}: no file; legal: a safetensors file", path.display())));
        }
        let length = metadata.len();
        let mut bytes = Vec::new();
        if length <= MAX_FILE {
            // Read to the end rather than into `length` bytes: the file may grow meanwhile, or lie about its length.
            file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(io)?;
        }
        if length.max(bytes.len() as u64) > MAX_FILE {
            return Err(Error::Weights(format!("{}: larger than {MAX_FILE} bytes", path.display())));
        }
        Self::from_safetensors(&bytes).map_err(|error| match error {
            Error::Weights(problem) => Error::Weights(format!("{}: {problem}", path.display())),
            Error::Tensor { name, problem } => Error::Tensor { name: format!("{name} of {}", path.display()), problem },
            other => other,
        })
    }

    /// Reads the bytes of a safetensors file. Errors: [`Error::Weights`] and [`Error::Tensor`], as [`load`](Self::load).
    pub fn from_safetensors(bytes: &[u8]) -> Result<Self, Error> {
        let file = SafeTensors::deserialize(bytes)
            .map_err(|problem| Error::Weights(format!("not a safetensors file: {problem}")))?;
        let mut weights = Self::new();
        for (name, view) in file.iter() {
            let tensor = read_tensor(&view).map_err(|problem| Error::Tensor { name: name.into(), problem })?;
            weights.0.insert(name.into(), tensor);
        }
        Ok(weights)
    }

    /// Writes a safetensors file: beside the old one, flushed to disk, then put in its place, so that a reader finds
    /// either the old or the new one whole. Errors: [`Error::Io`]; [`Error::Tensor`] for what [`load`](Self::load)
    /// would refuse.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let bytes = self.to_safetensors()?;
        let temporary = temporary_beside(path);
        let written = write_new(&temporary, &bytes).and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            // What is left of a failed attempt; the error that matters is the first.
            let _ = fs::remove_file(&temporary);
        }
        written.and_then(|()| sync_folder(path)).map_err(|source| Error::Io { path: path.into(), source })
    }

    /// The bytes of a safetensors file. Errors: [`Error::Tensor`].
    pub fn to_safetensors(&self) -> Result<Vec<u8>, Error> {
        let mut encoded = Vec::with_capacity(self.0.len());
        for (name, tensor) in &self.0 {
            let bytes = encode(tensor).map_err(|problem| Error::Tensor { name: name.clone(), problem })?;
            encoded.push((name, tensor, bytes));
        }
        let mut views = Vec::with_capacity(encoded.len());
        for (name, tensor, bytes) in &encoded {
            let view = TensorView::new(Dtype::F32, tensor.shape.clone(), bytes)
                .map_err(|problem| Error::Tensor { name: (*name).clone(), problem: problem.to_string() })?;
            views.push((name.as_str(), view));
        }
        safetensors::serialize(views, None).map_err(|problem| Error::Weights(problem.to_string()))
    }
}

fn read_tensor(view: &TensorView<'_>) -> Result<WeightTensor, String> {
    if view.dtype() != Dtype::F32 {
        return Err(format!("dtype is {:?}; legal: F32", view.dtype()));
    }
    let data: Vec<f32> = view.data().chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect();
    let tensor = WeightTensor { shape: view.shape().to_vec(), data };
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

fn encode(tensor: &WeightTensor) -> Result<Vec<u8>, String> {
    check(tensor)?;
    Ok(tensor.data.iter().flat_map(|x| x.to_le_bytes()).collect())
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
