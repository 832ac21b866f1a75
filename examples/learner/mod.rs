//! What the training examples share: an actor-critic with autodiff, PPO, and what shows how training goes.
//!
//! Nothing here is part of gleaner: a learner of any kind takes batches from a collector and publishes weights to it.

mod chart;
mod command_line;
mod convolution;
mod evaluate;
mod frames;
mod head;
mod network;
mod ops;
mod optimizer;
mod options;
mod ppo;
mod progress;
mod recurrent;
#[cfg(test)]
mod tests;
mod train;

pub use chart::Curve;
pub use evaluate::evaluate;
pub use options::{Options, main};
pub use ppo::{Ppo, PpoConfig};
pub use progress::Progress;
pub use train::Experiment;

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
