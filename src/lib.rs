//! gleaner

#![deny(unsafe_code)]
#![warn(missing_docs)]

extern crate self as gleaner;

#[doc(hidden)]
pub use bytemuck;

pub mod collector;
pub mod components;
pub mod config;
pub mod data;
mod drive;
pub mod env;
pub mod erased;
pub mod error;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod math;
mod memory;
mod plugin;
pub mod policy;
pub mod prelude;
pub mod registry;
mod restart;
pub mod rollout;
mod ron_file;
pub mod run;
pub mod schedule;
pub mod seed;
pub mod space;
pub mod stats;
pub mod task;
pub mod weights;

pub use error::{BoxError, Error};
