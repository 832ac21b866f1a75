//! The components of rows and trajectories, grouped by role: organs meet here and nowhere else.

mod end;
mod row;
mod trajectory;
mod weights;

pub use end::{End, Flags, Truncation};
pub use row::{
    Action, ActionMask, ActiveRows, Episode, EpisodeReturn, EpisodeStep, LastObservation, LogProb, Masks, Observation,
    Reward, RowIndex, Slot, Value,
};
pub use trajectory::{Trajectory, TrajectoryId};
pub use weights::{TensorSpec, WeightTensor, Weights};

pub use crate::seed::ActionKey;
