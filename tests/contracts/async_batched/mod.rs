//! Async-batched collection: rows step on a pool of threads, each at its own pace, and what is collected is what the other
//! kinds collect.

mod batching;
mod deadlines;
mod faults;
mod invariants;
mod rows;
mod wrong;
