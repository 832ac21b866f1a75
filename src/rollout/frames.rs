//! Blocks and batches as those see them who store frames.

use super::{
    batch::Batch,
    block::{Block, Layout},
};
use crate::{
    components::{ColumnSpec, Frames},
    task::Task,
};

/// A block with the names of its columns.
pub(crate) struct BlockFrames<'b, T: Task> {
    pub block: &'b Block<T>,
    pub specs: &'b [ColumnSpec],
}

impl<T: Task> Frames for BlockFrames<'_, T> {
    fn columns(&self) -> &[ColumnSpec] {
        self.specs
    }
    fn bytes(&self, i: usize) -> &[u8] {
        self.block.columns[i].bytes()
    }
    fn slots(&self) -> usize {
        self.block.layout.slots()
    }
    fn frames(&self) -> usize {
        self.block.frames
    }
    fn rows(&self) -> Option<usize> {
        match self.block.layout {
            Layout::TimeMajor { rows, .. } => Some(rows),
            Layout::Flat { .. } | Layout::Padded { .. } => None,
        }
    }
    fn next_observation(&self, i: usize) -> &[u8] {
        bytemuck::bytes_of(self.block.next_observation(i))
    }
}

impl<T: Task> Frames for Batch<T> {
    fn columns(&self) -> &[ColumnSpec] {
        &self.specs
    }
    fn bytes(&self, i: usize) -> &[u8] {
        self.block().columns[i].bytes()
    }
    fn slots(&self) -> usize {
        self.len()
    }
    fn frames(&self) -> usize {
        self.block().frames
    }
    fn rows(&self) -> Option<usize> {
        BlockFrames { block: self.block(), specs: &self.specs }.rows()
    }
    fn next_observation(&self, i: usize) -> &[u8] {
        bytemuck::bytes_of(self.block().next_observation(i))
    }
}
