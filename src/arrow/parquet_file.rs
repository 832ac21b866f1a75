//! Parquet files.

use std::fs::File;

use arrow_array::{Array, ArrayRef};
use arrow_schema::Schema;
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{
            ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
        },
    },
    basic::Compression,
    file::metadata::ColumnChunkMetaData,
};

use super::{
    file::{read, read_column},
    pages,
};

pub(super) const MAGIC: &[u8] = b"PAR1";

pub(super) struct ParquetFile {
    file: File,
    metadata: ArrowReaderMetadata,
}

impl ParquetFile {
    pub(super) fn open(file: File, len: u64) -> Result<Self, String> {
        let metadata = read(|| ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()))?;
        for column in metadata.metadata().row_groups().iter().flat_map(|group| group.columns()) {
            check_pages(&file, column, len).map_err(|problem| format!("column {}: {problem}", column.column_path()))?;
        }
        Ok(Self { file, metadata })
    }

    pub(super) fn schema(&self) -> &Schema {
        self.metadata.schema()
    }
}

/// A file of `len` bytes has the pages of a column, and they grow to what they can.
fn check_pages(file: &File, column: &ColumnChunkMetaData, len: u64) -> Result<(), String> {
    let begin = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let end = begin.checked_add(column.compressed_size());
    let places = [Some(begin), Some(column.data_page_offset()), Some(column.compressed_size()), end];
    let [Some(begin), .., Some(end)] = places.map(|place| u64::try_from(place?).ok().filter(|place| *place <= len))
    else {
        return Err(format!("its pages are at {begin}, {} bytes, of {len}", column.compressed_size()));
    };
    match column.compression() {
        Compression::UNCOMPRESSED => Ok(()),
        Compression::SNAPPY => pages::check(file, begin, end),
        other => Err(format!("is compressed with {other}; legal: SNAPPY, UNCOMPRESSED")),
    }
}

/// Records of some columns, each by a reader of its own, so that an error names it.
pub(super) struct Records<'f> {
    file: &'f ParquetFile,
    columns: Vec<(usize, ParquetRecordBatchReader)>,
}

impl<'f> Records<'f> {
    pub(super) fn new(file: &'f ParquetFile, columns: &[usize], most: usize) -> Result<Self, String> {
        let open = |column: &usize| {
            let reader = read_column(file.schema(), *column, || {
                let opened = file.file.try_clone()?;
                let mask = ProjectionMask::roots(file.metadata.parquet_schema(), [*column]);
                let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(opened, file.metadata.clone());
                reader.with_projection(mask).with_batch_size(most).build()
            })?;
            Ok((*column, reader))
        };
        Ok(Self { file, columns: columns.iter().map(open).collect::<Result<_, String>>()? })
    }

    pub(super) fn next(&mut self) -> Result<Option<Vec<ArrayRef>>, String> {
        let (mut arrays, schema) = (Vec::with_capacity(self.columns.len()), self.file.schema());
        let mut ended = None;
        for (column, reader) in &mut self.columns {
            let batch = read_column(schema, *column, || reader.next().transpose())?;
            ended = ended.or(batch.is_none().then_some(*column));
            arrays.extend(batch.and_then(|batch| batch.columns().first().cloned()));
        }
        let len = arrays.first().map_or(0, |array| array.len());
        match ended {
            Some(_) if arrays.is_empty() => Ok(None),
            None if arrays.len() == self.columns.len() && arrays.iter().all(|array| array.len() == len) => {
                Ok(Some(arrays))
            }
            Some(column) => Err(format!("column {:?} has fewer records than others", schema.field(column).name())),
            None => Err("has columns of several lengths".into()),
        }
    }
}
