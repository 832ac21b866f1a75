//! The components of rows and trajectories, grouped by role: organs meet here and nowhere else.

pub(crate) mod column;
mod critic;
mod end;
mod episodes;
mod frames;
mod lane;
mod own_world;
mod policy;
mod ragged;
mod ready;
mod recording;
mod row;
mod stream;
mod tick;
mod trajectory;
mod versions;
mod weights;
mod worker;

pub use column::{ColumnSpec, Remembered, Source};
pub use critic::Critic;
pub use end::{End, Flags, Truncation};
pub(crate) use episodes::Episodes;
pub use frames::Frames;
pub use lane::SecondLane;
pub(crate) use lane::{AllRows, Lane, LowerRows, UpperRows};
pub(crate) use own_world::{DropEnvs, OwnWorld};
pub use policy::PolicyWeights;
pub use ragged::{RaggedSpec, WithRagged};
pub(crate) use ready::{Acted, ReadyRow, ReadyRows};
pub(crate) use recording::{FrameSlots, Recording, RolloutSlot};
pub(crate) use row::rows_of;
pub use row::{
    Action, ActionMask, Episode, EpisodeReturn, EpisodeStep, LastObservation, LogProb, Masks, Observation, Reward,
    RowIndex, Slot, Value,
};
pub(crate) use stream::{Writer, fetch, fetch_bytes};
pub(crate) use tick::Threads;
pub use tick::{Parallelism, TickPlan, TickReport};
pub use trajectory::{Trajectory, TrajectoryId};
pub use versions::Versions;
pub(crate) use weights::name_list;
pub use weights::{TensorSpec, WeightTensor, Weights};
pub use worker::{Worker, WorkerStatus};

pub use crate::seed::ActionKey;
