//! The ragged columns of a sample.

use bytemuck::Pod;
use serde::{Deserialize, Serialize};

use super::{
    Sample,
    ragged::List,
    ring::{Pin, Ring},
};
use crate::{bytes::Bytes, components::RaggedSpec, error::Error, task::Task};

/// Lists of elements, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ragged<'s, V> {
    /// By slot, and one more: where in `values` its list begins, which is where that of the slot before ends.
    pub offsets: &'s [u64],
    /// All elements.
    pub values: &'s [V],
}

impl<'s, V> Ragged<'s, V> {
    /// The list of slot `i`; empty where a slot only pads.
    pub fn get(&self, i: usize) -> &'s [V] {
        &self.values[self.offsets[i] as usize..self.offsets[i + 1] as usize]
    }
}

/// A ragged column.
#[derive(Serialize, Deserialize)]
pub(super) struct Lists {
    spec: RaggedSpec,
    offsets: Vec<u64>,
    values: Bytes,
}

impl Lists {
    fn new(spec: &RaggedSpec) -> Self {
        Self { spec: spec.clone(), offsets: vec![0], values: Bytes::default() }
    }

    /// Forgets all lists.
    pub(super) fn clear(&mut self) {
        self.offsets.clear();
        self.offsets.push(0);
        self.values.resize(0);
    }

    pub(super) fn memory(&self) -> usize {
        self.offsets.capacity() * size_of::<u64>() + self.values.capacity()
    }

    /// Whether there is one for each of `slots` slots, as in a ring's column.
    fn is_whole(&self, spec: &RaggedSpec, slots: usize) -> bool {
        let ends = [self.offsets.first().copied(), self.offsets.last().copied()];
        let elements = Some((self.values.bytes().len() / spec.dtype.size()) as u64);
        self.spec == *spec && self.offsets.len() == slots + 1 && self.offsets.is_sorted() && ends == [Some(0), elements]
    }
}

impl<T: Task> Sample<T> {
    /// The ragged column `name`, whose elements have the size of a `V`. Errors: no such column, or another size.
    pub fn ragged<V: Pod>(&self, name: &str) -> Result<Ragged<'_, V>, Error> {
        let Some(lists) = self.lists.iter().find(|lists| lists.spec.name == name) else {
            let legal: Vec<_> = self.lists.iter().map(|lists| &*lists.spec.name).collect();
            return Err(Error::config("ragged", name, format!("ragged columns: {}", legal.join(", "))));
        };
        let dtype = lists.spec.dtype;
        if size_of::<V>() != dtype.size() {
            let problem = format!("elements of {name:?} are {dtype}, {} has another size", std::any::type_name::<V>());
            return Err(Error::State { call: "ragged", problem });
        }
        Ok(Ragged { offsets: &lists.offsets, values: lists.values.values() })
    }

    /// Names and element types of the ragged columns.
    pub fn ragged_columns(&self) -> impl Iterator<Item = &RaggedSpec> {
        self.lists.iter().map(|lists| &lists.spec)
    }

    /// Copies the lists of the drawn frames out of the ring.
    pub(super) fn gather_lists(&mut self, ring: &Ring, pin: &Pin<'_>) {
        if !self.has_lists_of(ring.ragged.iter().map(|column| &column.spec)) {
            self.lists = ring.ragged.iter().map(|column| Lists::new(&column.spec)).collect();
        }
        let (scratch, slots) = (&mut self.scratch, self.frames.len());
        for (i, lists) in self.lists.iter_mut().enumerate() {
            let size = lists.spec.dtype.size();
            // Slots that only pad have none.
            scratch.lists.clear();
            scratch.lists.resize(slots, List::default());
            ring.lists(pin, i, &scratch.slots, &scratch.moves, &mut scratch.lists);
            lists.clear();
            let mut end = 0;
            lists.offsets.extend(scratch.lists.iter().map(|list| {
                end += list.len;
                end
            }));
            lists.values.resize(end as usize * size);
            for (list, at) in scratch.lists.iter().zip(&lists.offsets) {
                let begin = *at as usize * size;
                ring.elements(pin, i, *list, &mut lists.values.bytes_mut()[begin..begin + list.len as usize * size]);
            }
        }
    }

    pub(super) fn has_lists_of<'s>(&self, specs: impl Iterator<Item = &'s RaggedSpec>) -> bool {
        self.ragged_columns().eq(specs)
    }

    /// Takes the columns of another sample, while there is no pick.
    pub(super) fn adopt_lists(&mut self, other: &Self) {
        if !self.has_lists_of(other.ragged_columns()) {
            self.lists = other.ragged_columns().map(Lists::new).collect();
        }
    }

    /// Adds the lists of another sample with the same columns.
    pub(super) fn append_lists(&mut self, other: &Self) {
        for (own, new) in self.lists.iter_mut().zip(&other.lists) {
            let (end, bytes) = (own.offsets.last().copied().unwrap_or_default(), own.values.bytes().len());
            own.offsets.extend(new.offsets.iter().skip(1).map(|offset| end + offset));
            own.values.resize(bytes + new.values.bytes().len());
            own.values.bytes_mut()[bytes..].copy_from_slice(new.values.bytes());
        }
    }

    /// Whether lists that were loaded could be those of this sample, from this ring.
    pub(super) fn lists_are_whole(&self, ring: &Ring) -> bool {
        let columns = ring.ragged.iter().zip(&self.lists);
        self.lists.len() == ring.ragged.len()
            && columns.into_iter().all(|(column, lists)| lists.is_whole(&column.spec, self.frames.len()))
    }
}
