//! The ring: columns that writers fill and samplers read at the same time.
//!
//! Frames are numbered from 0 in the order in which they are written; the window `tail..head` is there. A frame lies at
//! its number modulo the slots of the ring, of which there are a few more than the window holds:
//!
//! ```text
//!         tail                         head      head + block
//!   ────────┼────────────────────────────┼────────────┼──────
//!    gone   │       drawn and read       │  written   │ later
//! ```
//!
//! A writer takes the room that its frames need by moving `tail`, copies them where nobody looks, and shows them by moving
//! `head`. A reader pins the oldest frame that it drew; a writer waits, with a deadline, before it overwrites one that is
//! pinned. Only the two ends and the pins are behind a lock, never a copy.

use std::{sync::Arc, time::Duration};

use super::{
    Storage,
    cells::{Cells, LINE, Move, Run},
    index::{Index, Piece},
    lap::Lap,
    ragged::{Ragged, Room},
    sync::MutexGuard,
    turns::{self, TimedOut, Turns, Window},
};
use crate::{
    bytes::Bytes,
    components::{ColumnSpec, Frames, RaggedSpec},
    error::Error,
};

/// Runs that the memory is asked for while as many before them are copied: a core's first cache holds them.
pub(super) const AHEAD: usize = 8;

/// The columns of a ring and where they lie.
pub(super) struct Ring {
    /// Samples have them as well: the same ones, not a copy.
    pub specs: Arc<[ColumnSpec]>,
    /// By column: its place in the cells; the last is that of the frames' records.
    places: Box<[usize]>,
    pub ragged: Box<[Ragged]>,
    pub cells: Cells,
    pub turns: Turns<Kept>,
}

/// What is behind the lock, beside the window.
pub(super) struct Kept {
    pub index: Index,
    /// By column: how many of its values were edited, for those who keep what they read.
    pub edits: Vec<u64>,
    /// Frames that were written before the count of them began anew.
    pub uncounted: u64,
}

/// The window, the pins and the index.
pub(super) type State = turns::State<Kept>;

/// Keeps frames from being overwritten until it is dropped.
pub(super) type Pin<'r> = turns::Pin<'r, Kept>;

impl State {
    /// Frames ever written, or since the count began anew.
    pub(super) fn write_count(&self) -> u64 {
        self.window.head - self.uncounted
    }
}

/// Slots that are kept free for writers: a sixteenth of the capacity, within bounds.
pub(super) fn spare(capacity: u64) -> u64 {
    (capacity / 16).clamp(1, 1 << 16)
}

impl Ring {
    /// A ring of `capacity` frames; each ragged column keeps `elements` elements.
    pub(super) fn new(
        specs: &[ColumnSpec],
        ragged: &[RaggedSpec],
        (capacity, elements): (u64, u64),
        storage: &Storage,
    ) -> Result<Self, Error> {
        let refused = || Error::config("capacity", capacity, "what memory holds");
        let slots = capacity.checked_add(spare(capacity)).ok_or_else(refused)?;
        let mut bytes = 0_usize;
        let mut place = |values: u64, size: usize| {
            let column = usize::try_from(values).ok()?.checked_mul(size)?.checked_next_multiple_of(LINE)?;
            let place = bytes;
            bytes = bytes.checked_add(column)?;
            Some(place)
        };
        let strides = specs.iter().map(|spec| spec.stride).chain([size_of::<u32>()]);
        let places: Option<Box<_>> = strides.map(|stride| place(slots, stride)).collect();
        let lists: Option<Box<_>> = ragged.iter().map(|spec| Ragged::new(spec, elements, slots, &mut place)).collect();
        let (Some(places), Some(ragged)) = (places, lists) else { return Err(refused()) };
        let index = Index::new(specs[crate::components::column::OBSERVATION].stride);
        Ok(Self {
            specs: specs.into(),
            places,
            ragged,
            cells: Cells::new(bytes, storage)?,
            turns: Turns::new(
                capacity,
                slots,
                Window::default(),
                Kept { index, edits: vec![0; specs.len()], uncounted: 0 },
            ),
        })
    }

