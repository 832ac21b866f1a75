//! Files are written.

use std::{
    io::{BufWriter, Write},
    path::Path,
    sync::Arc,
};

use arrow_ipc::writer::FileWriter;
use arrow_schema::SchemaRef;
use parquet::{
    arrow::ArrowWriter,
    file::properties::{EnabledStatistics, WriterProperties},
    schema::types::ColumnPath,
};

use super::{Format, chunk_frames, records::Records, schema::Columns};
use crate::{
    checkpoint,
    components::{ColumnSpec, RowIndex, Trajectory},
    data::Dtype,
    error::Error,
};

/// Bytes of frames of a Parquet row group, which are held until it is written; a frame at least.
const ROW_GROUP: usize = 32 << 20;

/// Where a file's bytes go.
type Sink<'w> = &'w mut (dyn Write + Send);

enum Kind<'w> {
    Ipc(FileWriter<BufWriter<Sink<'w>>>),
    Parquet(ArrowWriter<Sink<'w>>),
}

/// A file that is being written.
pub(crate) struct Writer<'w> {
    path: &'w Path,
    specs: &'w [ColumnSpec],
    columns: Columns,
    schema: SchemaRef,
    kind: Kind<'w>,
    records: Records,
    written: u64,
}

/// Writes a file of frames of these columns, which `fill` gives; returns how many. The old file stays until the new one
/// is whole and on the disk.
pub(crate) fn write(
    path: &Path,
    format: Format,
    specs: &[ColumnSpec],
    fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Error>,
) -> Result<u64, Error> {
    let mut written = 0;
    checkpoint::replace(path, |to| {
        let mut writer = Writer::new(path, format, specs, to)?;
        fill(&mut writer)?;
        written = writer.finish()?;
        Ok(())
    })?;
    Ok(written)
}

impl<'w> Writer<'w> {
    fn new(path: &'w Path, format: Format, specs: &'w [ColumnSpec], to: Sink<'w>) -> Result<Self, Error> {
        let failed = |problem: String| Error::Arrow { path: path.into(), problem };
        let columns = Columns::new(specs).map_err(failed)?;
        let schema = Arc::new(columns.schema.clone());
        let kind = match format {
            Format::Ipc => {
                FileWriter::try_new_buffered(to, &schema).map(Kind::Ipc).map_err(|e| failed(e.to_string()))?
            }
            Format::Parquet => {
                let properties = properties(&columns, specs);
                let writer = ArrowWriter::try_new(to, schema.clone(), Some(properties));
                Kind::Parquet(writer.map_err(|e| failed(e.to_string()))?)
            }
        };
        Ok(Self { path, specs, columns, schema, kind, records: Records::new(specs.len()), written: 0 })
    }

    /// How many frames [`push`](Self::push) takes at once, at least one.
    pub(crate) fn room(&mut self) -> Result<usize, Error> {
        let most = chunk_frames(self.specs);
        if self.records.len() == most {
            self.flush()?;
        }
        Ok(most - self.records.len())
    }

    /// The next `n` frames of a trajectory: `fill` writes the values of each column. At most as many as there is room for.
    pub(crate) fn push(&mut self, n: usize, fill: impl FnMut(usize, &mut [u8])) {
        self.records.push(self.specs, n, fill);
    }

    /// The trajectory has no more frames. `known` is the episode if it ended.
    pub(crate) fn end(&mut self, row: Option<RowIndex>, known: Option<&Trajectory>, last_observation: &[u8]) {
        self.records.end(row, known, last_observation);
    }

    fn flush(&mut self) -> Result<(), Error> {
        let failed = |problem: String| Error::Arrow { path: self.path.into(), problem };
        let batch = self.records.batch(&self.columns, &self.schema).map_err(|e| failed(e.to_string()))?;
        match &mut self.kind {
            Kind::Ipc(writer) => writer.write(&batch).map_err(|e| failed(e.to_string()))?,
            Kind::Parquet(writer) => writer.write(&batch).map_err(|e| failed(e.to_string()))?,
        }
        self.written += self.records.len() as u64;
        self.records.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<u64, Error> {
        if self.records.len() > 0 {
            self.flush()?;
        }
        let failed = |problem: String| Error::Arrow { path: self.path.into(), problem };
        match self.kind {
            Kind::Ipc(mut writer) => {
                writer.finish().map_err(|e| failed(e.to_string()))?;
                writer.get_mut().flush().map_err(|source| Error::Io { path: self.path.into(), source })?;
            }
            Kind::Parquet(writer) => drop(writer.close().map_err(|e| failed(e.to_string()))?),
        }
        Ok(self.written)
    }
}

fn properties(columns: &Columns, specs: &[ColumnSpec]) -> WriterProperties {
    let width: usize = specs.iter().map(|spec| spec.stride).sum();
    let mut properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some((ROW_GROUP / width.max(1)).clamp(1, 1 << 20)))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(concat!("gleaner ", env!("CARGO_PKG_VERSION")).into());
    // Dictionaries of floats help little, and take -0 for 0.
    for leaf in columns.leaves.iter().chain(&columns.last).filter(|leaf| leaf.field.dtype == Dtype::F32) {
        let parts = if leaf.is_scalar() { vec![leaf.name.clone()] } else { list_path(&leaf.name) };
        properties = properties.set_column_dictionary_enabled(ColumnPath::new(parts), false);
    }
    properties.build()
}

fn list_path(name: &str) -> Vec<String> {
    [name, "list", "item"].map(String::from).into()
}
