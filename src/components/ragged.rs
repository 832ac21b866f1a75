//! Columns of lists.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{ColumnSpec, Frames};
use crate::{
    data::{Data, Dtype},
    error::Error,
};

/// Name and element type of a ragged column: of each frame it has a list of any length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaggedSpec {
    /// Unique name, also among the other columns.
    pub name: Cow<'static, str>,
    /// Type of an element.
    pub dtype: Dtype,
}

/// A block of frames with ragged columns beside its own.
///
/// ```
/// use gleaner::{components::WithRagged, prelude::*, replay::Replay};
///
/// let replay = Replay::<CartPole>::new(100)?;
/// for batch in Collector::<CartPole>::builder().frames_per_batch(3).total_frames(3).build()? {
///     // Frame 0 has two tokens, frame 1 none, frame 2 one.
///     let (offsets, tokens) = ([0, 2, 2, 3], [7, 8, 9]);
///     let batch = batch?;
///     replay.extend(&WithRagged::new(&batch).column("tokens", &offsets, &tokens)?)?;
/// }
/// let sample = replay.read(&[2, 0])?;
/// let tokens = sample.ragged::<i32>("tokens")?;
/// assert_eq!((tokens.get(0), tokens.get(1)), (&[9][..], &[7, 8][..]));
/// # Ok::<(), gleaner::Error>(())
/// ```
pub struct WithRagged<'a> {
    frames: &'a dyn Frames,
    specs: Vec<RaggedSpec>,
    /// By column: where the lists of the slots begin and end, and the bytes of their elements.
    lists: Vec<(&'a [u64], &'a [u8])>,
}

impl<'a> WithRagged<'a> {
    /// The block as it is.
    pub fn new(frames: &'a dyn Frames) -> Self {
        Self { frames, specs: Vec::new(), lists: Vec::new() }
    }

    /// Adds a ragged column of scalars: slot `i` has the elements `values[offsets[i]..offsets[i + 1]]`. Errors: a name
    /// that is taken, another number of offsets than slots and one more, offsets that fall or go beyond the values,
    /// elements that are no scalars.
    pub fn column<V: Data>(
        mut self,
        name: impl Into<Cow<'static, str>>,
        offsets: &'a [u64],
        values: &'a [V],
    ) -> Result<Self, Error> {
        let name = name.into();
        let mut taken = self.columns().iter().map(|spec| &spec.name).chain(self.specs.iter().map(|spec| &spec.name));
        if taken.any(|taken| *taken == name) {
            return Err(Error::config("ragged", name, "a name that no other column has"));
        }
        let fields = V::fields();
        let [field] = &fields[..] else { return Err(Error::config("ragged", name, "scalars of one field")) };
        if !field.shape.is_empty() || field.dtype.size() != size_of::<V>() {
            return Err(Error::config("ragged", name, "scalars"));
        }
        let whole = offsets.len() == self.slots() + 1 && offsets.is_sorted();
        if !whole || offsets.last().is_some_and(|last| *last > values.len() as u64) {
            let given = format!("{} of {name:?}, up to {:?}", offsets.len(), offsets.last());
            let legal = format!("{} that never fall, up to {} elements", self.slots() + 1, values.len());
            return Err(Error::config("offsets", given, legal));
        }
        self.specs.push(RaggedSpec { name, dtype: field.dtype });
        self.lists.push((offsets, bytemuck::cast_slice(values)));
        Ok(self)
    }
}

impl Frames for WithRagged<'_> {
    fn columns(&self) -> &[ColumnSpec] {
        self.frames.columns()
    }
    fn bytes(&self, i: usize) -> &[u8] {
        self.frames.bytes(i)
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
        self.frames.next_observation(i)
    }
    fn ragged(&self) -> &[RaggedSpec] {
        &self.specs
    }
    fn list(&self, i: usize, slot: usize) -> &[u8] {
        let ((offsets, bytes), size) = (self.lists[i], self.specs[i].dtype.size());
        &bytes[offsets[slot] as usize * size..offsets[slot + 1] as usize * size]
    }
}
