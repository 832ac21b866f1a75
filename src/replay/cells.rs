//! Memory that is written in one place while it is read in others.
#![expect(unsafe_code, reason = "disjoint places of one allocation are written and read at the same time")]

use super::{Storage, mapped::Mapped};
use crate::{components::fetch_bytes, error::Error};

/// Bytes of a cache line: what the memory is aligned to.
pub(super) const LINE: usize = 64;

/// Bytes of a run that the memory is asked for: the processor itself sees that a longer one goes on.
const MOST: usize = 512;

/// Zeroed bytes at a fixed place. Who reads or writes says that nobody else writes there meanwhile; bounds are checked.
pub(super) struct Cells {
    memory: Mapped,
    bytes: usize,
}

/// Values that lie `step` values apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Place of the first value.
    pub first: usize,
    /// Distance to the next.
    pub step: usize,
    /// Values.
    pub len: usize,
}

/// A run and where its first value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub run: Run,
    pub to: usize,
}

impl Run {
    /// The place behind the last value; 0 if there is none.
    fn end(self) -> usize {
        let last = |before| self.first.saturating_add(self.step.saturating_mul(before));
        self.len.checked_sub(1).map_or(0, |before| last(before).saturating_add(1))
    }
}

impl Cells {
    /// `bytes` zeros. Errors: more than there can be, or a file that cannot be made.
    pub(super) fn new(bytes: usize, storage: &Storage) -> Result<Self, Error> {
        let bytes = bytes.max(1);
        let refused = |_| Error::config("capacity", format!("{bytes} bytes"), "what memory holds");
        let memory = match storage {
            Storage::Memory => Mapped::memory(bytes).map_err(refused)?,
            Storage::File(path) => Mapped::new(path, bytes)?,
        };
        Ok(Self { memory, bytes })
    }

    /// Asks the memory for the values of `size` bytes of column `column`, a place in bytes, that lie in a run.
    #[inline]
    pub(super) fn fetch(&self, column: usize, size: usize, run: Run) {
        if run.step == 1 {
            let place = column.wrapping_add(run.first.wrapping_mul(size));
            fetch_bytes(self.memory.base().wrapping_add(place), run.len.wrapping_mul(size).min(MOST));
        }
    }

    /// Copies the values of a run of column `column`, a place in bytes, to `to`; a value has `size` bytes.
    ///
    /// # Safety
    /// Nobody writes those bytes meanwhile.
    #[inline]
    pub(super) unsafe fn gather(&self, column: usize, size: usize, run: Run, to: &mut [u8]) {
        // SAFETY: the caller's.
        unsafe { self.gather_moves([(column, size, to)], &[Move { run, to: 0 }], &[]) };
    }

    /// Copies the values that `moves` name, of columns: a place in bytes, the bytes of a value, and where they go.
    /// Meanwhile the memory is asked for the values of as many of the `later` ones.
    ///
    /// # Safety
    /// Nobody writes those bytes meanwhile.
    #[inline(always)]
    pub(super) unsafe fn gather_moves<'t>(
        &self,
        columns: impl IntoIterator<Item = (usize, usize, &'t mut [u8])>,
        moves: &[Move],
        later: &[Move],
    ) {
        // One check for all: it takes as long as a short copy.
        let len = moves.iter().map(|part| part.run.end()).max().unwrap_or(0);
        let room = moves.iter().map(|part| part.to.saturating_add(part.run.len)).max().unwrap_or(0);
        for (column, size, to) in columns {
            assert!(room.checked_mul(size).is_some_and(|room| room <= to.len()), "a place for each value");
            let (from, to) = (self.place(column, size, Run { first: 0, step: 1, len }), to.as_mut_ptr());
            for (i, Move { run, to: at }) in moves.iter().enumerate() {
                // Between the copies: a processor asks for few lines at a time, and copies until they are there.
                if let Some(later) = later.get(i) {
                    self.fetch(column, size, later.run);
                }
                let (from, to) = (from.wrapping_add(run.first * size), to.wrapping_add(at * size));
                // SAFETY: both bounds were checked; the caller says that nobody writes there; `to` is ours alone.
                unsafe {
                    match run.step {
                        1 => copy_near(from, to, run.len * size),
                        step => copy_together(from, step, to, size, run.len),
                    }
                }
            }
        }
    }

