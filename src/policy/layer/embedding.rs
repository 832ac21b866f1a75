//! A table of vectors.

use pulp::Arch;

use super::{Block, Kernel, Tensors};
use crate::policy::plan::Operation;

/// A learned vector for each value of a discrete observation.
#[derive(Debug)]
pub(crate) struct Embedding {
    /// `[entries, width]`.
    table: Vec<f32>,
    entries: usize,
    width: usize,
}

impl Embedding {
    pub(crate) fn new(operation: &Operation, entries: usize, tensors: &Tensors<'_>) -> Self {
        Self { table: tensors.get("weight").to_vec(), entries, width: operation.outputs }
    }
}

impl Kernel for Embedding {
    fn run(&self, _: Arch, block: Block<'_>, _: &mut [f32]) {
        let rows = block.to.chunks_exact_mut(block.to_stride).zip(block.from.chunks(block.stride)).take(block.rows);
        for (to, from) in rows {
            // The cast saturates: what is outside of the table has the nearest entry.
            let entry = (from[0] as usize).min(self.entries - 1);
            to[..self.width].copy_from_slice(&self.table[entry * self.width..][..self.width]);
        }
    }
}
