//! Policies: what acts.

pub mod plan;