    /// Copies the values of `size` bytes at `slots` of column `column`, a place in bytes, to `to`, one behind the other.
    ///
    /// # Safety
    /// Nobody writes those bytes meanwhile.
    pub(super) unsafe fn gather_each(&self, column: usize, size: usize, slots: &[usize], to: &mut [u8]) {
        let Some(last) = slots.iter().max() else { return };
        assert!(to.len() == slots.len() * size, "a place for each value");
        // One check for all: the columns take most of the time where a sample is of single frames.
        let from = self.place(column, size, Run { first: 0, step: 1, len: last.saturating_add(1) });
        macro_rules! sized {
            ($($size:literal)*) => {
                match size {
                    0 => {}
                    $($size => for (slot, to) in slots.iter().zip(to.chunks_exact_mut($size)) {
                        // SAFETY: `slot` is at most `last`; the caller says that nobody writes there; `to` is ours alone.
                        unsafe { from.add(slot * $size).copy_to_nonoverlapping(to.as_mut_ptr(), $size) };
                    },)*
                    _ => for (slot, to) in slots.iter().zip(to.chunks_exact_mut(size)) {
                        // SAFETY: as above.
                        unsafe { copy_near(from.add(slot * size), to.as_mut_ptr(), size) };
                    },
                }
            };
        }
        sized!(1 2 4 8 12 16 24 32 64 96 128);
    }

    /// Copies the values of `size` bytes at `source` in `from` to column `column`, a place in bytes, from value `at` on.
    ///
    /// # Safety
    /// Nobody reads or writes those bytes of the column meanwhile.
    pub(super) unsafe fn scatter(&self, column: usize, size: usize, at: usize, from: &[u8], source: Run) {
        assert!(source.end().checked_mul(size).is_some_and(|end| end <= from.len()), "values that are there");
        let to = self.place(column, size, Run { first: at, step: 1, len: source.len });
        // SAFETY: both bounds were checked, and the caller says that the place is ours alone.
        unsafe { copy(from.as_ptr().add(source.first * size), source.step, to, 1, size, source.len) };
    }

    /// Where the first value of a run lies, all of whose values are within the memory.
    fn place(&self, column: usize, size: usize, run: Run) -> *mut u8 {
        let end = run.end().checked_mul(size).and_then(|end| end.checked_add(column));
        assert!(end.is_some_and(|end| end <= self.bytes), "values within the memory");
        // SAFETY: within the allocation, as just checked.
        unsafe { self.memory.base().add(column + run.first * size) }
    }
}

/// Copies `len` values of `size` bytes that lie `from_step` apart to places `to_step` apart.
///
/// # Safety
/// All those values are within their allocations, which do not overlap there.
#[inline(always)]
unsafe fn copy(from: *const u8, from_step: usize, to: *mut u8, to_step: usize, size: usize, len: usize) {
    if from_step == 1 && to_step == 1 {
        // SAFETY: the caller's.
        return unsafe { from.copy_to_nonoverlapping(to, size * len) };
    }
    // A copy of a size that is known when it is compiled is a move or two.
    macro_rules! fixed {
        ($($size:literal)*) => {
            match size {
                $($size => (0..len).for_each(|i| {
                    // SAFETY: the caller's.
                    unsafe { from.add(i * from_step * $size).copy_to_nonoverlapping(to.add(i * to_step * $size), $size) }
                }),)*
                _ => (0..len).for_each(|i| {
                    // SAFETY: the caller's.
                    unsafe { from.add(i * from_step * size).copy_to_nonoverlapping(to.add(i * to_step * size), size) }
                }),
            }
        };
    }
    fixed!(1 2 4 8 12 16 24 32 64 128);
}

