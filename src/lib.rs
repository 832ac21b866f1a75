//! gleaner

#![deny(unsafe_code)]
#![warn(missing_docs)]

extern crate self as gleaner;

#[doc(hidden)]
pub use bytemuck;

pub mod components;
pub mod data;
pub mod env;
pub mod error;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod math;
pub mod policy;
pub mod schedule;
pub mod seed;
pub mod space;
pub mod task;

pub use error::{BoxError, Error};
