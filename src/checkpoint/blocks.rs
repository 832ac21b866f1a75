//! A stream in blocks, each with its length and a checksum.
//!
//! ```text
//! magic (8 bytes) · version (u32) · byte order (u32) · blocks …
//! block:   length (u32) · checksum (u32) · length bytes
//! ```
//!
//! A block of length 0 ends the stream. The checksum is CRC-32 (ISO-HDLC) of all lengths and bytes so far, from the magic
//! on, so that blocks that are lost or change places show. What the blocks carry is read only after its block was found
//! whole. Memory: one block, whatever the stream holds.

use std::io::{self, Read, Write};

use serde::{Serialize, de::DeserializeOwned};

use crate::error::Error;

/// Bytes of a full block.
const BLOCK: usize = 1 << 16;
/// Reads otherwise on a machine of the other byte order, whose columns these are not.
const ORDER: u32 = 0x0102_0304;
/// Bytes that names in a state may have together, as they are read.
const NAMES: usize = 1 << 14;

/// What a file is: its first bytes, and the version of its format.
#[derive(Clone, Copy)]
pub struct Kind {
    pub magic: [u8; 8],
    pub version: u32,
}

impl Kind {
    fn header(self) -> [u8; 16] {
        let mut header = [0; 16];
        header[..8].copy_from_slice(&self.magic);
        header[8..12].copy_from_slice(&self.version.to_le_bytes());
        header[12..].copy_from_slice(&ORDER.to_ne_bytes());
        header
    }
}

/// The checksum of what went before and a block.
fn checksum(before: u32, block: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new_with_initial(before);
    sum.update(&(block.len() as u32).to_le_bytes());
    sum.update(block);
    sum.finalize()
}

fn problem(what: impl std::fmt::Display) -> Error {
    Error::Checkpoint(what.to_string())
}

/// Writes a stream in blocks.
pub struct BlockWriter<'w> {
    to: &'w mut dyn Write,
    block: Vec<u8>,
    sum: u32,
}

impl<'w> BlockWriter<'w> {
    pub(crate) fn new(to: &'w mut dyn Write, kind: Kind) -> Result<Self, Error> {
        let header = kind.header();
        to.write_all(&header).map_err(unwritten)?;
        Ok(Self { to, block: Vec::with_capacity(BLOCK), sum: crc32fast::hash(&header) })
    }

    /// Writes a value of any serde type.
    pub(crate) fn part(&mut self, value: &impl Serialize) -> Result<(), Error> {
        postcard::to_io(value, &mut *self).map_err(unwritten)?;
        Ok(())
    }

    /// Writes bytes, whose number the reader knows.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.write_all(bytes).map_err(unwritten)
    }

    /// Ends the stream.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        if !self.block.is_empty() {
            self.emit().map_err(unwritten)?;
        }
        self.emit().and_then(|()| self.to.flush()).map_err(unwritten)
    }

    fn emit(&mut self) -> io::Result<()> {
        self.sum = checksum(self.sum, &self.block);
        self.to.write_all(&(self.block.len() as u32).to_le_bytes())?;
        self.to.write_all(&self.sum.to_le_bytes())?;
        self.to.write_all(&self.block)?;
        self.block.clear();
        Ok(())
    }
}

fn unwritten(error: impl std::fmt::Display) -> Error {
    problem(format!("cannot be written: {error}"))
}

impl Write for BlockWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let some = bytes.len().min(BLOCK - self.block.len());
        self.block.extend_from_slice(&bytes[..some]);
        if self.block.len() == BLOCK {
            self.emit()?;
        }
        Ok(some)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a stream in blocks. A number in it never decides what memory is taken before the bytes are there that it counts.
pub struct BlockReader<'r> {
    from: &'r mut dyn Read,
    block: Vec<u8>,
    at: usize,
    sum: u32,
    ended: bool,
    /// Why a read failed, which does not pass through the decoder.
    failed: Option<String>,
}

impl<'r> BlockReader<'r> {
    /// Errors: another kind of file or version, or one of a machine with the other byte order.
    pub(crate) fn new(from: &'r mut dyn Read, kind: Kind) -> Result<Self, Error> {
        let mut header = [0; 16];
        from.read_exact(&mut header).map_err(|error| problem(format!("it has no header: {error}")))?;
        let (wanted, version) = (kind.header(), u32::from_le_bytes([header[8], header[9], header[10], header[11]]));
        if header[..8] != wanted[..8] {
            return Err(problem(format!("it does not begin with {:?}", String::from_utf8_lossy(&kind.magic))));
        }
        if version != kind.version {
            return Err(problem(format!("its format is version {version}; legal: {}", kind.version)));
        }
        if header[12..] != wanted[12..] {
            return Err(problem("it is of a machine with another byte order"));
        }
        let sum = crc32fast::hash(&header);
        Ok(Self { from, block: Vec::new(), at: 0, sum, ended: false, failed: None })
    }

