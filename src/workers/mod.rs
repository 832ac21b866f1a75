//! Threads that each own something that works. They serve calls, and make items on their own when they are told to.
//!
//! A thread looks at its orders between two items, and while an item waits for room in the channel, so an order never
//! costs an item. All waits of the owner have deadlines; a thread that is stuck in user code is detached and counted.

mod crew;
mod thread;

pub(crate) use crew::{Crew, Reply, Stopped};
pub(crate) use thread::{Job, Made};

#[cfg(test)]
mod tests;
