//! gleaner inside a host's world: the host's own entities are rows, in the schedule of the host's choice.
//!
//! ```text
//! host acts ─▶ host writes Observation, Reward, End ─▶ Collect: Record … SyncWeights ─▶ Respond: new Action ─▶ host acts
//! ```
//!
//! An entity becomes a row by carrying [`Observation<T>`]; what else a row needs comes with it. It joins the next
//! rollout, and leaves by being despawned or disabled or by losing the component; back again it is a new row, whose next
//! episode begins with what it then sees. The host applies [`Action<T>`] of rows that are
//! [`Acting`], and writes [`Reward`], the next [`Observation<T>`] and, when the episode ended, [`End`] and
//! [`LastObservation<T>`](crate::components::LastObservation) (the real last one; `Observation` is then the new
//! episode's first). When the engine ends an episode (`max_frames_per_traj`) it sets [`ResetRequest`]; the host resets
//! the entity, writes its new observation and sets the request back.
//!
//! [`Observation<T>`]: crate::components::Observation
//! [`Action<T>`]: crate::components::Action
//! [`Reward`]: crate::components::Reward
//! [`End`]: crate::components::End

#[cfg(feature = "app")]
mod app;
mod batches;
mod install;
mod rows;

#[cfg(feature = "app")]
pub use app::CollectorPlugin;
pub use batches::Batches;
pub use install::{HostBuilder, HostConfig, Installed};
pub use rows::{Acting, ResetRequest};
