//! Which collectors write a buffer: by worker number, so that no two of them give their trajectories the same ids.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::error::Error;

/// The taken numbers.
#[derive(Default)]
pub(super) struct Seats(Mutex<BTreeSet<u16>>);

/// A collector's place at a buffer; free again when it is dropped.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    worker: u16,
}

impl Seats {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<u16>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(seats: &Arc<Self>, worker: u16) -> Result<Seat, Error> {
        let mut taken = seats.lock();
        if !taken.insert(worker) {
            let others: Vec<_> = taken.iter().map(u16::to_string).collect();
            let legal =
                format!("a number that no other collector of this replay buffer has: not {}", others.join(", "));
            return Err(Error::config("worker", worker, legal));
        }
        drop(taken);
        Ok(Seat { seats: seats.clone(), worker })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().remove(&self.worker);
    }
}
