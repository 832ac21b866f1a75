//! Contract: the protocol by which writers, readers and edits share a replay ring's slots holds in every order of threads.
//!
//! `src/replay/turns.rs` is compiled here against modelled locks. Slots are cells that end the run if two threads touch
//! one without a lock or a handover between them. Two threads run in every order there is, three in those with up to a
//! few preemptions.

use std::{ops::Range, sync::Arc, time::Duration};

use loom::{cell::UnsafeCell, model::Builder, sync::Mutex, thread};
use turns::{TimedOut, Turns, Window};

#[path = "replay_model/sync.rs"]
mod sync;
#[path = "../src/replay/turns.rs"]
mod turns;

/// Frames that are kept, and slots for them.
const CAPACITY: u64 = 2;
const SLOTS: u64 = 3;
/// Elements of each frame's list, and room for elements: less than `SLOTS` lists take.
const ELEMENTS: u64 = 2;
const ROOM: u64 = 5;
/// For waits that have to end by themselves.
const EVER: Duration = Duration::MAX;
/// What an edit adds to a frame.
const EDITED: u64 = 1000;

/// A ring of two columns that both hold the frame's number.
struct Ring {
    turns: Turns<()>,
    columns: [Vec<UnsafeCell<u64>>; 2],
    /// Of a ragged column: those of frame `f` are numbers from `f * ELEMENTS` on, number `e` lies at `e % ROOM`.
    elements: Vec<UnsafeCell<u64>>,
    writer: Mutex<()>,
}

impl Ring {
    /// Full: frames 0 and 1 are there.
    #[expect(clippy::arc_with_non_send_sync, reason = "the model's threads take turns")]
    fn full() -> Arc<Self> {
        let column = || (0..SLOTS).map(|_| UnsafeCell::new(0)).collect();
        let turns = Turns::new(CAPACITY, SLOTS, Window::default(), ());
        let elements = (0..ROOM).map(UnsafeCell::new).collect();
        let ring = Arc::new(Self { turns, columns: [column(), column()], elements, writer: Mutex::new(()) });
        ring.write(CAPACITY, EVER).expect("nobody reads");
        ring
    }

    fn set(&self, column: usize, frame: u64, value: u64) {
        // SAFETY: the cell ends the run if anyone else is there.
        #[expect(unsafe_code, reason = "cells that find races")]
        self.columns[column][(frame % SLOTS) as usize].with_mut(|cell| unsafe { *cell = value });
    }

    fn get(&self, column: usize, frame: u64) -> u64 {
        // SAFETY: the cell ends the run if anyone writes there.
        #[expect(unsafe_code, reason = "cells that find races")]
        self.columns[column][(frame % SLOTS) as usize].with(|cell| unsafe { *cell })
    }

    /// Writes a block as `Replay::extend` does; returns the frames' numbers.
    fn write(&self, frames: u64, deadline: Duration) -> Result<Range<u64>, TimedOut> {
        let _turn = self.writer.lock();
        let state = self.turns.reserve(frames, 0, |_| false, |_| (), deadline)?;
        let head = state.window.head;
        drop(state);
        // What the block itself overwrites is not written.
        let first = head + frames.saturating_sub(CAPACITY);
        for column in [0, 1] {
            (first..head + frames).for_each(|frame| self.set(column, frame, frame));
        }
        Ok(self.turns.show(frames, 0, |state| state.window.head - frames..state.window.head))
    }

    /// Writes a frame with its list, as `Replay::extend` does one of a ragged column: frames whose elements it overwrites
    /// are `lost`, if `waiting` says so.
    fn write_list(&self, waiting: bool) {
        let _turn = self.writer.lock();
        let head = self.turns.lock().window.head;
        let bound = ((head + 1) * ELEMENTS).saturating_sub(ROOM);
        let lost = |frame| waiting && frame * ELEMENTS < bound;
        let keep = (head + 1).saturating_sub(CAPACITY);
        drop(self.turns.reserve(1, keep, lost, |_| (), EVER).expect("readers end"));
        for element in head * ELEMENTS..(head + 1) * ELEMENTS {
            // SAFETY: the cell ends the run if anyone else is there.
            #[expect(unsafe_code, reason = "cells that find races")]
            self.elements[(element % ROOM) as usize].with_mut(|cell| unsafe { *cell = element });
        }
        self.turns.show(1, 0, |_| ());
    }

