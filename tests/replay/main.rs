//! Replay buffers hold exactly the newest frames, whole and in order, whatever is written how, and samplers draw from
//! them with the chances they say.

mod allocations;
mod chances;
mod consuming;
mod epochs;
mod groups;
mod hindsight;
mod made;
mod mixture;
mod ring;
mod scene;
mod sequences;
mod slices;
