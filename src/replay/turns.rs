//! Whose turn it is: which slots of a ring a writer, a reader or an edit may touch, and when.
//!
//! Nothing here touches a slot, and nothing else keeps them apart. `tests/replay_model.rs` compiles this very file
//! against modelled locks and goes through the orders in which threads can run.
//!
//! | who | may touch | from | until |
//! |---|---|---|---|
//! | a writer | the slots of the frames from `head` on that it took | [`reserve`](Turns::reserve) | [`show`](Turns::show) |
//! | a reader | frames of the window from the one that it pinned on | [`pin`](Turns::pin), [`hold`](Turns::hold) | [`advance`](Pin::advance), drop |
//! | who holds the lock | frames of the window, to read | [`lock`](Turns::lock) | unlock |
//! | an edit | frames of the window up to `newest`, to write | [`lock_to_edit`](Turns::lock_to_edit) | unlock |
//!
//! Writers take turns with each other by a lock of their own.

use std::{
    ops::{Deref, DerefMut},
    sync::PoisonError,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::sync::{self, Condvar, Mutex, MutexGuard};

/// The frames that are there: from `tail` to below `head`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Window {
    pub tail: u64,
    pub head: u64,
}

impl Window {
    /// How many frames are there.
    pub(super) fn len(self) -> u64 {
        self.head - self.tail
    }
}

/// A wait for others took longer than it may.
#[derive(Debug)]
pub(super) struct TimedOut;

/// The turns of a ring whose frame `f` lies in slot `f % slots`.
pub(super) struct Turns<B> {
    /// Frames that are kept.
    pub capacity: u64,
    /// Room: `capacity` and what a writer may take while old frames are read.
    pub slots: u64,
    state: Mutex<State<B>>,
    changed: Condvar,
}

/// What is behind the lock; also `behind`, which it stands for.
pub(super) struct State<B> {
    pub window: Window,
    /// Oldest frames that readers hold.
    pins: Vec<u64>,
    /// Pins among them that last long.
    held: u32,
    /// Edits that wait until readers are gone: new ones wait for them.
    edits: u32,
    /// Threads that wait for a change: to wake nobody would be a call of the system all the same.
    waiting: u32,
    behind: B,
}

impl<B> State<B> {
    /// Lets go of the frames below number `bound`. Who holds any keeps them.
    pub(super) fn release(&mut self, bound: u64) {
        self.window.tail = bound.clamp(self.window.tail, self.window.head);
    }

    pub(super) fn contains(&self, frame: u64) -> bool {
        (self.window.tail..self.window.head).contains(&frame)
    }

    /// Whether a reader holds any frame before number `end`.
    pub(super) fn read_before(&self, end: u64) -> bool {
        self.pins.iter().any(|pin| *pin < end)
    }
}

impl<B> Deref for State<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.behind
    }
}

impl<B> DerefMut for State<B> {
    fn deref_mut(&mut self) -> &mut B {
        &mut self.behind
    }
}

impl<B> Turns<B> {
    /// `slots` are more than `capacity`, or writers wait for every reader.
    pub(super) fn new(capacity: u64, slots: u64, window: Window, behind: B) -> Self {
        let state = State { window, pins: Vec::new(), held: 0, edits: 0, waiting: 0, behind };
        Self { capacity, slots, state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<B>> {
        sync::lock(&self.state)
    }

    /// The lock, for one who will pin frames: waits until no edit waits. One that waits for a pin that lasts long stops
    /// nobody.
    pub(super) fn lock_to_read(&self, deadline: Duration) -> Result<MutexGuard<'_, State<B>>, TimedOut> {
        let edited = |state: &State<B>| state.edits > 0 && state.held == 0;
        let (state, timed_out) = self.wait_while(self.lock(), deadline, edited);
        if timed_out { Err(TimedOut) } else { Ok(state) }
    }

    /// The lock, when nobody reads frames up to number `newest` any more: as long as it is held they may be edited.
    pub(super) fn lock_to_edit(&self, newest: u64, deadline: Duration) -> Result<MutexGuard<'_, State<B>>, TimedOut> {
        let mut state = self.lock();
        state.edits += 1;
        let read = |state: &State<B>| state.pins.iter().any(|pin| *pin <= newest);
        let (mut state, timed_out) = self.wait_while(state, deadline, read);
        state.edits -= 1;
        self.changed.notify_all();
        if timed_out { Err(TimedOut) } else { Ok(state) }
    }

