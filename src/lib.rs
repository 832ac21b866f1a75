//! gleaner

extern crate self as gleaner;

#[doc(hidden)]
pub use bytemuck;

pub mod collector;
pub mod components;
pub mod config;
pub mod data;
mod drive;
pub mod env;
pub mod error;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod host;
pub mod math;
mod plugin;
pub mod policy;
pub mod prelude;
mod restart;
pub mod rollout;
pub mod schedule;
pub mod seed;
pub mod space;
pub mod stats;
pub mod task;
pub mod weights;

pub use error::{BoxError, Error};
