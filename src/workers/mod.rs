//! Threads that each own something that works. They serve calls, and make items on their own when they are told to.
//!
//! A thread looks at its orders between two items, and while an item waits for room in the channel, so an order never
//! costs an item. All waits of the owner have deadlines; a thread that is stuck in user code is detached and counted.

mod crew;
mod patience;
mod thread;

use std::{
    any::Any,
    time::{Duration, Instant},
};

pub(crate) use crew::{Crew, Reply, Stopped};
pub(crate) use patience::{LOOK, Patience};
pub(crate) use thread::{Job, Made};

/// What goes through channels. In a box, so that these and the threads are compiled once, whatever the work is about.
pub(crate) type Parcel = Box<dyn Any + Send>;

/// What is in a parcel; who calls this knows of which type.
pub(crate) fn open<V: 'static>(parcel: Box<dyn Any>) -> V {
    *parcel.downcast().unwrap_or_else(|_| unreachable!("a parcel of another type"))
}

/// The moment when `timeout` is over, also one that is longer than clocks count.
pub(crate) fn until(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now + YEAR)
}

const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

#[cfg(test)]
mod tests;