    /// Reads the lists of all frames.
    fn read_lists(&self) {
        let mut state = self.turns.lock_to_read(EVER).expect("edits end");
        let Window { tail, head } = state.window;
        let _pin = self.turns.pin(&mut state, tail);
        drop(state);
        for element in tail * ELEMENTS..head * ELEMENTS {
            // SAFETY: the cell ends the run if anyone writes there.
            #[expect(unsafe_code, reason = "cells that find races")]
            self.elements[(element % ROOM) as usize].with(|cell| assert_eq!(unsafe { *cell }, element));
        }
    }

    /// Reads the frames from the newest `newest` on as a sampler does; with `advancing` as a checkpoint does.
    fn read(&self, newest: u64, advancing: bool) {
        let mut state = self.turns.lock_to_read(EVER).expect("edits end");
        let Window { tail, head } = state.window;
        assert!(tail <= head && head - tail <= CAPACITY);
        let drawn = head.saturating_sub(newest).max(tail)..head;
        if drawn.is_empty() {
            return;
        }
        let mut pin = self.turns.pin(&mut state, drawn.start);
        drop(state);
        for frame in drawn {
            assert!(frame >= pin.frame());
            self.check(frame);
            if advancing {
                pin.advance(frame + 1);
            }
        }
    }

    /// The frame is whole, and that frame.
    fn check(&self, frame: u64) {
        let value = self.get(0, frame);
        assert_eq!(value, self.get(1, frame), "a whole frame");
        assert_eq!(value % EDITED, frame, "the frame that was drawn");
    }

    /// Edits a frame as `Replay::update_if_present` does; returns whether it was there.
    fn edit(&self, frame: u64, deadline: Duration) -> Result<bool, TimedOut> {
        let state = self.turns.lock_to_edit(frame, deadline)?;
        let there = state.contains(frame);
        if there {
            assert!(!state.read_before(frame + 1));
            [0, 1].into_iter().for_each(|column| self.set(column, frame, self.get(column, frame) + EDITED));
        }
        Ok(there)
    }

    /// When all is over: `written` frames were written, the newest are there, nobody holds any.
    fn check_end(&self, written: u64) {
        let state = self.turns.lock_to_read(EVER).expect("edits end");
        assert_eq!(state.window, Window { tail: written - CAPACITY, head: written });
        assert!(!state.read_before(u64::MAX), "a pin that is left");
        (state.window.tail..state.window.head).for_each(|frame| self.check(frame));
    }
}

/// Goes through the orders of a main thread and `others`: those with up to `preemptions` preemptions, or all.
fn every_order<const N: usize>(
    preemptions: impl Into<Option<usize>>,
    written: u64,
    others: [fn(&Ring); N],
    main: fn(&Ring),
) {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions.into();
    builder.check(move || {
        let ring = Ring::full();
        let threads = others.map(|other| {
            let ring = ring.clone();
            thread::spawn(move || other(&ring))
        });
        main(&ring);
        threads.into_iter().for_each(|thread| thread.join().expect("a thread that ends"));
        ring.check_end(written);
    });
    assert!(sync::WAITS.get() > 0, "nobody ever waited");
}

fn write_one_by_one<const N: u64>(ring: &Ring) {
    let mut last = None;
    for _ in 0..N {
        let written = ring.write(1, EVER).expect("readers end");
        assert!(last.is_none_or(|last| written.start > last), "frames behind those before");
        last = Some(written.start);
    }
}

#[test]
fn a_writer_and_a_reader() {
    every_order(None, 5, [|ring| ring.read(2, false)], write_one_by_one::<3>);
}

/// Blocks that the spare slots hold never take what is there away before they show what comes.
#[test]
fn a_full_buffer_stays_full() {
    let look = |ring: &Ring| {
        assert_eq!(ring.turns.lock().window.len(), CAPACITY);
    };
    Builder::new().check(move || {
        let ring = Ring::full();
        let writer = ring.clone();
        let writer = thread::spawn(move || write_one_by_one::<2>(&writer));
        (0..2).for_each(|_| look(&ring));
        writer.join().expect("a thread that ends");
    });
}

#[test]
fn a_checkpoint_lets_a_writer_go_on() {
    every_order(5, 5, [|ring| ring.read(2, true)], write_one_by_one::<3>);
}

#[test]
fn a_pin_that_moves_wakes_a_writer() {
    every_order(None, 4, [write_one_by_one::<2>], |ring| {
        let mut state = ring.turns.lock_to_read(EVER).expect("edits end");
        let oldest = state.window.tail;
        let mut pin = ring.turns.pin(&mut state, oldest);
        drop(state);
        pin.advance(oldest + 1);
        while ring.turns.lock().window.head < 4 {
            thread::yield_now();
        }
        drop(pin);
    });
}

