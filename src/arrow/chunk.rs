//! Records of a file as a block of frames.

use std::cmp::Ordering;

use arrow_array::{Array, ArrayRef};

use super::{Input, Plan, array, chunk_frames, leaf::Leaf};
use crate::{
    bytes::Bytes,
    components::{ColumnSpec, End, Episodes, Flags, Frames, column},
    error::Error,
};

/// Some records of a file, one behind the other.
pub(crate) struct Chunk<'p> {
    specs: &'p [ColumnSpec],
    columns: Vec<Bytes>,
    slots: usize,
    /// By record: whether it says what followed it, and what.
    says: Vec<bool>,
    followed: Bytes,
}

/// Calls `f` with all frames of a file, piece by piece, after each piece was looked at. The error names the column.
pub(crate) fn each_chunk(
    input: &Input,
    plan: &Plan,
    mut f: impl FnMut(&Chunk<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = |problem| input.failed(problem);
    let mut records = input.records(&plan.places(), chunk_frames(&plan.specs)).map_err(failed)?;
    let (mut held, mut first): (Option<Chunk<'_>>, u64) = (None, 0);
    while let Some(arrays) = records.next().map_err(failed)? {
        let chunk = Chunk::new(plan, &arrays, first).map_err(failed)?;
        if chunk.slots == 0 {
            continue;
        }
        first += chunk.slots as u64;
        if let Some(mut before) = held.take() {
            before.check(Some(&chunk), first - chunk.slots as u64).map_err(failed)?;
            f(&before)?;
        }
        held = Some(chunk);
    }
    if let Some(mut last) = held {
        last.check(None, first).map_err(failed)?;
        f(&last)?;
    }
    Ok(())
}

impl<'p> Chunk<'p> {
    /// Columns without a record.
    pub(crate) fn empty(plan: &'p Plan) -> Self {
        let columns = vec![Bytes::default(); plan.specs.len()];
        Self { specs: &plan.specs, columns, slots: 0, says: Vec::new(), followed: Bytes::default() }
    }

    /// `first` is the number of the first record.
    fn new(plan: &'p Plan, arrays: &[ArrayRef], first: u64) -> Result<Self, String> {
        let slots = arrays.first().map_or(0, |array| array.len());
        let (own, last) = arrays.split_at(plan.leaves.len());
        let mut columns: Vec<Bytes> = vec![Bytes::default(); plan.specs.len()];
        for ((leaf, _), array) in plan.leaves.iter().zip(own) {
            let named = |problem| format!("column {:?} {problem}", leaf.name);
            if let Some(i) = (0..slots).filter(|_| array.null_count() > 0).find(|i| array.is_null(*i)) {
                return Err(named(format!("is null in record {}; legal: numbers", first + i as u64)));
            }
            has_elements(leaf, array.as_ref()).map_err(named)?;
        }
        for ((leaf, _), array) in plan.leaves.iter().zip(own) {
            let values = &mut columns[leaf.column];
            values.resize(slots * leaf.stride);
            let copied = array::copy(leaf, array.as_ref(), values.bytes_mut());
            copied.map_err(|problem| format!("column {:?} {problem}", leaf.name))?;
        }
        let mut chunk = Self { specs: &plan.specs, columns, slots, says: Vec::new(), followed: Bytes::default() };
        chunk.set_followed(&plan.last, last)?;
        chunk.check_codes(first)?;
        Ok(chunk)
    }

    fn set_followed(&mut self, leaves: &[(Leaf, usize)], arrays: &[ArrayRef]) -> Result<(), String> {
        self.followed.resize(self.slots * self.specs[column::OBSERVATION].stride);
        self.says = (0..self.slots).map(|i| arrays.iter().all(|array| array.is_valid(i))).collect();
        for ((leaf, _), array) in leaves.iter().zip(arrays) {
            let copied = array::copy(leaf, array.as_ref(), self.followed.bytes_mut());
            copied.map_err(|problem| format!("column {:?} {problem}", leaf.name))?;
        }
        Ok(())
    }

    /// Every value of the columns that are codes is one.
    fn check_codes(&self, first: u64) -> Result<(), String> {
        for i in 0..self.slots {
            let (end, flags) = (self.byte(column::END, i), self.byte(column::FLAGS, i));
            if End::from_code(end).is_none() {
                return Err(format!(
                    "column \"end\" is {end} in record {}; legal: 0 to 9, or 128 more",
                    first + i as u64
                ));
            }
            if ![Flags::VALID, Flags::RANDOM].map(bytemuck::cast::<_, u8>).contains(&flags) {
                return Err(format!("column \"flags\" is {flags} in record {}; legal: 1, 3", first + i as u64));
            }
        }
        Ok(())
    }

    fn byte(&self, column: usize, i: usize) -> u8 {
        self.columns[column].bytes()[i]
    }

    /// What followed each frame is known, that of the last one from `next`, whose first record is number `end`.
    fn check(&mut self, next: Option<&Chunk<'_>>, end: u64) -> Result<(), String> {
        let first = end - self.slots as u64;
        let last = self.slots - 1;
        let width = self.specs[column::OBSERVATION].stride;
        let goes_on = next.is_some_and(|next| {
            let (own, next) = (Episodes::of(self), Episodes::of(next));
            !own.ends[last].ends_episode()
                && own.ids[last] == next.ids[0]
                && own.steps[last].0.wrapping_add(1) == next.steps[0].0
        });
        if let Some(next) = next.filter(|_| goes_on) {
            let observation = &next.columns[column::OBSERVATION].bytes()[..width];
            self.followed.bytes_mut()[last * width..].copy_from_slice(observation);
            self.says[last] = true;
        }
        let episodes = Episodes::of(self);
        let silent = (0..self.slots).find(|i| {
            let inside = i.cmp(&last) == Ordering::Less && episodes.goes_on(*i, *i + 1);
            !inside && !self.says[*i]
        });
        match silent {
            None => Ok(()),
            Some(i) => Err(format!(
                "column \"last_observation\" is null in record {}, the last one of trajectory {:?}; legal: what followed it",
                first + i as u64,
                episodes.ids[i]
            )),
        }
    }
}

/// An array has all elements that its type says, so that what is sized by them has been seen.
fn has_elements(leaf: &Leaf, array: &dyn Array) -> Result<(), String> {
    let all = array.len().checked_mul(leaf.field.len());
    let held = array.get_buffer_memory_size() / leaf.field.dtype.size();
    if all.is_some_and(|all| all <= held) { Ok(()) } else { Err(format!("has {held} elements, not {all:?}")) }
}

impl Frames for Chunk<'_> {
    fn columns(&self) -> &[ColumnSpec] {
        self.specs
    }
    fn bytes(&self, i: usize) -> &[u8] {
        self.columns[i].bytes()
    }
    fn slots(&self) -> usize {
        self.slots
    }
    fn frames(&self) -> usize {
        self.slots
    }
    fn rows(&self) -> Option<usize> {
        None
    }
    fn next_observation(&self, i: usize) -> &[u8] {
        let width = self.specs[column::OBSERVATION].stride;
        if self.says[i] {
            &self.followed.bytes()[i * width..][..width]
        } else {
            &self.columns[column::OBSERVATION].bytes()[(i + 1) * width..][..width]
        }
    }
}
