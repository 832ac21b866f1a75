//! Policies: what acts.

mod act;
mod actor;
mod adopt;
mod ahead;
mod assign;
pub mod backend;
mod call;
mod chain;
pub mod check;
pub mod cpu;
mod critics;
mod evaluate;
mod floats;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod head;
mod host;
mod infer;
mod init;
pub mod layer;
pub mod network;
pub mod normalize;
mod observe;
pub mod operation;
pub mod packing;
mod params;
pub mod plan;
#[expect(clippy::module_inception, reason = "the organ and its front door share the field's word")]
mod policy;
pub mod random;
mod remember;
mod resolve;
mod saved;
pub mod states;

pub(crate) use actor::{Actor, Duty};
pub(crate) use adopt::{adopt, adopt_now};
pub(crate) use ahead::infer_ahead;
pub(crate) use assign::{Policies, policy_column};
pub use backend::Backend;
pub use check::check_actions;
pub use cpu::CpuNetwork;
pub(crate) use critics::Critics;
pub use evaluate::{Evaluation, Evaluator};
pub use head::HeadSpec;
pub(crate) use host::check_host_actions;
pub(crate) use infer::infer;
pub use layer::Layer;
pub use network::{NetworkSpec, Normalize};
pub use normalize::{Normalizer, RunningNorm};
pub(crate) use observe::observe;
pub(crate) use params::params_columns;
pub use plan::Exploration;
pub use policy::{ActFunction, Policy};
pub use random::random_actions;
pub(crate) use remember::{remembered, state_column};
pub(crate) use saved::{SavedActor, SavedNetwork, SavedStates};
