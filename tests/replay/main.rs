//! Replay buffers hold exactly the newest frames, whole and in order, whatever is written how.

#[path = "../support/mod.rs"]
mod support;

mod edits;
mod limits;
mod made;
mod queries;
mod ring;
mod shared;
mod stress;
mod top;
mod writes;
