//! Replay buffers hold exactly the newest frames, whole and in order, whatever is written how.

mod made;
mod priorities;
mod prioritized;
mod prioritized_slices;
mod recency;
mod ring;
<<<<<<< HEAD
mod stress;
=======
mod script;
mod staleness;
>>>>>>> samplers
