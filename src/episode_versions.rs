//! The rule that an episode acts by one set of weights to its end, `one_version_per_trajectory`.
//!
//! A network keeps the sets that running episodes began under, and acts by each for their rows.

use bevy_ecs::prelude::*;

use crate::{
    components::{AllRows, EpisodeStep, Observation, RolloutSlot, Slot, column},
    config::CollectorConfig,
    error::Error,
    plugin::act_for,
    policy::{Actor, Policies},
    schedule::{CollectSystems, Overlap, TaskSystems},
    task::Task,
};

/// What does not go together with the rule.
pub(crate) fn conflicts<T: Task>(config: &CollectorConfig, policies: &Policies<T>) -> Vec<Error> {
    if !config.one_version_per_trajectory {
        return Vec::new();
    }
    let lanes = "a lane acts before it is known which episodes begin; leave overlap out";
    let pool = "rows of a pool act as they are ready, by the newest weights; leave it out";
    let std = "the deviations that are recorded are those of the newest weights; leave it out";
    let stale = "the weights of an episode are as old as it is long; leave one of them out";
    let parts = [
        (config.overlap != Overlap::None, "overlap", lanes),
        (config.async_batched.is_some(), "async_batched", pool),
        (config.record_distribution, "record_distribution", std),
        (config.max_staleness.is_some(), "max_staleness", stale),
        (policies.networks().is_empty(), "policy", "only a network takes weights; leave this out"),
    ];
    let conflict =
        |second, reason: &str| Error::Conflict { first: "one_version_per_trajectory", second, reason: reason.into() };
    parts.into_iter().filter(|(holds, ..)| *holds).map(|(_, second, reason)| conflict(second, reason)).collect()
}

/// Policies act for all rows at once, each row by the weights of its episode.
pub(crate) fn act_by_episode<T: Task>(
    world: &mut World,
    schedule: &mut Schedule,
    stage: CollectSystems,
    observes: bool,
) {
    // No episode runs yet.
    world.query::<&mut Actor<T>>().iter_mut(world).for_each(|mut actor| {
        actor.note_episodes(0, std::iter::empty());
    });
    act_for::<T, AllRows>(world, schedule, stage, observes);
    let stamp = stamp::<T>.after(CollectSystems::Record).before(CollectSystems::Assemble);
    schedule.add_systems(stamp.in_set(TaskSystems::of::<T>()));
}

/// Record takes all rows of a policy for ones under the same weights: this gives each frame the version of its episode.
fn stamp<T: Task>(
    mut holder: ResMut<RolloutSlot<T>>,
    mut actors: Query<&mut Actor<T>>,
    rows: Query<(&Slot, &EpisodeStep), With<Observation<T>>>,
    mut versions: Local<Vec<u64>>,
) {
    let Some(rollout) = holder.get_mut().filter(|rollout| rollout.recorded) else { return };
    let mut apart = false;
    for mut actor in &mut actors {
        let newest = rollout.plan.versions.get(actor.number());
        apart |= actor.note_episodes(newest, rows.iter().map(|(slot, step)| (*slot, *step)));
    }
    let Some(block) = rollout.block.as_mut().filter(|_| apart) else { return };
    block.mark(rollout.tick, None);
    let frames = rollout.tick * rollout.rows..(rollout.tick + 1) * rollout.rows;
    versions.clear();
    versions.extend((0..rollout.rows as u32).map(|slot| rollout.plan.versions.of(slot)));
    for actor in &actors {
        actor.episode_versions().into_iter().flatten().for_each(|(slot, version)| versions[slot] = version);
    }
    for (i, frame) in frames.enumerate() {
        if block.flags()[frame].valid() {
            block.columns[column::VERSION].values_mut()[frame] = versions[i];
        }
    }
    rollout.plan.versions.set_by_slot(versions.iter().copied());
}
