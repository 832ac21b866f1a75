#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! `vocabulary ← services ← organs ← assembly`: left never imports right, and organs never import each other; they meet
//! in [`components`].
//!
//! | | |
//! |---|---|
//! | vocabulary | [`mod@data`], [`space`], [`seed`], [`math`], [`task`], [`error`], [`fault`], [`schedule`], [`components`] |
//! | services | [`stats`], `gpu`, `arrow` |
//! | organs | [`mod@env`], [`policy`], [`rollout`], [`replay`], [`weights`], `workers` |
//! | assembly | [`config`], [`collector`], [`receipts`], [`running`], [`episodes`], [`host`], [`run`], [`registry`], [`erased`] |

extern crate self as gleaner;

#[doc(hidden)]
pub use bytemuck;

#[cfg(feature = "arrow")]
pub mod arrow;
mod batched;
mod build;
mod builder;
mod bytes;
mod checkpoint;
pub mod collector;
pub mod components;
pub mod config;
pub mod data;
mod drive;
pub mod env;
mod episode_versions;
pub mod episodes;
pub mod erased;
pub mod error;
pub mod fault;
mod feed;
mod fleet;
#[cfg(feature = "gpu")]
pub mod gpu;
mod hooks;
pub mod host;
pub mod math;
mod memory;
mod plugin;
mod policies;
pub mod policy;
pub mod prelude;
mod produce;
pub mod receipts;
pub mod registry;
pub mod replay;
mod replay_writer;
mod restart;
mod resume;
pub mod rollout;
mod ron_file;
pub mod run;
pub mod running;
pub mod schedule;
pub mod seed;
mod shutdown;
pub mod space;
pub mod stats;
pub mod task;
pub mod weights;
mod workers;

pub use error::{BoxError, Error};
