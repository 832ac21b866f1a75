//! The tick: one schedule, its stages as sets.

use std::any::TypeId;

use bevy_ecs::{
    prelude::*,
    schedule::{LogLevel, MultiThreadedExecutor, ScheduleBuildSettings, ScheduleLabel, SingleThreadedExecutor},
};

/// One pass of this schedule is one tick: each active row advances by one frame.
#[derive(ScheduleLabel, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Collect;

/// What runs the systems of a tick. The data are the same, bit for bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Executor {
    /// One system after the other, on the collector's thread: about 40 ns a system and no allocation.
    #[default]
    SingleThreaded,
    /// Bevy's, on its compute task pool: about 10 µs a system; worth it for several heavy tasks in one world.
    MultiThreaded,
}

/// Whether the policy acts for some rows while others step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Overlap {
    /// The policy acts for all rows, then all step.
    #[default]
    None,
    /// The rows are two lanes, halves in row order: one steps while the policy acts for the other. First the lower rows
    /// step while it acts for the upper ones, then the upper ones while it acts for the lower ones' coming tick (not if it
    /// remembers, nor if distributions are recorded: then for nobody). Worth it for environments that take about as long as
    /// a policy on a GPU, or that wait; with [`Executor::MultiThreaded`], under the other one the lanes take turns. The data
    /// are the same, bit for bit. Of several policies each acts for its own rows of a lane. A host's systems between the stages [`Infer`](CollectSystems::Infer) and
    /// [`Step`](CollectSystems::Step) find these side by side.
    Two,
}

/// The systems of two lanes, within the stages.
#[derive(SystemSet, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LaneSystems {
    InferLower,
    InferUpper,
    StepLower,
    StepUpper,
    /// Of the lower lane, for the coming tick.
    InferAhead,
}

/// The stages of a tick, in order. A host adds systems to a set, orders its own around it, or replaces a stage: it
/// removes the set's systems by [`Schedule::remove_systems_in_set`], with `ScheduleCleanupPolicy::RemoveSystemsOnly`
/// so that the set keeps its place, and adds its own. In a collector:
/// [`setup`](crate::config::CollectorBuilder::setup).
///
/// Where gleaner owns the environments a tick begins at [`Infer`](Self::Infer). Where a host owns them it begins at
/// [`Step`](Self::Step), in which the host writes what its entities saw, and ends with [`Respond`](Self::Respond);
/// a frame is then complete one tick later.
#[derive(SystemSet, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CollectSystems {
    /// Policies choose actions for observations.
    Infer,
    /// Environments step and reset; a host writes observations, rewards and ends of its own rows.
    Step,
    /// Rollout columns take the frame. In a collector whose schedule nobody changed (`setup`), Step writes the columns that
    /// every task has itself, while its rows are in the caches, and this stage the others.
    Record,
    /// Finished episodes become trajectories; new ones get their ids.
    Assemble,
    /// Replay buffers take what is complete.
    WriteReplay,
    /// The newest weights are adopted.
    SyncWeights,
    /// Counters are published.
    Report,
    /// Policies choose actions for rows that a host owns.
    Respond,
}

/// All of gleaner's systems of one task. Tasks share components such as `Reward`, but no row: their systems touch
/// different entities, so their order among each other does not matter.
#[derive(SystemSet, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskSystems(TypeId);

impl TaskSystems {
    /// The systems of task `T`.
    pub fn of<T: 'static>() -> Self {
        Self(TypeId::of::<T>())
    }
}

impl Collect {
    /// The schedule with its sets in order and nothing in them. Ambiguous systems are logged at `ambiguity`;
    /// [`LogLevel::Error`] makes them fail the build.
    pub fn base_schedule(executor: Executor, ambiguity: LogLevel) -> Schedule {
        Self::schedule_with(executor, Overlap::None, ambiguity)
    }

    /// The same, maybe for two lanes.
    pub(crate) fn schedule_with(executor: Executor, overlap: Overlap, ambiguity: LogLevel) -> Schedule {
        let mut schedule = Schedule::new(Collect);
        match executor {
            Executor::SingleThreaded => schedule.set_executor(SingleThreadedExecutor::new()),
            Executor::MultiThreaded => schedule.set_executor(MultiThreadedExecutor::new()),
        };
        schedule.set_build_settings(ScheduleBuildSettings { ambiguity_detection: ambiguity, ..Default::default() });
        use CollectSystems::*;
        schedule.configure_sets((Record, Assemble, WriteReplay, SyncWeights, Report, Respond).chain());
        match overlap {
            Overlap::None => schedule.configure_sets((Infer, Step, Record).chain()),
            Overlap::Two => {
                use LaneSystems::*;
                let within = (
                    InferLower.in_set(Infer),
                    InferUpper.in_set(Infer),
                    StepLower.in_set(Step),
                    StepUpper.in_set(Step),
                );
                schedule.configure_sets(within);
                schedule.configure_sets((InferLower, InferUpper, StepUpper).chain());
                schedule.configure_sets((StepLower.after(InferLower), InferAhead.after(StepLower).after(InferUpper)));
                schedule.configure_sets((Infer, Step, InferAhead).before(Record))
            }
        };
        schedule
    }
}
