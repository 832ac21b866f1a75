//! Replay buffers hold exactly the newest frames, whole and in order, whatever is written how, and samplers draw from
//! them with the chances they say.

#[path = "../support/mod.rs"]
mod support;

mod allocations;
mod chances;
mod consuming;
mod edits;
mod epochs;
mod groups;
mod hindsight;
mod limits;
mod lists;
mod made;
mod mixture;
mod prefetch;
mod priorities;
mod prioritized;
mod prioritized_slices;
mod queries;
mod races;
mod ragged;
mod recency;
mod ring;
mod scene;
mod script;
mod sequences;
mod shared;
mod slices;
mod staleness;
mod stress;
mod top;
mod transforms;
mod uniform;
mod writes;
