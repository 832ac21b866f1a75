//! Observations as they are sent: images of bytes as bytes, four a word, everything else as floats.

use std::ops::Range;

use crate::policy::plan::{Kind, Operation, Place, Plan};

/// Where the columns of an observation lie in the words of a row.
#[derive(Debug, PartialEq)]
pub(super) struct Inputs {
    columns: usize,
    /// Columns that are sent as bytes; each range begins with a new word.
    bytes: Vec<Range<usize>>,
}

impl Inputs {
    /// Those columns are sent as bytes that only convolutions of bytes read, and as one image.
    pub(super) fn of(plan: &Plan) -> Self {
        let reads = || plan.layers.iter().filter(|operation| operation.from == Place::Input);
        let range = |operation: &Operation| operation.start..operation.start + operation.inputs;
        let is_bytes = |operation: &Operation| matches!(operation.kind, Kind::Conv2d(conv) if conv.bytes);
        let apart = |a: &Range<usize>, b: &Range<usize>| a.end <= b.start || b.end <= a.start;
        let alone = |own: &Range<usize>| {
            reads().all(|other| (is_bytes(other) && range(other) == *own) || apart(&range(other), own))
        };
        let mut bytes: Vec<_> = reads().filter(|operation| is_bytes(operation)).map(range).filter(alone).collect();
        bytes.sort_by_key(|range| range.start);
        bytes.dedup();
        Self { columns: plan.inputs, bytes }
    }

    /// Words of a row.
    pub(super) fn words(&self) -> usize {
        self.word(self.columns)
    }

    /// The word at which a column lies that is none of bytes, or the first of some.
    pub(super) fn word(&self, column: usize) -> usize {
        let before = self.bytes.iter().filter(|range| range.end <= column);
        column - before.map(|range| range.len() - range.len().div_ceil(4)).sum::<usize>()
    }

    /// Whether the columns from `start` on are bytes.
    pub(super) fn is_bytes(&self, start: usize) -> bool {
        self.bytes.iter().any(|range| range.start == start)
    }

    /// The words of `rows`, if they are not the floats themselves. `words` is memory for them, which grows and stays.
    pub(super) fn pack<'a>(&self, rows: &'a [f32], words: &'a mut Vec<u32>) -> &'a [u8] {
        if self.bytes.is_empty() {
            return bytemuck::cast_slice(rows);
        }
        words.resize(rows.len() / self.columns * self.words(), 0);
        for (row, to) in rows.chunks_exact(self.columns).zip(words.chunks_exact_mut(self.words())) {
            self.pack_row(row, bytemuck::cast_slice_mut(to));
        }
        bytemuck::cast_slice(words)
    }

    fn pack_row(&self, row: &[f32], mut to: &mut [u8]) {
        let mut column = 0;
        for Range { start, end } in self.bytes.iter().cloned().chain(std::iter::once(self.columns..self.columns)) {
            let (floats, rest) = to.split_at_mut((start - column) * 4);
            floats.copy_from_slice(bytemuck::cast_slice(&row[column..start]));
            let (bytes, rest) = rest.split_at_mut((end - start).next_multiple_of(4));
            bytes.iter_mut().zip(&row[start..end]).for_each(|(byte, x)| *byte = *x as u8);
            (to, column) = (rest, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_begin_with_a_word_and_floats_follow() {
        let inputs = Inputs { columns: 13, bytes: vec![1..6, 8..12] };
        assert_eq!([0, 1, 6, 7, 8, 12].map(|column| inputs.word(column)), [0, 1, 3, 4, 5, 6]);
        assert_eq!(inputs.words(), 7);
        assert!(inputs.is_bytes(8) && !inputs.is_bytes(6));
        let row = |first: f32| -> Vec<f32> { (0..13).map(|i| first + i as f32).collect() };
        let rows: Vec<f32> = [row(0.0), row(100.0)].concat();
        let mut words = Vec::new();
        let packed: Vec<u32> = bytemuck::cast_slice(inputs.pack(&rows, &mut words)).to_vec();
        let float = |x: f32| x.to_bits();
        let want = [float(100.0), 0x6867_6665, 0x69, float(106.0), float(107.0), 0x6f6e_6d6c, float(112.0)];
        assert_eq!(packed[7..], want);
        assert_eq!(packed[1], 0x0403_0201);
    }

    #[test]
    fn without_bytes_the_floats_are_sent_as_they_are() {
        let inputs = Inputs { columns: 2, bytes: vec![] };
        let mut words = Vec::new();
        assert_eq!(inputs.pack(&[1.0, 2.0, 3.0, 4.0], &mut words).len(), 16);
        assert!(words.is_empty() && inputs.words() == 2 && inputs.word(1) == 1);
    }
}
