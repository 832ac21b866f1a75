//! Headers of Parquet pages, looked at before pages are read: a reader makes room for what a compressed page says that it
//! becomes.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
};

/// No header is longer: most of it are the smallest and the largest value.
const HEADER: u64 = 1 << 14;
/// Snappy makes at most 64 bytes of 3.
const GROWTH: u64 = 22;

/// Looks at the pages between two places of a file.
pub(super) fn check(mut file: &File, begin: u64, end: u64) -> Result<(), String> {
    let (mut at, mut bytes) = (begin, Vec::new());
    while at < end {
        bytes.clear();
        let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.take(HEADER.min(end - at)).read_to_end(&mut bytes));
        read.map_err(|error| error.to_string())?;
        let mut header = Compact(&bytes);
        let sizes = header.sizes().ok_or_else(|| format!("there is no page at byte {at}"))?;
        let (len, pages) = ((bytes.len() - header.0.len()) as u64, sizes.map(u64::try_from));
        let [Ok(becomes), Ok(is)] = pages else { return Err(format!("the page at byte {at} has sizes {sizes:?}")) };
        if becomes > is.saturating_mul(GROWTH).saturating_add(64) {
            return Err(format!("the page at byte {at} has {is} bytes and says that it becomes {becomes}"));
        }
        at = at.saturating_add(len).saturating_add(is);
    }
    if at == end { Ok(()) } else { Err(format!("its last page ends at byte {at}, not at {end}")) }
}

// Kinds of values in Thrift's compact protocol.
const BOOLS: [u8; 2] = [1, 2];
const BYTE: u8 = 3;
const NUMBERS: [u8; 3] = [4, 5, 6];
const DOUBLE: u8 = 7;
const TEXT: u8 = 8;
const LISTS: [u8; 2] = [9, 10];
const STRUCT: u8 = 12;

/// What is left of bytes in Thrift's compact protocol.
struct Compact<'b>(&'b [u8]);

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0_u64, 0);
        loop {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
    }

    /// A signed number: its sign comes last.
    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn over(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    /// Number and kind of the next field of a structure; kind 0 at its end.
    fn field(&mut self, before: i64) -> Option<(i64, u8)> {
        let byte = self.byte()?;
        let (step, kind) = (i64::from(byte >> 4), byte & 0x0f);
        match (kind, step) {
            (0, _) => Some((before, 0)),
            (_, 0) => Some((self.signed()?, kind)),
            _ => Some((before.checked_add(step)?, kind)),
        }
    }

    /// Goes over a page's header: its sizes, as it becomes and as it is.
    fn sizes(&mut self) -> Option<[i64; 2]> {
        let (mut number, mut sizes) = (0, [None; 2]);
        loop {
            let kind;
            (number, kind) = self.field(number)?;
            match (number, kind) {
                (_, 0) => return sizes[0].zip(sizes[1]).map(|(becomes, is)| [becomes, is]),
                (2 | 3, kind) if NUMBERS.contains(&kind) => sizes[(number - 2) as usize] = Some(self.signed()?),
                _ => self.skip(kind, 0)?,
            }
        }
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            _ if depth > 8 => None,
            kind if BOOLS.contains(&kind) => Some(()),
            BYTE => self.over(1),
            kind if NUMBERS.contains(&kind) => self.number().map(drop),
            DOUBLE => self.over(8),
            TEXT => self.number().and_then(|len| self.over(len)),
            kind if LISTS.contains(&kind) => {
                let byte = self.byte()?;
                let len = if byte >> 4 == 15 { self.number()? } else { u64::from(byte >> 4) };
                // Flags in lists have a byte each, those in structures none.
                let kind = if BOOLS.contains(&(byte & 0x0f)) { BYTE } else { byte & 0x0f };
                (0..len).try_for_each(|_| self.skip(kind, depth + 1))
            }
            STRUCT => {
                let mut number = 0;
                loop {
                    let kind;
                    (number, kind) = self.field(number)?;
                    if kind == 0 {
                        return Some(());
                    }
                    self.skip(kind, depth + 1)?;
                }
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_found_behind_and_before_other_fields() {
        // Kind of the page, 300 bytes that are 10, a structure with a flag, a list of texts, a number and its end.
        let header =
            [0x15, 0x00, 0x15, 0xd8, 0x04, 0x15, 0x14, 0x2c, 0x11, 0x19, 0x28, 1, b'a', 0, 0x15, 0x02, 0, 0, 7];
        let mut compact = Compact(&header);
        assert_eq!(compact.sizes(), Some([300, 10]));
        assert_eq!(compact.0, [7]);
        for cut in 0..header.len() - 1 {
            assert_eq!(Compact(&header[..cut]).sizes(), None, "{cut}");
        }
        assert_eq!(Compact(&[0x15; 200]).sizes(), None);
        assert_eq!(Compact(&[0x1c; 200]).sizes(), None, "structures in structures without end");
        assert_eq!(Compact(&[0x19, 0xf3, 0xff, 0xff, 0xff, 0xff, 0x7f]).sizes(), None, "a list that goes on for ever");
    }
}
