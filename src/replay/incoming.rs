//! Changes to blocks in place, before they are stored.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::{
    edit::FIXED,
    transform::{each_observation, find},
};
use crate::{
    bytes::Bytes,
    components::{ColumnSpec, Episodes, Flags, Frames, RaggedSpec, column},
    error::{BoxError, Error, guarded},
    task::Task,
};

/// Changes a block in place before it is stored: given to [`Replay::transform_writes`](super::Replay::transform_writes).
pub type WriteTransform<T> = Box<dyn FnMut(&mut Incoming<T>) -> Result<(), BoxError> + Send>;

/// A copy of a block that is on its way into a buffer. Some of its slots may hold no frame. It keeps its columns, and
/// what tells its episodes apart.
pub struct Incoming<T: Task> {
    specs: Vec<ColumnSpec>,
    columns: Vec<Bytes>,
    rows: usize,
    /// Slots of frames that no other one of the block follows, ascending, and the observations after them.
    last: Vec<usize>,
    behind: Bytes,
    task: PhantomData<fn() -> T>,
}

impl<T: Task> Default for Incoming<T> {
    fn default() -> Self {
        let (specs, columns, last, behind) = Default::default();
        Self { specs, columns, rows: 1, last, behind, task: PhantomData }
    }
}

impl<T: Task> Incoming<T> {
    /// Copies a block and lets `transforms` change it, one behind the other. Errors: that of the first one that fails, or
    /// its panic.
    pub(super) fn transform<'b>(
        &'b mut self,
        frames: &'b dyn Frames,
        transforms: &mut [WriteTransform<T>],
    ) -> Result<Transformed<'b, T>, Error> {
        self.copy(frames);
        for transform in transforms {
            guarded("transform_writes", || transform(self))?;
        }
        Ok(Transformed { block: self, frames })
    }

    fn copy(&mut self, frames: &dyn Frames) {
        if self.specs != frames.columns() {
            self.specs = frames.columns().into();
            self.columns.resize_with(self.specs.len(), Bytes::default);
        }
        let (slots, rows) = (frames.slots(), frames.rows().unwrap_or(1));
        for (i, (spec, values)) in self.specs.iter().zip(&mut self.columns).enumerate() {
            values.resize(slots * spec.stride);
            values.bytes_mut().copy_from_slice(&frames.bytes(i)[..slots * spec.stride]);
        }
        let episodes = Episodes::of(frames);
        let goes_on = |slot: usize| slot + rows < slots && episodes.goes_on(slot, slot + rows);
        self.rows = rows;
        self.last.clear();
        self.last.extend((0..slots).filter(|slot| episodes.flags[*slot].valid() && !goes_on(*slot)));
        let width = self.specs[column::OBSERVATION].stride;
        self.behind.resize(self.last.len() * width);
        for (i, slot) in self.last.iter().enumerate() {
            self.behind.bytes_mut()[i * width..][..width].copy_from_slice(frames.next_observation(*slot));
        }
    }

    /// Which slots hold frames.
    pub fn flags(&self) -> &[Flags] {
        self.columns[column::FLAGS].values()
    }

    /// Calls `f` with every observation, each once: that of each slot that holds a frame, and those that follow the last
    /// frames of the episodes.
    pub fn each_observation(&mut self, f: impl FnMut(&mut T::Observation)) {
        each_observation(&mut self.columns, &mut [&mut self.behind], f);
    }

    /// By slot: the action.
    pub fn actions_mut(&mut self) -> &mut [T::Action] {
        self.columns[column::ACTION].values_mut()
    }

    /// By slot: the reward.
    pub fn rewards_mut(&mut self) -> &mut [f32] {
        self.columns[column::REWARD].values_mut()
    }

    /// Names and layouts of the columns.
    pub fn columns(&self) -> &[ColumnSpec] {
        &self.specs
    }

    /// A column by slot, as values of `V`, which has the column's stride. Errors: [`Error::Config`] for an unknown name;
    /// [`Error::State`] for a `V` of another size.
    pub fn column<V: Pod>(&self, name: &str) -> Result<&[V], Error> {
        let i = find(&self.specs, name)?;
        self.specs[i].values(self.columns[i].bytes())
    }

    /// The same, to be changed. Errors: those of [`column`](Self::column); a column that tells episodes apart.
    pub fn column_mut<V: Pod>(&mut self, name: &str) -> Result<&mut [V], Error> {
        let i = find(&self.specs, name)?;
        if FIXED.contains(&i) {
            return Err(Error::config("column", name, "one that does not tell episodes apart"));
        }
        self.specs[i].values_mut(self.columns[i].bytes_mut())
    }
}

/// The block as it is stored: its lists of ragged columns are those that were given.
pub(super) struct Transformed<'b, T: Task> {
    block: &'b Incoming<T>,
    frames: &'b dyn Frames,
}

impl<T: Task> Frames for Transformed<'_, T> {
    fn columns(&self) -> &[ColumnSpec] {
        &self.block.specs
    }
    fn bytes(&self, i: usize) -> &[u8] {
        self.block.columns[i].bytes()
    }
    fn slots(&self) -> usize {
        self.frames.slots()
    }
    fn frames(&self) -> usize {
        self.frames.frames()
    }
    fn rows(&self) -> Option<usize> {
        self.frames.rows()
    }
    fn next_observation(&self, i: usize) -> &[u8] {
        let Incoming { columns, rows, last, behind, .. } = self.block;
        let width = self.block.specs[column::OBSERVATION].stride;
        match last.binary_search(&i) {
            Ok(at) => &behind.bytes()[at * width..][..width],
            Err(_) => &columns[column::OBSERVATION].bytes()[(i + rows) * width..][..width],
        }
    }
    fn ragged(&self) -> &[RaggedSpec] {
        self.frames.ragged()
    }
    fn list(&self, i: usize, slot: usize) -> &[u8] {
        self.frames.list(i, slot)
    }
}
