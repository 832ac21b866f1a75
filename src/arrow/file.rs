//! Files are read. They are not trusted.

use std::{
    fmt::Display,
    fs::File,
    io::Read,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use arrow_array::ArrayRef;
use arrow_schema::Schema;

use super::{ipc, parquet_file};
use crate::error::{Error, panic_message};

/// A file of columns.
pub(crate) struct Input {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    Ipc(ipc::IpcFile),
    Parquet(parquet_file::ParquetFile),
}

impl Input {
    /// Opens a file of either format, which its first bytes tell.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let io = |source| Error::Io { path: path.into(), source };
        let failed = |problem: String| Error::Arrow { path: path.into(), problem };
        let mut file = File::open(path).map_err(io)?;
        let len = file.metadata().map_err(io)?.len();
        let mut magic = Vec::new();
        file.by_ref().take(6).read_to_end(&mut magic).map_err(io)?;
        let kind = if magic == ipc::MAGIC {
            Kind::Ipc(ipc::IpcFile::open(file, len).map_err(failed)?)
        } else if magic.starts_with(parquet_file::MAGIC) {
            Kind::Parquet(parquet_file::ParquetFile::open(file, len).map_err(failed)?)
        } else {
            return Err(failed(format!("begins with {magic:?}; legal: Arrow IPC files and Parquet files")));
        };
        Ok(Self { path: path.into(), kind })
    }

    pub(super) fn schema(&self) -> &Schema {
        match &self.kind {
            Kind::Ipc(file) => &file.schema,
            Kind::Parquet(file) => file.schema(),
        }
    }

    /// An error of this file.
    pub(crate) fn failed(&self, problem: String) -> Error {
        Error::Arrow { path: self.path.clone(), problem }
    }

    /// The records from the first on, up to `most` at a time, of the columns at these places of the schema.
    pub(super) fn records(&self, columns: &[usize], most: usize) -> Result<Arrays<'_>, String> {
        Ok(match &self.kind {
            Kind::Ipc(file) => Arrays::Ipc(ipc::Records::new(file, columns, most)),
            Kind::Parquet(file) => Arrays::Parquet(parquet_file::Records::new(file, columns, most)?),
        })
    }
}

/// Records of a file, piece by piece.
pub(super) enum Arrays<'f> {
    Ipc(ipc::Records<'f>),
    Parquet(parquet_file::Records<'f>),
}

impl Arrays<'_> {
    /// An array of each column, all of the same length; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<Vec<ArrayRef>>, String> {
        match self {
            Self::Ipc(records) => records.next(),
            Self::Parquet(records) => records.next(),
        }
    }
}

/// What a reader of the formats gives; also what it panics on is an error.
pub(super) fn read<V, E: Display>(f: impl FnOnce() -> Result<V, E>) -> Result<V, String> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(payload) => Err(panic_message(payload)),
    }
}

/// The same, about a column.
pub(super) fn read_column<V, E: Display>(
    schema: &Schema,
    column: usize,
    f: impl FnOnce() -> Result<V, E>,
) -> Result<V, String> {
    read(f).map_err(|problem| format!("column {:?}: {problem}", schema.field(column).name()))
}