    /// Takes the room for `frames` new frames, which nobody draws before they are shown: those whose slots they need leave
    /// the window, and those below number `keep`; then waits until none is pinned that they overwrite, or of which `lost`
    /// says that other memory of it, or of one behind it, is. `with` sees the smaller window before anyone else. The lock
    /// is held.
    pub(super) fn reserve(
        &self,
        frames: u64,
        keep: u64,
        lost: impl Fn(u64) -> bool,
        with: impl FnOnce(&mut State<B>),
        deadline: Duration,
    ) -> Result<MutexGuard<'_, State<B>>, TimedOut> {
        let mut state = self.lock();
        let Window { tail, head } = state.window;
        let overwritten = (head + frames).saturating_sub(self.slots);
        // Before the wait: nobody pins them any more.
        state.window.tail = overwritten.max(keep).clamp(tail, head);
        with(&mut state);
        let read = |state: &State<B>| state.pins.iter().any(|pin| *pin < overwritten || lost(*pin));
        let (state, timed_out) = self.wait_while(state, deadline, read);
        if timed_out { Err(TimedOut) } else { Ok(state) }
    }

    /// Shows `frames` frames that were written, but for those below number `keep`. `with` sees the new window before
    /// anyone else.
    pub(super) fn show<R>(&self, frames: u64, keep: u64, with: impl FnOnce(&mut State<B>) -> R) -> R {
        let mut state = self.lock();
        let head = state.window.head + frames;
        state.window = Window { tail: state.window.tail.max(head.saturating_sub(self.capacity)).max(keep), head };
        let result = with(&mut state);
        self.unlock(state);
        result
    }

    /// Keeps the frames from `frame` on until the pin is dropped.
    pub(super) fn pin(&self, state: &mut State<B>, frame: u64) -> Pin<'_, B> {
        debug_assert!(frame >= state.window.tail, "a frame that is there");
        state.pins.push(frame);
        Pin { turns: self, frame, lasts: false }
    }

    /// The same for long: edits that wait for it let others read.
    pub(super) fn hold(&self, mut state: MutexGuard<'_, State<B>>, frame: u64) -> Pin<'_, B> {
        state.held += 1;
        let mut pin = self.pin(&mut state, frame);
        pin.lasts = true;
        self.unlock(state);
        pin
    }

    /// Whether it ended with the deadline, after all the time in which `waits` held.
    fn wait_while<'t>(
        &self,
        mut state: MutexGuard<'t, State<B>>,
        deadline: Duration,
        mut waits: impl FnMut(&State<B>) -> bool,
    ) -> (MutexGuard<'t, State<B>>, bool) {
        state.waiting += 1;
        let waited = self.changed.wait_timeout_while(state, deadline, |state| waits(state));
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        (state, waited.timed_out())
    }

    /// Unlocks a state that others may have waited for.
    fn unlock(&self, state: MutexGuard<'_, State<B>>) {
        let waiting = state.waiting > 0;
        drop(state);
        if waiting {
            self.changed.notify_all();
        }
    }
}

/// Keeps frames from being overwritten until it is dropped.
pub(super) struct Pin<'t, B> {
    turns: &'t Turns<B>,
    frame: u64,
    lasts: bool,
}

impl<B> Pin<'_, B> {
    /// The oldest frame that it keeps.
    pub(super) fn frame(&self) -> u64 {
        self.frame
    }

    /// Lets go of the frames before `frame`, which it keeps.
    pub(super) fn advance(&mut self, frame: u64) {
        debug_assert!(frame >= self.frame, "a frame that is kept");
        let mut state = self.turns.lock();
        if let Some(pin) = state.pins.iter_mut().find(|pin| **pin == self.frame) {
            *pin = frame;
        }
        self.turns.unlock(state);
        self.frame = frame;
    }
}

impl<B> Drop for Pin<'_, B> {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        if let Some(i) = state.pins.iter().position(|frame| *frame == self.frame) {
            state.pins.swap_remove(i);
        }
        state.held -= u32::from(self.lasts);
        self.turns.unlock(state);
    }
}
