//! What threads wait with. The model check of [`turns`](super::turns) puts its own in the place of this module.

use std::{
    hint,
    sync::{PoisonError, TryLockError},
};

pub(super) use std::sync::{Condvar, Mutex, MutexGuard};

/// How often a lock is looked at before its thread sleeps, and pauses between two looks: some tens of microseconds, about
/// as long as it takes to be woken. Who holds a ring's lock needs a few.
const LOOKS: u32 = 64;
const PAUSES: u32 = 16;

/// Locks, most often without a call of the system.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..LOOKS {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(guard)) => return guard.into_inner(),
            Err(TryLockError::WouldBlock) => (0..PAUSES).for_each(|_| hint::spin_loop()),
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
