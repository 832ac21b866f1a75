//! Policies: what acts.

pub mod backend;
pub mod check;
pub mod cpu;
pub mod head;
mod init;
pub mod layer;
pub mod network;
pub mod normalize;
pub mod plan;
pub mod random;
mod resolve;

pub use backend::Backend;
pub use check::check_actions;
pub use cpu::CpuNetwork;
pub use layer::Layer;
pub use network::{HeadSpec, NetworkSpec, Normalize};
pub use normalize::{Normalizer, RunningNorm};
pub use random::random_actions;
