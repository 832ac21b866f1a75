//! Which collectors write a buffer: by worker number, so that no two of them give their trajectories the same ids.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::error::Error;

/// The taken numbers.
#[derive(Default)]
pub(super) struct Claims(Mutex<BTreeSet<u16>>);

/// A collector's place at a buffer; free again when it is dropped.
pub(crate) struct Claim {
    claims: Arc<Claims>,
    worker: u16,
}

impl Claims {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<u16>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(claims: &Arc<Self>, worker: u16) -> Result<Claim, Error> {
        let mut taken = claims.lock();
        if !taken.insert(worker) {
            let others: Vec<_> = taken.iter().map(u16::to_string).collect();
            let legal =
                format!("a number that no other collector of this replay buffer has: not {}", others.join(", "));
            return Err(Error::config("worker", worker, legal));
        }
        drop(taken);
        Ok(Claim { claims: claims.clone(), worker })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.lock().remove(&self.worker);
    }
}
