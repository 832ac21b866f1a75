//! What most programs need.

pub use crate::{
    collector::{Collector, Rows},
    components::{Action, End, Masks, Observation, Reward, RowIndex, Trajectory, TrajectoryId, Truncation, Weights},
    config::{CollectorBuilder, CollectorConfig, Delivery, OnWorkerFault, ReplayWriteMode, TrajFormat},
    data,
    env::{
        Acrobot, AsyncBatched, BatchEnv, BatchStep, CartPole, Env, GridWorld, MountainCar, MountainCarContinuous,
        Pendulum, Stacked, Transition, check_env,
    },
    erased::{AnyBatch, AnyCollector},
    error::Error,
    fault::FaultPolicy,
    policy::{Backend, Exploration, NetworkSpec, Policy},
    receipts::Receipt,
    registry::Registry,
    replay::{Replay, ReplayConfig},
    rollout::{Batch, Layout, RewardTransform},
    running::Running,
    schedule::{Collect, CollectSystems, Executor, Overlap},
    seed::{Stream, Streams},
    space::Space,
    stats::Stats,
    task::Task,
    weights::{Models, NameMap, WeightSync, WeightsFile, WeightsHandle, WeightsSource},
};
