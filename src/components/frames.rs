use super::{ColumnSpec, RaggedSpec};

/// A block of frames in columns, as those see it who store frames: batches, and rollouts that just ended.
///
/// The first columns are those of every task, in this order: observation, action, reward, end, step, trajectory, flags,
/// version.
pub trait Frames {
    /// Names and layouts of the columns.
    fn columns(&self) -> &[ColumnSpec];

    /// Bytes of column `i`: at least [`slots`](Self::slots) values, aligned as such values are.
    fn bytes(&self, i: usize) -> &[u8];

    /// Slots of each column, with and without a frame.
    fn slots(&self) -> usize;

    /// Slots that hold a frame.
    fn frames(&self) -> usize;

    /// Rows of a time-major block, whose frame after slot `i` lies at slot `i + rows`; none where frames of an episode
    /// lie one behind the other.
    fn rows(&self) -> Option<usize>;

    /// Bytes of the real observation after slot `i`, which holds a frame.
    fn next_observation(&self, i: usize) -> &[u8];

    /// Ragged columns beside the others. Default: none. [`WithRagged`](super::WithRagged) adds some.
    fn ragged(&self) -> &[RaggedSpec] {
        &[]
    }

    /// Bytes of the elements that ragged column `i` has in slot `slot`, which holds a frame.
    fn list(&self, _i: usize, _slot: usize) -> &[u8] {
        &[]
    }
}
