//! Replay buffers hold exactly the newest frames, whole and in order, whatever is written how.

#[path = "../support/mod.rs"]
mod support;

mod edits;
mod limits;
mod made;
mod priorities;
mod prioritized;
mod prioritized_slices;
mod queries;
mod recency;
mod ring;
mod script;
mod shared;
mod staleness;
mod stress;
mod top;
mod writes;
