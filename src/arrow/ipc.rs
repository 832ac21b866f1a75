//! Arrow IPC files. Every place and length that a file names is looked at before it is used: the bytes of its batches are
//! taken as far as the file has them.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    sync::Arc,
};

use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_ipc::{
    Block, MetadataVersion, convert::try_fb_to_schema, reader::FileDecoder, root_as_footer, root_as_message,
};
use arrow_schema::SchemaRef;

use super::file::{read, read_column};

pub(super) const MAGIC: &[u8] = b"ARROW1";
/// Bytes behind the footer: its length and the magic.
const TAIL: u64 = 10;

pub(super) struct IpcFile {
    file: File,
    pub schema: SchemaRef,
    version: MetadataVersion,
    /// Record batches: all of them lie in the file.
    blocks: Vec<Block>,
}

impl IpcFile {
    pub(super) fn open(mut file: File, len: u64) -> Result<Self, String> {
        let cut = || "is cut: it does not end as an Arrow IPC file does".to_string();
        let tail = bytes(&mut file, len.checked_sub(TAIL).ok_or_else(cut)?, TAIL)?;
        let (length, magic) = tail.split_first_chunk::<4>().ok_or_else(cut)?;
        let begin = u64::try_from(i32::from_le_bytes(*length)).ok().and_then(|length| (len - TAIL).checked_sub(length));
        let (true, Some(begin)) = (magic == MAGIC, begin) else { return Err(cut()) };
        let footer = bytes(&mut file, begin, len - TAIL - begin)?;
        read(|| {
            let footer = root_as_footer(&footer).map_err(|error| format!("footer: {error}"))?;
            let schema = footer.schema().ok_or("footer: it has no schema")?;
            if !schema.endianness().equals_to_target_endianness() {
                return Err("has numbers of another byte order".to_string());
            }
            let blocks: Vec<Block> = footer.recordBatches().into_iter().flatten().copied().collect();
            if let Some(block) = blocks.iter().find(|block| place(block, len).is_none()) {
                return Err(format!("footer: there is no batch at {block:?} in {len} bytes"));
            }
            let schema = Arc::new(try_fb_to_schema(schema).map_err(|error| format!("schema: {error}"))?);
            Ok(Self { file, schema, version: footer.version(), blocks })
        })
    }

    /// A batch's message and the bytes that it is about.
    fn block(&self, block: &Block) -> Result<Buffer, String> {
        let (at, len) = place(block, u64::MAX).ok_or("a batch that is nowhere")?;
        let bytes = bytes(&mut &self.file, at, len)?;
        check(&bytes, block)?;
        Ok(Buffer::from(bytes))
    }
}

/// Where a batch lies, if a file of `len` bytes has it.
fn place(block: &Block, len: u64) -> Option<(u64, u64)> {
    let at = u64::try_from(block.offset()).ok()?;
    let metadata = u64::try_from(block.metaDataLength()).ok().filter(|metadata| *metadata >= 8)?;
    let all = u64::try_from(block.bodyLength()).ok()?.checked_add(metadata)?;
    at.checked_add(all).filter(|end| *end <= len).map(|_| (at, all))
}

fn bytes(mut file: impl Read + Seek, at: u64, len: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.take(len).read_to_end(&mut bytes));
    match read {
        Ok(read) if read as u64 == len => Ok(bytes),
        Ok(_) => Err("is cut: it has become shorter".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// All buffers of a batch lie in its bytes.
fn check(bytes: &[u8], block: &Block) -> Result<(), String> {
    read(|| {
        let (metadata, body) = bytes.split_at(block.metaDataLength() as usize);
        // The length comes first, in newer files behind a mark.
        let message = if metadata.starts_with(&[0xff; 4]) { &metadata[8..] } else { &metadata[4..] };
        let message = root_as_message(message).map_err(|error| format!("a batch's message: {error}"))?;
        let Some(batch) = message.header_as_record_batch() else { return Err("a batch that is none".into()) };
        let inside = |buffer: &arrow_ipc::Buffer| {
            let end = buffer.offset().checked_add(buffer.length());
            buffer.offset() >= 0 && buffer.length() >= 0 && end.is_some_and(|end| end as u64 <= body.len() as u64)
        };
        // An element takes a bit at least, but for kinds that take nothing.
        let most = batch.length().max(body.len().saturating_mul(8) as i64);
        let mut nodes = batch.nodes().into_iter().flatten();
        let lengths = nodes.all(|node| (0..=most).contains(&node.length()) && node.null_count() >= 0);
        match batch.buffers().into_iter().flatten().find(|buffer| !inside(buffer)) {
            Some(buffer) => Err(format!("a batch of {} bytes has {buffer:?}", body.len())),
            None if !lengths || u32::try_from(batch.length()).is_err() => {
                Err(format!("a batch of {} bytes has {:?}, {} records", body.len(), batch.nodes(), batch.length()))
            }
            None => Ok(()),
        }
    })
}

/// Records of some columns.
pub(super) struct Records<'f> {
    file: &'f IpcFile,
    columns: Vec<usize>,
    most: usize,
    /// The next batch, and the records of this one from number `at` on.
    block: usize,
    arrays: Vec<ArrayRef>,
    at: usize,
}

impl<'f> Records<'f> {
    pub(super) fn new(file: &'f IpcFile, columns: &[usize], most: usize) -> Self {
        Self { file, columns: columns.into(), most, block: 0, arrays: Vec::new(), at: 0 }
    }

    pub(super) fn next(&mut self) -> Result<Option<Vec<ArrayRef>>, String> {
        while self.arrays.first().is_none_or(|array| self.at == array.len()) {
            let Some(block) = self.file.blocks.get(self.block) else { return Ok(None) };
            self.decode(block)?;
        }
        let len = self.arrays.first().map_or(0, |array| self.most.min(array.len() - self.at));
        let slices = self.arrays.iter().map(|array| array.slice(self.at, len)).collect();
        self.at += len;
        Ok(Some(slices))
    }

    /// Each column by itself, so that an error names it.
    fn decode(&mut self, block: &Block) -> Result<(), String> {
        let IpcFile { schema, version, .. } = self.file;
        (self.at, self.block) = (0, self.block + 1);
        self.arrays.clear();
        let bytes = self.file.block(block)?;
        for column in &self.columns {
            let batch = read_column(schema, *column, || {
                let decoder = FileDecoder::new(schema.clone(), *version).with_projection(vec![*column]);
                decoder.read_record_batch(block, &bytes)
            })?;
            self.arrays.extend(batch.and_then(|batch| batch.columns().first().cloned()));
        }
        let len = self.arrays.first().map_or(0, |array| array.len());
        let whole = self.arrays.len() == self.columns.len() && self.arrays.iter().all(|array| array.len() == len);
        if whole { Ok(()) } else { Err("a batch has columns of several lengths".into()) }
    }
}
