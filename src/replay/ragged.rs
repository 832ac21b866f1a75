//! Ragged columns: rings of elements beside the ring of frames.
//!
//! Elements are numbered from 0 in the order of writing, as frames are, and those of a frame follow each other. Which they
//! are is a column of the ring of frames; an element lies at its number modulo the room. As the frames do, a ring has more
//! room than it keeps elements, for a writer to write while old ones are read.
#![expect(unsafe_code, reason = "elements are written and read at the same time, as frames are")]

use bytemuck::{Pod, Zeroable};

use super::{
    cells::{Move, Run},
    ring::{Pin, Ring, spare},
    turns::Window,
};
use crate::{
    components::{Flags, Frames, RaggedSpec, column},
    error::Error,
};

/// The elements of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct List {
    pub first: u64,
    pub len: u64,
}

/// A ragged column of a ring.
pub(super) struct Ragged {
    pub spec: RaggedSpec,
    /// Elements that are kept.
    pub keeps: u64,
    /// Elements that there is room for.
    room: u64,
    /// Where the frames' lists lie, and the elements: places in bytes.
    lists: usize,
    elements: usize,
}

impl Ragged {
    /// A column that keeps so many elements, for a ring of `slots` frames; `place` gives room for so many values of so many
    /// bytes. None if there can be no such room.
    pub(super) fn new(
        spec: &RaggedSpec,
        keeps: u64,
        slots: u64,
        mut place: impl FnMut(u64, usize) -> Option<usize>,
    ) -> Option<Self> {
        let room = keeps.checked_add(spare(keeps))?;
        let lists = place(slots, size_of::<List>())?;
        Some(Self { spec: spec.clone(), keeps, room, lists, elements: place(room, spec.dtype.size())? })
    }

    /// Bytes held, for a ring of `slots` frames.
    pub(super) fn memory(&self, slots: u64) -> usize {
        slots as usize * size_of::<List>() + self.room as usize * self.spec.dtype.size()
    }
}

/// What a block does to the ragged columns.
#[derive(Default)]
pub(super) struct Room {
    /// Frames below this number go, as their elements do.
    pub keep: u64,
    /// By column: the number of the block's first element, and that below which elements are overwritten.
    columns: Vec<(u64, u64)>,
    /// The slots of the block's frames, in ring order.
    order: Vec<usize>,
}

impl Room {
    /// Makes room for a block behind the frames of a window. Errors: a frame with more elements than are kept.
    pub(super) fn make(&mut self, ring: &Ring, frames: &dyn Frames, window: Window) -> Result<(), Error> {
        self.keep = 0;
        self.columns.clear();
        if ring.ragged.is_empty() {
            return Ok(());
        }
        self.list_slots(frames);
        for (i, column) in ring.ragged.iter().enumerate() {
            let size = column.spec.dtype.size();
            let lens = self.order.iter().map(|slot| (frames.list(i, *slot).len() / size) as u64);
            if let Some(long) = lens.clone().find(|len| *len > column.keeps) {
                let legal = format!("at most ragged_elements, {}, in the list of a frame", column.keeps);
                return Err(Error::config("frames", format!("{long} elements of {:?}", column.spec.name), legal));
            }
            let last = window.head.checked_sub(1).map_or(List::default(), |last| ring.list(column, last));
            let begin = last.first + last.len;
            let end = begin + lens.clone().sum::<u64>();
            self.keep = self.keep.max(oldest(ring, column, window, begin, end.saturating_sub(column.keeps), lens));
            self.columns.push((begin, end.saturating_sub(column.room)));
        }
        Ok(())
    }

    /// Whether elements of a frame that was there, or of one behind it, are overwritten.
    pub(super) fn overwrites(&self, ring: &Ring, frame: u64) -> bool {
        let columns = ring.ragged.iter().zip(&self.columns);
        columns.into_iter().any(|(column, (_, bound))| ring.list(column, frame).first < *bound)
    }

    /// Lists the frames' slots: time-major ones without gaps tick by tick, others row by row.
    fn list_slots(&mut self, frames: &dyn Frames) {
        self.order.clear();
        let (slots, rows) = (frames.slots(), frames.rows().unwrap_or(1));
        if slots == frames.frames() && frames.rows().is_some() {
            return self.order.extend(0..slots);
        }
        let flags: &[Flags] = &bytemuck::cast_slice(frames.bytes(column::FLAGS))[..slots];
        let by_row = (0..rows).flat_map(|row| (row..slots).step_by(rows));
        self.order.extend(by_row.filter(|slot| flags[*slot].valid()));
    }