    /// Reads a value.
    pub(crate) fn part<V: DeserializeOwned>(&mut self) -> Result<V, Error> {
        let mut names = [0; NAMES];
        match postcard::from_io((&mut *self, &mut names[..])) {
            Ok((value, _)) => Ok(value),
            Err(error) => Err(problem(self.failed.take().unwrap_or_else(|| error.to_string()))),
        }
    }

    /// Reads `count` bytes.
    pub(crate) fn raw(&mut self, count: u64, to: &mut Vec<u8>) -> Result<(), Error> {
        to.clear();
        match self.take(count).read_to_end(to) {
            Ok(read) if read as u64 == count => Ok(()),
            Ok(read) => Err(problem(format!("it ends {} bytes early", count - read as u64))),
            Err(error) => Err(problem(error)),
        }
    }

    /// Nothing may be left.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        if self.at < self.block.len() || self.next().map_err(problem)? {
            return Err(problem("it goes on where it should end"));
        }
        match self.from.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(problem("bytes follow its end")),
            Err(error) => Err(problem(error)),
        }
    }

    /// Reads the next block; false at the end.
    fn next(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let mut numbers = [[0; 4]; 2];
        self.from.read_exact(numbers.as_flattened_mut())?;
        let (len, sum) = (u32::from_le_bytes(numbers[0]) as usize, u32::from_le_bytes(numbers[1]));
        if len > BLOCK {
            return Err(io::Error::other(format!("a block has {len} bytes; legal: up to {BLOCK}")));
        }
        self.block.resize(len, 0);
        self.at = 0;
        self.from.read_exact(&mut self.block)?;
        self.sum = checksum(self.sum, &self.block);
        if self.sum != sum {
            self.block.clear();
            return Err(io::Error::other(format!("a block's checksum is {:08x}, not {sum:08x}", self.sum)));
        }
        self.ended = len == 0;
        Ok(!self.ended)
    }
}

impl Read for BlockReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() {
            match self.next() {
                Ok(true) => {}
                Ok(false) => return Ok(0),
                Err(error) => {
                    self.failed = Some(error.to_string());
                    return Err(error);
                }
            }
        }
        let some = to.len().min(self.block.len() - self.at);
        to[..some].copy_from_slice(&self.block[self.at..][..some]);
        self.at += some;
        Ok(some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind { magic: *b"gleaner!", version: 3 };

    fn written(numbers: &[u64], bytes: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut writer = BlockWriter::new(&mut file, KIND).expect("memory");
        writer.part(&numbers).expect("memory");
        writer.raw(bytes).expect("memory");
        writer.finish().expect("memory");
        file
    }

    fn read(mut file: &[u8], count: u64) -> Result<(Vec<u64>, Vec<u8>), Error> {
        let mut reader = BlockReader::new(&mut file, KIND)?;
        let (numbers, mut bytes) = (reader.part()?, Vec::new());
        reader.raw(count, &mut bytes)?;
        reader.finish()?;
        Ok((numbers, bytes))
    }

    #[test]
    fn a_stream_comes_back_over_many_blocks() {
        let (numbers, bytes) = (vec![1, 300, u64::MAX], vec![7; 3 * BLOCK - 20]);
        assert_eq!(read(&written(&numbers, &bytes), bytes.len() as u64).expect("whole"), (numbers, bytes));
    }

    #[test]
    fn every_cut_and_every_flipped_bit_shows() {
        let file = written(&[1, 2, 3], &[9; 40]);
        assert!(read(&file, 40).is_ok());
        for cut in 0..file.len() {
            assert!(read(&file[..cut], 40).is_err(), "cut at {cut}");
        }
        for bit in 0..file.len() * 8 {
            let mut file = file.clone();
            file[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&file, 40).is_err(), "bit {bit}");
        }
        assert!(read(&[&file[..], &[0]].concat(), 40).is_err());
        assert!(read(&file, 39).is_err() && read(&file, u64::MAX).is_err());
    }

    #[test]
    fn blocks_that_change_places_show() {
        let file = written(&[], &[vec![1; BLOCK - 1], vec![2; BLOCK]].concat());
        let (first, second) = (16, 16 + 8 + BLOCK);
        let swapped = [&file[..16], &file[second..][..8 + BLOCK], &file[first..second], &file[second + 8 + BLOCK..]];
        assert!(read(&swapped.concat(), 2 * BLOCK as u64 - 1).is_err());
    }
}
