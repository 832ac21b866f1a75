//! The first fault of a device, latched: one loss must not show up as thousands of failed dispatches.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use crate::error::Error;

/// Shared by the device's owner and the callbacks that wgpu calls.
#[derive(Default)]
pub(super) struct Fault {
    dispatches: AtomicU64,
    first: OnceLock<(u64, String)>,
}

impl Fault {
    /// Dispatches submitted so far.
    pub(super) fn dispatches(&self) -> u64 {
        self.dispatches.load(Ordering::Relaxed)
    }

    /// Counts dispatches about to be submitted.
    pub(super) fn count(&self, dispatches: u64) {
        self.dispatches.fetch_add(dispatches, Ordering::Relaxed);
    }

    /// Keeps the first reason; later ones follow from it.
    pub(super) fn latch(&self, reason: impl Into<String>) {
        let _later = self.first.set((self.dispatches(), reason.into()));
    }

    /// The latched fault as an error.
    pub(super) fn check(&self) -> Result<(), Error> {
        match self.first.get() {
            Some((dispatch, reason)) => Err(Error::DeviceLost { dispatch: *dispatch, reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Latches `reason` unless something is latched already, and gives the error.
    pub(super) fn lost(&self, reason: impl Into<String>) -> Error {
        self.latch(reason);
        self.check().err().unwrap_or_else(|| Error::Gpu("a fault without a reason".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stays() {
        let fault = Fault::default();
        assert!(fault.check().is_ok());
        fault.count(3);
        fault.latch("first");
        fault.count(1);
        fault.latch("second");
        for _ in 0..2 {
            let error = fault.check().unwrap_err();
            assert!(matches!(error, Error::DeviceLost { dispatch: 3, ref reason } if reason == "first"), "{error}");
        }
    }
}
