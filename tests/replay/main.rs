//! Replay buffers hold exactly the newest frames, whole and in order, whatever is written how.

mod made;
mod prefetch;
mod ring;
