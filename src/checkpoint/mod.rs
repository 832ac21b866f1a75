//! Files that hold a state: written whole or not at all, read without trust.

mod blocks;
mod replace;

pub use blocks::{BlockReader, BlockWriter, Kind};
pub(crate) use replace::replace;
