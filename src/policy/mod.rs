//! Policies: what acts.

#[cfg(feature = "gpu")]
pub mod gpu;
pub mod plan;
