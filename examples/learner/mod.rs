//! What the training examples share: networks with autodiff, PPO, double DQN and SAC, and what shows how training goes.
//!
//! Nothing here is part of gleaner: a learner of any kind takes batches from a collector and publishes weights to it.

#![allow(dead_code, unused_imports, reason = "each example uses a part")]

mod chart;
mod command_line;
mod convolution;
pub mod ctrl_c;
mod dqn;
mod evaluate;
mod frames;
mod head;
mod mlp;
mod network;
mod off_policy;
mod ops;
mod optimizer;
mod options;
mod ppo;
mod progress;
mod recurrent;
mod sac;
#[cfg(test)]
mod tests;
mod train;

pub use chart::Curve;
pub use command_line::exit_code;
pub use dqn::{Dqn, DqnConfig};
pub use evaluate::evaluate;
pub use frames::matrix;
pub use mlp::Mlp;
pub use off_policy::OffPolicy;
pub use optimizer::Adam;
pub use options::{Options, main};
pub use ppo::{Ppo, PpoConfig};
pub use progress::Progress;
pub use sac::{Sac, SacConfig};
pub use train::Experiment;

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
