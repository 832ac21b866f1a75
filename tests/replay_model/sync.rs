//! Modelled locks, in the place of `src/replay/sync.rs`: the part of `std::sync` that the protocol uses.

use std::{
    cell::Cell,
    ops::{Deref, DerefMut},
    sync::LockResult,
    time::Duration,
};

use loom::thread;

std::thread_local! {
    /// Waits of all runs of a test: modelled threads are fibres of its thread.
    pub(super) static WAITS: Cell<u64> = const { Cell::new(0) };
}

pub(super) struct Mutex<T>(loom::sync::Mutex<T>);

pub(super) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    held: loom::sync::MutexGuard<'a, T>,
}

pub(super) struct Condvar(loom::sync::Condvar);

/// Whether a wait ended with its deadline.
pub(super) struct Waited(bool);

impl<T> Mutex<T> {
    pub(super) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// No thread finds it poisoned: the first panic ends the run.
    fn take(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, held: self.0.lock().expect("no poison") }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.take()
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.held
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.held
    }
}

impl Waited {
    pub(super) fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    pub(super) fn new() -> Self {
        Self(loom::sync::Condvar::new())
    }

    pub(super) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(super) fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        let MutexGuard { mutex, mut held } = guard;
        while condition(&mut held) {
            WAITS.set(WAITS.get() + 1);
            held = self.0.wait(held).expect("no poison");
        }
        Ok(MutexGuard { mutex, held })
    }

    /// The longest deadline never comes, any other while the others do something.
    pub(super) fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        deadline: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, Waited)> {
        if deadline == Duration::MAX {
            return Ok((self.wait_while(guard, condition).expect("no poison"), Waited(false)));
        }
        if condition(&mut guard) {
            WAITS.set(WAITS.get() + 1);
            let mutex = guard.mutex;
            drop(guard);
            thread::yield_now();
            guard = mutex.take();
        }
        let timed_out = condition(&mut guard);
        Ok((guard, Waited(timed_out)))
    }
}
