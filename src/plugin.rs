//! Puts gleaner's stages into a world.

use std::marker::PhantomData;

use bevy_ecs::{prelude::*, schedule::ScheduleBuildError};

use crate::{
    components::{AllRows, LowerRows, Parallelism, PolicyWeights, TickPlan, TickReport, UpperRows},
    error::Error,
    policy::{self, Actor},
    rollout::{self, Rollout, RolloutSlot},
    schedule::{CollectSystems, LaneSystems, Overlap, TaskSystems},
    task::Task,
    weights::{self, WeightsHandle, WeightsSource},
};

/// What a task brings into a world.
pub(crate) struct TaskParts<T: Task> {
    pub actor: Actor<T>,
    pub weights: Option<WeightsHandle>,
    pub rollout: Rollout<T>,
    pub parallelism: Parallelism,
    /// Where in the tick the policy acts.
    pub infer: CollectSystems,
    pub overlap: Overlap,
}

/// Adds a task's resources, policy entity and stages. The Step stage is the environments' or the host's.
pub(crate) fn install_parts<T: Task>(world: &mut World, schedule: &mut Schedule, parts: TaskParts<T>) {
    let own = TaskSystems::of::<T>();
    let TaskParts { actor, weights, rollout, parallelism, infer, overlap } = parts;
    let (hosted, publishes) = (actor.is_system(), weights.is_some());
    let normalises = actor.normalization().is_some();
    let latest = weights.as_ref().map(WeightsHandle::latest).unwrap_or_default();
    world.spawn((actor, PolicyWeights::<T>::new(latest.0, latest.1)));
    if let Some(handle) = weights {
        world.insert_resource(WeightsSource::<T> { handle, task: PhantomData });
    }
    world.insert_resource(TickPlan::<T> { parallelism, ..TickPlan::default() });
    world.insert_resource(TickReport::<T>::default());
    world.insert_resource(RolloutSlot(Some(Box::new(rollout))));
    if normalises {
        let observe = policy::observe::<T>.in_set(own).in_set(infer);
        schedule.add_systems(observe.before(policy::infer::<T, AllRows>).before(LaneSystems::InferLower));
    }
    // Only stages that have something to do: a system costs 40 ns a tick.
    if hosted {
        let check =
            policy::check_host_actions::<T>.after(CollectSystems::Infer).before(CollectSystems::Step).in_set(own);
        schedule.add_systems(check);
    } else if overlap == Overlap::Two {
        let lower = policy::infer::<T, LowerRows>.in_set(LaneSystems::InferLower);
        let upper = policy::infer::<T, UpperRows>.in_set(LaneSystems::InferUpper);
        let ahead = policy::infer_ahead::<T>.in_set(LaneSystems::InferAhead);
        schedule.add_systems((lower, upper, ahead).in_set(own));
    } else {
        schedule.add_systems(policy::infer::<T, AllRows>.in_set(own).in_set(infer));
    }
    if publishes {
        let sync = (weights::sync_weights::<T>, policy::adopt::<T>, weights::confirm_adoption::<T>);
        schedule.add_systems(sync.chain().in_set(own).in_set(CollectSystems::SyncWeights));
    }
    let stages = (
        rollout::record::<T>.in_set(CollectSystems::Record),
        rollout::assemble::<T>.in_set(CollectSystems::Assemble),
        rollout::report::<T>.in_set(CollectSystems::Report),
    );
    schedule.add_systems(stages.in_set(own));
}

/// Adopts weights that were published since the last tick.
pub(crate) fn adopt_now<T: Task>(world: &mut World) {
    let version = world.resource::<TickPlan<T>>().version;
    let newer = world.get_resource::<WeightsSource<T>>().is_some_and(|source| source.handle.version() > version);
    if newer {
        // Only a system that was removed by the host could be missing: then its stage is the host's own.
        let _ = world.run_system_cached(weights::sync_weights::<T>);
        let _ = world.run_system_cached(policy::adopt_now::<T>);
        let _ = world.run_system_cached(weights::confirm_adoption::<T>);
    }
}

/// A schedule that cannot be built, in words that name the systems.
pub(crate) fn schedule_error(error: &ScheduleBuildError, schedule: &Schedule, world: &World) -> Error {
    Error::Schedule(error.to_string(schedule.graph(), world))
}
