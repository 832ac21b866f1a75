//! Threads that each own something that works. They serve calls, and make items on their own when they are told to.
//!
//! A thread looks at its orders between two items, and while an item waits for room in the channel, so an order never
//! costs an item. All waits of the owner have deadlines; a thread that is stuck in user code is detached and counted.

mod crew;
mod thread;

use std::time::{Duration, Instant};

pub(crate) use crew::{Crew, Reply, Stopped};
pub(crate) use thread::{Job, Made};

/// The moment when `timeout` is over, also one that is longer than clocks count.
pub(crate) fn until(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now + YEAR)
}

const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

#[cfg(test)]
mod tests;