/// Copies values that lie `step` apart to one behind the other. Not inlined, where it would take the registers of copies of
/// values that lie near each other.
///
/// # Safety
/// As `copy`.
#[inline(never)]
unsafe fn copy_together(from: *const u8, step: usize, to: *mut u8, size: usize, len: usize) {
    // SAFETY: the caller's.
    unsafe { copy(from, step, to, 1, size, len) };
}

/// Copies bytes. Where they are few a call of `memcpy` would take longer than the copy.
///
/// # Safety
/// All of them are within their allocations, which do not overlap there.
#[inline(always)]
unsafe fn copy_near(from: *const u8, to: *mut u8, bytes: usize) {
    /// The first and the last `N` bytes: all, of at most twice as many.
    ///
    /// # Safety
    /// As `copy_near`, and there are at least `N` bytes.
    #[inline(always)]
    unsafe fn ends<const N: usize>(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's.
        unsafe {
            from.cast::<[u8; N]>().copy_to_nonoverlapping(to.cast(), 1);
            from.add(bytes - N).cast::<[u8; N]>().copy_to_nonoverlapping(to.add(bytes - N).cast(), 1);
        }
    }
    // SAFETY: the caller's, and as many bytes as each takes.
    unsafe {
        match bytes {
            129.. => from.copy_to_nonoverlapping(to, bytes),
            65.. => ends::<64>(from, to, bytes),
            33.. => ends::<32>(from, to, bytes),
            16.. => ends::<16>(from, to, bytes),
            8.. => ends::<8>(from, to, bytes),
            4.. => ends::<4>(from, to, bytes),
            2.. => ends::<2>(from, to, bytes),
            1 => ends::<1>(from, to, bytes),
            0 => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_come_back_as_they_were_written() {
        for size in [1, 3, 4, 8, 10, 16, 20, 40, 60, 300] {
            let cells = Cells::new(64 + 20 * size, &Storage::Memory).expect("memory");
            let from: Vec<u8> = (0..40 * size).map(|i| (i % 251) as u8).collect();
            // SAFETY: one thread.
            unsafe { cells.scatter(64, size, 2, &from, Run { first: 1, step: 3, len: 10 }) };
            let mut to = vec![0; 5 * size];
            let (strided, near) = (Run { first: 2, step: 4, len: 3 }, Run { first: 10, step: 1, len: 2 });
            // SAFETY: one thread.
            unsafe {
                cells.gather(64, size, near, &mut to[..2 * size]);
                cells.gather(64, size, strided, &mut to[2 * size..]);
            }
            let wanted = [8, 9, 0, 4, 8].map(|i| &from[(1 + 3 * i) * size..][..size]);
            assert_eq!(to, wanted.concat());
        }
    }

    #[test]
    #[should_panic(expected = "within the memory")]
    fn bounds_are_checked() {
        let cells = Cells::new(64, &Storage::Memory).expect("memory");
        // SAFETY: one thread.
        unsafe { cells.gather(0, 8, Run { first: 7, step: 2, len: 2 }, &mut [0; 16]) };
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has not that much memory")]
    fn too_much_is_an_error() {
        assert!(Cells::new(usize::MAX / 2, &Storage::Memory).is_err());
    }

    #[test]
    fn places_are_written_while_others_are_read() {
        let cells = Cells::new(64, &Storage::Memory).expect("memory");
        std::thread::scope(|scope| {
            for half in [0, 4] {
                let cells = &cells;
                scope.spawn(move || {
                    for i in 0..20_u8 {
                        let place = Run { first: half, step: 1, len: 4 };
                        let mut to = [0; 32];
                        // SAFETY: each thread has a half of its own.
                        unsafe {
                            cells.scatter(0, 8, half, &[i; 32], Run { first: 0, ..place });
                            cells.gather(0, 8, place, &mut to);
                        }
                        assert_eq!(to, [i; 32]);
                    }
                });
            }
        });
    }
}