    /// Writes the lists of the block's frames but for the first `skip`, from frame number `head` on.
    pub(super) fn write(&self, ring: &Ring, frames: &dyn Frames, head: u64, skip: usize) {
        for (i, (column, (begin, _))) in ring.ragged.iter().zip(&self.columns).enumerate() {
            let mut first = *begin;
            for (at, slot) in self.order.iter().enumerate() {
                let (bytes, frame) = (frames.list(i, *slot), head + at as u64);
                let list = List { first, len: (bytes.len() / column.spec.dtype.size()) as u64 };
                first += list.len;
                if at >= skip {
                    ring.write_list(column, frame, list, bytes);
                }
            }
        }
    }
}

/// The oldest frame whose elements are numbers from `bound` on, of those in the window and of a block behind them, whose
/// elements begin with number `begin`.
fn oldest(
    ring: &Ring,
    column: &Ragged,
    window: Window,
    begin: u64,
    bound: u64,
    mut lens: impl Iterator<Item = u64>,
) -> u64 {
    let (mut low, mut high) = (window.tail, window.head);
    if bound > begin {
        let (mut first, mut frame) = (begin, window.head);
        while first < bound
            && let Some(len) = lens.next()
        {
            (first, frame) = (first + len, frame + 1);
        }
        return frame;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if ring.list(column, middle).first < bound { low = middle + 1 } else { high = middle }
    }
    low
}

impl Ring {
    /// The elements of a frame that is in the window, pinned, or as the writer left it.
    fn list(&self, column: &Ragged, frame: u64) -> List {
        let (mut list, slot) = (List::default(), (frame % self.turns.slots) as usize);
        let place = Run { first: slot, step: 1, len: 1 };
        // SAFETY: the caller is the writer, the only one who writes there, or the frame is pinned or in the window, whose
        // frames no writer takes. Test: `tests/replay/ragged.rs`.
        unsafe { self.cells.gather(column.lists, size_of::<List>(), place, bytemuck::bytes_of_mut(&mut list)) };
        list
    }

    /// The lists of pinned frames in column `i`, at `slots` or where `moves` say if there are any.
    pub(super) fn lists(&self, _: &Pin<'_>, i: usize, slots: &[usize], moves: &[Move], to: &mut [List]) {
        let (place, to) = (self.ragged[i].lists, bytemuck::cast_slice_mut(to));
        // SAFETY: writers leave frames alone that are pinned. Test: `tests/replay/ragged.rs`.
        unsafe {
            match moves {
                [] => self.cells.gather_each(place, size_of::<List>(), slots, to),
                moves => self.cells.gather_moves([(place, size_of::<List>(), to)], moves, &[]),
            }
        }
    }

    /// Copies the elements of a list of a pinned frame.
    pub(super) fn elements(&self, _: &Pin<'_>, i: usize, list: List, to: &mut [u8]) {
        let Ragged { spec, room, elements, .. } = &self.ragged[i];
        let (size, mut copied) = (spec.dtype.size(), 0);
        for run in parts(list, *room) {
            let part = Move { run, to: copied };
            copied += run.len;
            // SAFETY: writers leave the elements of frames alone that are pinned. Test: `tests/replay/ragged.rs`.
            unsafe { self.cells.gather_moves([(*elements, size, &mut *to)], &[part], &[]) };
        }
    }

    /// Writes the list of a frame that the writer has got. Writers take turns.
    pub(super) fn write_list(&self, column: &Ragged, frame: u64, list: List, bytes: &[u8]) {
        let slot = (frame % self.turns.slots) as usize;
        let (whole, mut copied) = (Run { first: 0, step: 1, len: 1 }, 0);
        // SAFETY: `reserve` gave the writer the slot, and the elements that `Room` says it overwrites: the frames that had
        // them are out of the window and not pinned. Test: `tests/replay/ragged.rs`.
        unsafe {
            self.cells.scatter(column.lists, size_of::<List>(), slot, bytemuck::bytes_of(&list), whole);
            for part in parts(list, column.room) {
                let source = Run { first: copied, step: 1, len: part.len };
                self.cells.scatter(column.elements, column.spec.dtype.size(), part.first, bytes, source);
                copied += part.len;
            }
        }
    }
}

/// Where the elements of a list lie: two runs if they go over the ring's end.
fn parts(list: List, room: u64) -> impl Iterator<Item = Run> {
    let first = (list.first % room.max(1)) as usize;
    let before = (list.len as usize).min(room as usize - first);
    let runs = [Run { first, step: 1, len: before }, Run { first: 0, step: 1, len: list.len as usize - before }];
    runs.into_iter().filter(|run| run.len > 0)
}
