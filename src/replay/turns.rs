//! Whose turn it is: which slots of a ring a writer, a reader or an edit may touch, and when.
//!
//! Nothing here touches a slot, and nothing else keeps them apart. `tests/replay_model.rs` compiles this very file
//! against modelled locks and goes through the orders in which threads can run.
//!
//! | who | may touch | from | until |
//! |---|---|---|---|
//! | a writer | the slots of the frames from `head` on that it took | [`reserve`](Turns::reserve) | [`show`](Turns::show) |
//! | a reader | frames of the window from the one that it pinned on | [`pin`](Turns::pin) | [`advance`](Pin::advance), drop |
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

/// A wait for readers took longer than it may.
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
    /// Edits that wait until readers are gone: new ones wait for them.
    edits: u32,
    /// Threads that wait for a change: to wake nobody would be a call of the system all the same.
    waiting: u32,
    behind: B,
}

impl<B> State<B> {
    /// Empties the window. Between two writers only.
    pub(super) fn forget(&mut self) {
        self.window.tail = self.window.head;
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
        let state = State { window, pins: Vec::new(), edits: 0, waiting: 0, behind };
        Self { capacity, slots, state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<B>> {
        sync::lock(&self.state)
    }

    /// The lock, for one who will pin frames: waits until no edit waits.
    pub(super) fn lock_to_read(&self) -> MutexGuard<'_, State<B>> {
        let mut state = self.lock();
        state.waiting += 1;
        let waited = self.changed.wait_while(state, |state| state.edits > 0);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
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

    /// Takes the room for `frames` new frames, which nobody draws before they are shown: waits until no frame is pinned
    /// that they overwrite, or of which `lost` says that other memory of it, or of one behind it, is. Frames below number
    /// `keep` leave the window, whether their slots are needed or not. The lock is held.
    pub(super) fn reserve(
        &self,
        frames: u64,
        keep: u64,
        lost: impl Fn(u64) -> bool,
        deadline: Duration,
    ) -> Result<MutexGuard<'_, State<B>>, TimedOut> {
        let read = |state: &State<B>| {
            let slots = (state.window.head + frames).saturating_sub(self.slots);
            state.pins.iter().any(|pin| *pin < slots || lost(*pin))
        };
        let (mut state, timed_out) = self.wait_while(self.lock(), deadline, read);
        if timed_out {
            return Err(TimedOut);
        }
        let Window { tail, head } = state.window;
        state.window.tail = (head + frames).saturating_sub(self.capacity).max(keep).clamp(tail, head);
        Ok(state)
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
        Pin { turns: self, frame }
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
        self.turns.unlock(state);
    }
}
