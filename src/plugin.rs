//! Puts gleaner's stages into a world.

use std::any::TypeId;

use bevy_ecs::{
    prelude::*,
    schedule::{ScheduleBuildError, ScheduleLabel, SingleThreadedExecutor},
};

use crate::{
    components::{
        AllRows, Lane, LowerRows, Parallelism, PolicyWeights, RolloutSlot, TickPlan, TickReport, UpperRows, Versions,
    },
    error::Error,
    policy::{self, Actor},
    replay_writer::{ReplayWriter, write_replay},
    rollout::{self, Rollout},
    schedule::{CollectSystems, LaneSystems, TaskSystems},
    task::Task,
    weights::{self, Source, WeightsHandle, WeightsSources},
};

/// What a task brings into a world.
pub(crate) struct TaskParts<T: Task> {
    /// The policies, in the order of their numbers, and where the weights of those come from that are networks.
    pub actors: Vec<(Actor<T>, Option<WeightsHandle>)>,
    pub rollout: Rollout<T>,
    pub replay: Option<ReplayWriter<T>>,
    pub parallelism: Parallelism,
    /// How the policies act, and where in the tick.
    pub act: InstallActing,
    pub infer: CollectSystems,
    /// Number of this world among those that act by the same weights, and how often it was built before.
    pub adopter: (usize, u32),
}

/// Adds the systems by which policies act in a stage; with statistics of what they see, if these are wanted.
pub(crate) type InstallActing = fn(&mut World, &mut Schedule, CollectSystems, bool);

/// Policies act for rows `L` at once.
pub(crate) fn act_for<T: Task, L: Lane>(_: &mut World, schedule: &mut Schedule, stage: CollectSystems, observes: bool) {
    let own = TaskSystems::of::<T>();
    if observes {
        let observe = policy::observe::<T, L>.in_set(own).in_set(stage);
        schedule.add_systems(observe.before(policy::infer::<T, L>));
    }
    schedule.add_systems(policy::infer::<T, L>.in_set(own).in_set(stage));
}

/// Policies act for one lane while the other steps.
pub(crate) fn act_for_lanes<T: Task>(_: &mut World, schedule: &mut Schedule, stage: CollectSystems, observes: bool) {
    let own = TaskSystems::of::<T>();
    if observes {
        let observe = policy::observe::<T, AllRows>.in_set(own).in_set(stage);
        schedule.add_systems(observe.before(LaneSystems::InferLower));
    }
    let lower = policy::infer::<T, LowerRows>.in_set(LaneSystems::InferLower);
    let upper = policy::infer::<T, UpperRows>.in_set(LaneSystems::InferUpper);
    let ahead = policy::infer_ahead::<T>.in_set(LaneSystems::InferAhead);
    schedule.add_systems((lower, upper, ahead).in_set(own));
}

/// Adds a task's resources, policy entities and stages. The Step stage is the environments' or the host's.
pub(crate) fn install_parts<T: Task>(world: &mut World, schedule: &mut Schedule, parts: TaskParts<T>) {
    let own = TaskSystems::of::<T>();
    let TaskParts { actors, rollout, replay, parallelism, act, infer, adopter } = parts;
    let hosted = actors.iter().any(|(actor, _)| actor.is_system());
    let normalises = actors.iter().any(|(actor, _)| actor.normalization().is_some());
    let versions = Versions::of_ranges(actors.iter().map(|(actor, _)| actor.rows()));
    let mut sources = Vec::new();
    for (policy, (actor, weights)) in actors.into_iter().enumerate() {
        let latest = weights.as_ref().map(WeightsHandle::latest).unwrap_or_default();
        let entity = world.spawn((actor, PolicyWeights::<T>::new(latest.0, latest.1))).id();
        sources.extend(weights.map(|handle| Source::new(policy, entity, handle, adopter)));
    }
    let publishes = !sources.is_empty();
    if publishes {
        world.insert_resource(WeightsSources::<T>::new(sources));
    }
    world.insert_resource(TickPlan::<T> { versions, parallelism, ..TickPlan::default() });
    world.insert_resource(TickReport::<T>::default());
    world.insert_resource(RolloutSlot::<T>(Some(Box::new(rollout))));
    // Only stages that have something to do: a system costs 40 ns a tick.
    if hosted {
        let check =
            policy::check_host_actions::<T>.after(CollectSystems::Infer).before(CollectSystems::Step).in_set(own);
        schedule.add_systems(check);
    } else {
        act(world, schedule, infer, normalises);
    }
    if publishes {
        let sync = (weights::sync_weights::<T>, policy::adopt::<T>, weights::confirm_adoption::<T>);
        schedule.add_systems(sync.chain().in_set(own).in_set(CollectSystems::SyncWeights));
        let mut now = Schedule::new(AdoptNow::of::<T>());
        now.set_executor(SingleThreadedExecutor::new());
        now.add_systems((weights::sync_weights::<T>, policy::adopt_now::<T>, weights::confirm_adoption::<T>).chain());
        world.add_schedule(now);
    }
    if let Some(writer) = replay {
        writer.install(world);
        schedule.add_systems(write_replay::<T>.in_set(own).in_set(CollectSystems::WriteReplay));
    }
    let stages = (
        rollout::record::<T>.in_set(CollectSystems::Record),
        rollout::assemble::<T>.in_set(CollectSystems::Assemble),
        rollout::report::<T>.in_set(CollectSystems::Report),
    );
    schedule.add_systems(stages.in_set(own));
}

/// The schedule by which a task adopts weights between two ticks.
#[derive(ScheduleLabel, Clone, Debug, PartialEq, Eq, Hash)]
struct AdoptNow(TypeId);

impl AdoptNow {
    fn of<T: Task>() -> Self {
        Self(TypeId::of::<T>())
    }
}

/// Adopts weights that were published since the last tick.
pub(crate) fn adopt_now<T: Task>(world: &mut World) {
    let plan = world.resource::<TickPlan<T>>();
    let newer = world.get_resource::<WeightsSources<T>>().is_some_and(|sources| sources.newer_than(plan));
    if newer {
        // A host that took the schedule away adopts by itself.
        let _ = world.try_run_schedule(AdoptNow::of::<T>());
    }
}

/// A schedule that cannot be built, in words that name the systems.
pub(crate) fn schedule_error(error: &ScheduleBuildError, schedule: &Schedule, world: &World) -> Error {
    Error::Schedule(error.to_string(schedule.graph(), world))
}