#[test]
fn a_writer_of_blocks_and_two_readers() {
    every_order(4, 8, [|ring| ring.read(2, false), |ring| ring.read(1, false)], |ring| {
        [2, 4].into_iter().for_each(|frames| _ = ring.write(frames, EVER).expect("readers end"));
    });
}

#[test]
fn two_writers_and_a_reader() {
    every_order(4, 6, [write_one_by_one::<2>, |ring| ring.read(2, false)], write_one_by_one::<2>);
}

#[test]
fn an_edit_a_reader_and_a_writer() {
    every_order(4, 4, [|ring| ring.read(2, false), write_one_by_one::<2>], |ring| {
        ring.edit(1, EVER).expect("readers end");
    });
}

#[test]
fn two_edits_and_readers_that_come_later() {
    every_order(4, 3, [|ring| _ = ring.edit(0, EVER), |ring| (0..2).for_each(|_| ring.read(2, false))], |ring| {
        assert!(ring.edit(1, EVER).expect("readers end"), "a frame that stays");
        ring.write(1, EVER).expect("readers end");
    });
}

/// Who holds frames for long, as a checkpoint does, may read others although an edit waits for it.
#[test]
fn a_long_pin_and_an_edit() {
    every_order(None, 2, [|ring| _ = ring.edit(1, EVER)], |ring| {
        let state = ring.turns.lock_to_read(EVER).expect("edits end");
        let oldest = state.window.tail;
        let pin = ring.turns.hold(state, oldest);
        ring.read(2, false);
        drop(pin);
    });
}

/// A writer or an edit that gives up: readers and writers go on.
#[test]
fn waits_that_time_out() {
    every_order(4, 4, [|ring| ring.read(2, false), |ring| _ = ring.edit(1, Duration::ZERO)], |ring| {
        let mut left = 2;
        while left > 0 {
            match ring.write(1, Duration::ZERO) {
                Ok(_) => left -= 1,
                Err(TimedOut) => thread::yield_now(),
            }
        }
    });
}

#[test]
fn a_buffer_that_is_emptied() {
    every_order(4, 5, [|ring| ring.read(2, false), |ring| ring.read(1, true)], |ring| {
        write_one_by_one::<1>(ring);
        let turn = ring.writer.lock();
        let mut state = ring.turns.lock();
        state.release(u64::MAX);
        assert_eq!(state.window, Window { tail: 3, head: 3 });
        drop(state);
        drop(turn);
        write_one_by_one::<2>(ring);
    });
}

/// Who used frames up lets go of them, also while a writer writes and others read.
#[test]
fn frames_that_are_released() {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(move || {
        let ring = Ring::full();
        let (writer, reader) = (ring.clone(), ring.clone());
        let writer = thread::spawn(move || write_one_by_one::<2>(&writer));
        let reader = thread::spawn(move || reader.read(2, false));
        let mut state = ring.turns.lock();
        let tail = state.window.tail;
        state.release(tail + 1);
        drop(state);
        ring.read(2, true);
        [writer, reader].into_iter().for_each(|thread| thread.join().expect("a thread that ends"));
        let Window { tail, head } = ring.turns.lock().window;
        assert!(head == 4 && tail >= 2);
        (tail..head).for_each(|frame| ring.check(frame));
    });
}

/// The lock by itself keeps what is in the window.
#[test]
fn a_look_under_the_lock() {
    let look = |ring: &Ring| {
        let state = ring.turns.lock();
        (state.window.tail..state.window.head).for_each(|frame| ring.check(frame));
    };
    every_order(4, 5, [look, |ring| ring.read(2, false)], write_one_by_one::<3>);
}

/// A writer has slots, but waits for the elements of a frame that is read.
fn lists(waiting: bool) {
    Builder::new().check(move || {
        let ring = Ring::full();
        let reader = ring.clone();
        let reader = thread::spawn(move || (0..2).for_each(|_| reader.read_lists()));
        (0..2).for_each(|_| ring.write_list(waiting));
        reader.join().expect("a thread that ends");
    });
    assert!(sync::WAITS.get() > 0, "nobody ever waited");
}

#[test]
fn a_writer_of_lists_and_a_reader() {
    lists(true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_writer_that_waits_for_slots_alone_is_found() {
    lists(false);
}

/// The model finds what the protocol prevents.
#[test]
#[should_panic(expected = "Causality violation")]
fn a_reader_without_a_pin_is_found() {
    let unpinned = |ring: &Ring| {
        let Window { tail, head } = ring.turns.lock_to_read(EVER).expect("edits end").window;
        (tail..head).for_each(|frame| ring.check(frame));
    };
    every_order(4, 4, [unpinned], write_one_by_one::<2>);
}