    /// Frames that are kept.
    pub(super) fn capacity(&self) -> u64 {
        self.turns.capacity
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.turns.lock()
    }

    /// The lock, for one who will pin frames: waits until no edit waits.
    pub(super) fn lock_to_read(&self, deadline: Duration) -> Result<MutexGuard<'_, State>, Error> {
        let late = |TimedOut| Error::Timeout { what: "editing frames of the replay buffer", deadline };
        self.turns.lock_to_read(deadline).map_err(late)
    }

    /// The lock, when nobody reads frames up to number `newest` any more: as long as it is held they may be edited.
    pub(super) fn lock_to_edit(&self, newest: u64, deadline: Duration) -> Result<MutexGuard<'_, State>, Error> {
        let late = |TimedOut| Error::Timeout { what: "reading the frames that are to be edited", deadline };
        self.turns.lock_to_edit(newest, deadline).map_err(late)
    }

    /// Overwrites the value of column `i` of a frame in the window, whose state is locked for it.
    #[expect(unsafe_code, reason = "the lock says that nobody reads the frame")]
    pub(super) fn edit(&self, state: &mut State, i: usize, frame: u64, value: &[u8]) {
        debug_assert!(!state.read_before(frame + 1), "a frame that nobody reads");
        assert!(state.contains(frame), "a frame that is there");
        state.edits[i] += 1;
        let slot = (frame % self.turns.slots) as usize;
        // SAFETY: writers leave frames of the window alone, readers have no pin at it or before, and get none while the
        // lock is held. Test: `tests/replay/edits.rs`.
        unsafe {
            self.cells.scatter(self.places[i], self.specs[i].stride, slot, value, Run { first: 0, step: 1, len: 1 });
        }
    }

    /// Bytes of a frame, over all columns.
    pub(super) fn frame_bytes(specs: &[ColumnSpec]) -> usize {
        specs.iter().map(|spec| spec.stride).sum::<usize>() + size_of::<u32>()
    }

    pub(super) fn memory(&self) -> usize {
        let lists: usize = self.ragged.iter().map(|column| column.memory(self.turns.slots)).sum();
        self.turns.slots as usize * Self::frame_bytes(&self.specs) + lists + self.lock().index.memory()
    }

    /// Takes the room for `frames` new frames, which nobody draws before they are shown: waits until no frame is pinned
    /// that they, or the elements of their lists, overwrite. The lock is held, so that the index can be told at once. Those
    /// frames are gone also if the wait takes too long.
    pub(super) fn reserve(&self, frames: u64, room: &Room, deadline: Duration) -> Result<MutexGuard<'_, State>, Error> {
        let late = |TimedOut| Error::Timeout { what: "reading the oldest frames of the replay buffer", deadline };
        let lost = |frame| room.overwrites(self, frame);
        let evict = |state: &mut State| {
            let tail = state.window.tail;
            state.index.evict(tail);
        };
        self.turns.reserve(frames, room.keep, lost, evict, deadline).map_err(late)
    }

    /// Copies values of a block into the columns, from frame number `at` on.
    pub(super) fn write(&self, frames: &dyn Frames, source: Run, at: u64) {
        for (i, (spec, place)) in self.specs.iter().zip(&self.places).enumerate() {
            self.scatter(*place, spec.stride, frames.bytes(i), source, at);
        }
    }

    /// Copies values of column `i`, the last being the frames' records, into it, from frame number `at` on. The ring is
    /// still the caller's alone.
    pub(super) fn restore(&mut self, i: usize, values: &[u8], at: u64) {
        let stride = self.specs.get(i).map_or(size_of::<u32>(), |spec| spec.stride);
        if stride > 0 {
            self.scatter(self.places[i], stride, values, Run { first: 0, step: 1, len: values.len() / stride }, at);
        }
    }

    /// Replaces window, index and counts. The ring is still the caller's alone.
    pub(super) fn set_state(&mut self, window: Window, kept: Kept) {
        self.turns = Turns::new(self.turns.capacity, self.turns.slots, window, kept);
    }

    /// Notes which records frames from number `at` on belong to.
    pub(super) fn write_records(&self, records: &[u32], at: u64) {
        let source = Run { first: 0, step: 1, len: records.len() };
        let place = self.places[self.specs.len()];
        self.scatter(place, size_of::<u32>(), bytemuck::cast_slice(records), source, at);
    }

    #[expect(unsafe_code, reason = "only the writer touches frames that are not shown yet")]
    fn scatter(&self, place: usize, size: usize, from: &[u8], source: Run, at: u64) {
        let slot = (at % self.turns.slots) as usize;
        let first = source.len.min(self.turns.slots as usize - slot);
        let rest = Run { first: source.first + first * source.step, len: source.len - first, ..source };
        // SAFETY: writers take turns, and `reserve` gave this one the slots: their old frames are out of the window and
        // not pinned, so that no reader is there or will be before `show`. Test: `tests/replay/stress.rs`.
        unsafe {
            self.cells.scatter(place, size, slot, from, Run { len: first, ..source });
            if rest.len > 0 {
                self.cells.scatter(place, size, 0, from, rest);
            }
        }
    }

    /// Shows `frames` frames that were written, but for those below number `keep`; returns the write count.
    pub(super) fn show(&self, frames: u64, keep: u64, observations: impl FnOnce(&mut Index)) -> u64 {
        self.turns.show(frames, keep, |state| {
            let tail = state.window.tail;
            observations(&mut state.index);
            state.index.evict(tail);
            state.write_count()
        })
    }

    /// Lets go of the frames below number `bound`.
    pub(super) fn release(&self, state: &mut State, bound: u64) {
        state.release(bound);
        let tail = state.window.tail;
        state.index.evict(tail);
    }

    /// Keeps the frames from `frame` on until the pin is dropped.
    pub(super) fn pin(&self, state: &mut State, frame: u64) -> Pin<'_> {
        self.turns.pin(state, frame)
    }

    /// The same for long: edits that wait for it let others read.
    pub(super) fn hold(&self, state: MutexGuard<'_, State>, frame: u64) -> Pin<'_> {
        self.turns.hold(state, frame)
    }

    /// Copies the values of column `i` at `pieces` to `to`, one behind the other. All of them are pinned by `pin`.
    pub(super) fn gather(&self, pin: &Pin<'_>, i: usize, pieces: &[Piece], to: &mut [u8]) {
        debug_assert!(pieces.iter().all(|piece| piece.first >= pin.frame()), "pinned frames");
        self.read(self.places[i], self.specs[i].stride, pieces, to);
    }

    /// Copies the records of pinned frames, as [`gather`](Self::gather) does a column.
    pub(super) fn gather_records(&self, pin: &Pin<'_>, piece: Piece, to: &mut [u8]) {
        debug_assert!(piece.first >= pin.frame(), "pinned frames");
        self.read(self.places[self.specs.len()], size_of::<u32>(), &[piece], to);
    }

    /// Copies values of column `i` of frames in the window, whose state is locked.
    pub(super) fn read_shown(&self, state: &State, i: usize, piece: Piece, to: &mut [u8]) {
        let Window { tail, head } = state.window;
        debug_assert!(piece.first >= tail && piece.first + u64::from(piece.len) <= head, "frames that are there");
        self.read(self.places[i], self.specs[i].stride, &[piece], to);
    }

    /// Asks the memory for the frames of a run.
    #[inline]
    pub(super) fn fetch(&self, run: Run) {
        for (spec, place) in self.specs.iter().zip(&self.places) {
            self.cells.fetch(*place, spec.stride, run);
        }
    }

    /// Copies the values of all columns that `moves` name to `columns`; the memory was asked for the first [`AHEAD`] of
    /// them. All are pinned by `_pin`.
    #[expect(unsafe_code, reason = "nobody writes frames that are pinned")]
    pub(super) fn gather_moves(&self, _pin: &Pin<'_>, moves: &[Move], columns: &mut [Bytes]) {
        let mut later = moves.chunks(AHEAD).skip(1);
        for moves in moves.chunks(AHEAD) {
            let columns = self.specs.iter().zip(&self.places).zip(&mut *columns);
            let columns = columns.map(|((spec, place), to)| (*place, spec.stride, to.bytes_mut()));
            // SAFETY: writers leave frames alone that are pinned. Test: `tests/replay/stress.rs`.
            unsafe { self.cells.gather_moves(columns, moves, later.next().unwrap_or_default()) };
        }
    }

    /// Copies the values of column `i` at `slots` to `to`, one behind the other. All of them are pinned by `_pin`.
    #[expect(unsafe_code, reason = "nobody writes frames that are pinned")]
    pub(super) fn gather_each(&self, _pin: &Pin<'_>, i: usize, slots: &[usize], to: &mut [u8]) {
        // SAFETY: writers leave frames alone that are pinned. Test: `tests/replay/stress.rs`.
        unsafe { self.cells.gather_each(self.places[i], self.specs[i].stride, slots, to) };
    }

    /// Where frames lie that are in the window.
    pub(super) fn lap(&self, window: Window) -> Lap {
        Lap::new(window.tail, self.turns.slots)
    }

    /// The records of the frames at `slots`, one for each of `to`. They are in the window, whose state is locked.
    #[expect(unsafe_code, reason = "nobody writes frames in the window while the lock is held")]
    pub(super) fn records_at(&self, _: &State, slots: &[usize], to: &mut [u32]) {
        let (place, to) = (self.places[self.specs.len()], bytemuck::cast_slice_mut(to));
        // SAFETY: writers take no frame out of the window without the lock. Test: `tests/replay/stress.rs`.
        unsafe { self.cells.gather_each(place, size_of::<u32>(), slots, to) };
    }

    /// The record of a frame in the window, whose state is locked.
    #[inline]
    pub(super) fn record_of(&self, state: &State, frame: u64) -> u32 {
        let mut record = [0; size_of::<u32>()];
        debug_assert!(state.contains(frame), "a frame that is there");
        self.read(
            self.places[self.specs.len()],
            size_of::<u32>(),
            &[Piece { first: frame, step: 1, len: 1 }],
            &mut record,
        );
        u32::from_ne_bytes(record)
    }

    /// The value of column `i` of a frame in the window, whose state is locked.
    pub(super) fn value(&self, state: &State, i: usize, frame: u64, to: &mut [u8]) {
        assert!(state.contains(frame), "a frame that is there");
        self.read(self.places[i], self.specs[i].stride, &[Piece { first: frame, step: 1, len: 1 }], to);
    }

    #[inline(always)]
    #[expect(unsafe_code, reason = "nobody writes frames that are pinned, or in the window while the lock is held")]
    fn read(&self, place: usize, size: usize, pieces: &[Piece], to: &mut [u8]) {
        let mut at = 0;
        for piece in pieces {
            let lap = Lap::new(piece.first, self.turns.slots);
            // SAFETY: writers leave frames alone that are pinned, and take none out of the window without the lock.
            self.moves(lap, *piece, at, |part| unsafe {
                self.cells.gather_moves([(place, size, &mut *to)], &[part], &[]);
            });
            at += piece.len as usize;
        }
    }

    /// The slots of a piece that goes to place `to` of a sample: two runs if it goes over the ring's end.
    #[inline]
    pub(super) fn moves(&self, lap: Lap, piece: Piece, to: usize, mut f: impl FnMut(Move)) {
        let (slots, step, len) = (self.turns.slots as usize, piece.step as usize, piece.len as usize);
        let first = lap.slot(piece.first);
        if first + step * (len - 1) < slots {
            return f(Move { run: Run { first, step, len }, to });
        }
        // A step as long as the ring would go round more than once: pieces are no longer than the window, which is
        // shorter than the ring.
        let before = (slots - first).div_ceil(step);
        f(Move { run: Run { first, step, len: before }, to });
        let first = lap.slot(piece.frame(before as u32));
        f(Move { run: Run { first, step, len: len - before }, to: to + before });
    }
}
