//! The loops that gleaner is measured against: CartPole with random actions as one would write it by hand for speed.
//!
//! Nothing here imports gleaner. The generator, the arithmetic and the columns are written anew, so that equal bits also
//! say that two authors read the documents alike.

mod cart_pole;
mod columns;
mod rollout;
mod threefry;
mod trajectories;

pub use columns::Columns;
pub use rollout::Rollouts;
pub use trajectories::Trajectories;
