//! Async-batched collection: rows that a pool of threads steps, collected as they become ready.
//!
//! A turn is a rollout of one tick in which only the rows have frames whose steps are done. What turns give is joined to
//! episodes; a batch takes what there is once it is enough, so frames of an episode lie one behind the other in it.

use bevy_ecs::prelude::*;

use crate::{
    collector::Collector,
    components::{Acted, EpisodeStep, Flags, ReadyRows, RolloutSlot, Slot, column},
    config::CollectorConfig,
    env::AsyncBatched,
    error::Error,
    plugin::act_for,
    policy::{Policies, Policy},
    replay_writer::ReplayWriteMode,
    rollout::{Batch, Block},
    schedule::{CollectSystems, Overlap, TaskSystems},
    task::Task,
};

/// What does not go together with `async_batched`.
pub(crate) fn conflicts(config: &CollectorConfig) -> Vec<Error> {
    let Some(options) = &config.async_batched else { return Vec::new() };
    let lanes =
        "lanes are halves of rows that step together; leave overlap out: rows that are ready act while others step";
    let reset = "the steps of a pool's rows end at times of their own, so no batch ends all episodes; leave it out";
    let edge = "a batch takes rows at any point, so it has no edge to mark; leave set_truncated out";
    let states = "states are kept of rollouts whose rows step together; leave record_states out";
    let workers = "a pool has threads of its own; leave workers out";
    let parts = [
        (config.workers > 0, "workers", workers),
        (config.overlap != Overlap::None, "overlap", lanes),
        (config.reset_at_each_iter, "reset_at_each_iter", reset),
        (config.set_truncated, "set_truncated", edge),
        (config.record_states, "record_states", states),
    ];
    let conflict = |first, reason: &str| Error::Conflict { first, second: "async_batched", reason: reason.into() };
    let mut errors = options.problems(config.rows);
    errors.extend(parts.into_iter().filter(|(holds, ..)| *holds).map(|(_, first, reason)| conflict(first, reason)));
    errors
}

/// Whether the policies can act for some rows and not for others.
pub(crate) fn policy_conflicts<T: Task>(options: Option<&AsyncBatched>, policies: &Policies<T>) -> Vec<Error> {
    let systems = options.is_some() && policies.any(Policy::is_system);
    let reason = "a host's system does not know which rows are ready; use another kind of policy".into();
    systems.then_some(Error::Conflict { first: "policy", second: "async_batched", reason }).into_iter().collect()
}

/// Policies act for the rows that are ready; a system says which rows had frames in a turn, and how their actions came
/// about.
pub(crate) fn act_for_ready<T: Task>(
    world: &mut World,
    schedule: &mut Schedule,
    stage: CollectSystems,
    observes: bool,
) {
    act_for::<T, ReadyRows>(world, schedule, stage, observes);
    let stamp = stamp::<T>.after(CollectSystems::Record).before(CollectSystems::Assemble);
    schedule.add_systems(stamp.in_set(TaskSystems::of::<T>()));
}

/// Record takes all rows for active ones under the same weights: this empties the slots of pending rows, and gives frames
/// the version that chose their action.
fn stamp<T: Task>(mut holder: ResMut<RolloutSlot<T>>, mut rows: Query<(&Slot, &EpisodeStep, &mut Acted)>) {
    let Some(rollout) = holder.get_mut().filter(|rollout| rollout.recorded) else { return };
    rollout.clear_idle(|_| false);
    rollout.started.clear();
    let Some(block) = &mut rollout.block else { return };
    block.mark(rollout.tick, None);
    let count = rollout.rows;
    let (mut now, mut before) = (vec![0; count], vec![0; count]);
    for (slot, step, mut acted) in &mut rows {
        let i = slot.0 as usize;
        (now[i], before[i]) = (acted.before, acted.before);
        if !block.flags()[i].valid() {
            continue;
        }
        block.columns[column::VERSION].values_mut()[i] = acted.version;
        block.columns[column::FLAGS].values_mut()[i] = if acted.random { Flags::RANDOM } else { Flags::VALID };
        if step.0 == 0 {
            rollout.first_versions[i] = acted.version;
        }
        now[i] = acted.version;
        acted.before = acted.version;
    }
    rollout.plan.versions.set_by_slot(now.into_iter());
    rollout.previous_versions.set_by_slot(before.into_iter());
}

impl CollectorConfig {
    /// Whether batches take frames of rows as they come: async-batched, and no whole trajectories.
    pub(crate) fn takes_as_they_come(&self) -> bool {
        let whole = self.trajs_per_batch.is_some() || self.replay_write_mode == Some(ReplayWriteMode::Trajectory);
        self.async_batched.is_some() && !whole
    }
}

impl<T: Task> Collector<T> {
    /// One turn: waits for rows that are ready, at most `most` of them, and lets them act again. Only those that came have
    /// frames.
    pub(crate) fn turn(&mut self, most: usize) -> Result<Box<Block<T>>, Error> {
        self.begin()?;
        let block = self.drive.pool.take()?;
        if let Err(error) = self.stepper.receive(&mut self.drive.world, most) {
            self.drive.pool.give_back(block);
            return Err(error);
        }
        self.drive.turn(block)
    }

    /// A batch of frames as they came, of exactly the size that was asked for; at the end of the budget what is left, then
    /// none.
    pub(crate) fn flat_batch(&mut self) -> Result<Option<Batch<T>>, Error> {
        let (wanted, specs) = (self.frames_per_batch(), self.drive.specs.clone());
        while self.held() < wanted && self.ticks_left() > 0 {
            let missing = wanted - self.held();
            let block = self.turn(missing)?;
            self.drive.ingest(&block, None);
            if (self.held() >= wanted || self.ticks_left() == 0)
                && let Some(mut assembly) = self.drive.assembly()
            {
                assembly.let_all_go(&block, &specs, 1);
            }
            self.drive.pool.give_back(block);
        }
        if self.waiting() == 0 {
            return Ok(None);
        }
        self.drive.report_running_return();
        self.joined(usize::MAX, false).map(Some)
    }

    /// Frames that wait for a batch.
    fn held(&mut self) -> usize {
        self.drive.assembly().map_or(0, |assembly| assembly.held())
    }
}
