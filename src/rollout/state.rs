//! The rollout that is being written.

use std::{any::Any, collections::VecDeque};

use bevy_ecs::prelude::*;

use super::{
    block::Block,
    column::{ComponentSource, ExtraSource},
    record::are_in_order,
    trajectories::TrajectoryPool,
};
use crate::{
    components::{
        Action, ActionMask, ColumnSpec, End, EpisodeStep, FrameSlots, LogProb, Observation, Recording, Remembered,
        Reward, RolloutSlot, RowIndex, Slot, Source, TickPlan, Trajectory, TrajectoryId, Value, Versions,
    },
    data::{Data, Dtype},
    error::Error,
    stats::Monitor,
    task::Task,
};

/// How recorded rewards are made from the environment's; returns and counters stay raw.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RewardTransform {
    /// Factor; finite.
    pub scale: f32,
    /// Applied after the factor: the reward is brought into `[-clip, clip]`. None: no clipping.
    pub clip: Option<f32>,
}

impl Default for RewardTransform {
    fn default() -> Self {
        Self { scale: 1.0, clip: None }
    }
}

impl RewardTransform {
    /// What is wrong with it.
    pub(crate) fn problems(&self) -> Vec<Error> {
        let mut errors = Vec::new();
        if !self.scale.is_finite() {
            errors.push(Error::config("reward.scale", self.scale, "a finite number"));
        }
        if let Some(clip) = self.clip.filter(|clip| !(clip.is_finite() && *clip > 0.0)) {
            errors.push(Error::config("reward.clip", clip, "a finite number above 0, or none"));
        }
        errors
    }

    pub(crate) fn apply(&self, rewards: &mut [f32]) {
        // A product beyond all numbers is the largest one.
        let bound = self.clip.unwrap_or(f32::MAX);
        for reward in rewards {
            *reward = (*reward * self.scale).clamp(-bound, bound);
        }
    }
}

/// The registered columns: what rollouts, trajectories and exports iterate.
#[derive(Default)]
pub(crate) struct Columns {
    pub specs: Vec<ColumnSpec>,
    /// Parallel to `specs`; none for what Record itself knows.
    pub sources: Vec<Option<Box<dyn Source>>>,
    /// Of a recurrent policy.
    pub memory: Option<Box<dyn Remembered>>,
}

impl Columns {
    /// The columns of every task, and the policy's if it gives them.
    pub(crate) fn of<T: Task>(world: &mut World, policy_outputs: bool) -> Self {
        let mut columns = Self::default();
        fn component<T: Task, C: super::column::Recorded>(world: &mut World) -> Option<Box<dyn Source>> {
            Some(Box::new(ComponentSource::<C>::of::<T>(world)))
        }
        let observation = component::<T, Observation<T>>(world);
        columns.add(ColumnSpec::of::<T::Observation>("observation").leading(), observation);
        columns.add(ColumnSpec::of::<T::Action>("action"), component::<T, Action<T>>(world));
        columns.add(ColumnSpec::scalar("reward", Dtype::F32), component::<T, Reward>(world));
        columns.add(ColumnSpec::scalar("end", Dtype::U8), component::<T, End>(world));
        columns.add(ColumnSpec::scalar("step", Dtype::U32), component::<T, EpisodeStep>(world));
        columns.add(ColumnSpec::scalar("trajectory", Dtype::U64), component::<T, TrajectoryId>(world));
        columns.add(ColumnSpec::scalar("flags", Dtype::U8), None);
        columns.add(ColumnSpec::scalar("version", Dtype::U64), None);
        if size_of::<T::Mask>() > 0 {
            let mask = component::<T, ActionMask<T>>(world);
            columns.add(ColumnSpec::of::<T::Mask>("action_mask").leading(), mask);
        }
        if policy_outputs {
            columns.add(ColumnSpec::scalar("log_prob", Dtype::F32), component::<T, LogProb>(world));
            columns.add(ColumnSpec::scalar("value", Dtype::F32), component::<T, Value>(world));
        }
        columns
    }

    /// Adds the user's component `C`.
    pub(crate) fn add_extra<T: Task, C: Component + Data>(&mut self, world: &mut World, name: &'static str) {
        self.add(ColumnSpec::of::<C>(name), Some(Box::new(ExtraSource::<C>::of::<T>(world))));
    }

    pub(crate) fn add(&mut self, spec: ColumnSpec, source: Option<Box<dyn Source>>) {
        self.specs.push(spec);
        self.sources.push(source);
    }

    /// Adds what `extra` adds, under a name that is not taken.
    pub(crate) fn add_unique(&mut self, world: &mut World, extra: &dyn Fn(&mut Self, &mut World)) -> Result<(), Error> {
        let taken = self.specs.len();
        extra(self, world);
        let name = self.specs[taken].name.clone();
        if self.position(&name) != Some(taken) {
            let names: Vec<_> = self.specs[..taken].iter().map(|spec| &*spec.name).collect();
            return Err(Error::config("record", name, format!("a name other than {}", names.join(", "))));
        }
        Ok(())
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.specs.iter().position(|spec| spec.name == name)
    }
}

/// What the rollout itself needs to know of an episode that ended in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended<O> {
    pub slot: u32,
    /// The real last observation.
    pub last: O,
}

/// The rollout that is being written, with what outlives it. A resource; taken out while systems use it.
pub(crate) struct Rollout<T: Task> {
    pub columns: Columns,
    /// None between rollouts: then ticks are not recorded.
    pub block: Option<Box<Block<T>>>,
    pub rows: usize,
    pub ticks: usize,
    /// The tick that Record writes next.
    pub tick: usize,
    /// Rollouts begun.
    pub rollout: u64,
    pub rewards: RewardTransform,
    pub worker: u16,
    /// Serial number of the newest trajectory id.
    pub serial: u64,
    /// By slot: version that chose the first action of the running episode.
    pub first_versions: Vec<u64>,
    /// Slots whose episode begins with the coming tick.
    pub started: Vec<u32>,
    /// Episodes that ended in this rollout, in order: parallel to the block's trajectories.
    pub ended: Vec<Ended<T::Observation>>,
    /// This tick's quarantined slots, ascending, with the last observations of their episodes.
    pub quarantined: Vec<(u32, T::Observation)>,
    /// Episodes that were cut between rollouts; the next one lists them first.
    pub forced: VecDeque<(Ended<T::Observation>, Trajectory)>,
    /// How many of the episodes that ended the later stages have taken note of.
    pub noted: usize,
    /// The plan that the tick in progress runs under.
    pub plan: TickPlan<T>,
    /// Versions that chose the actions of the tick before.
    pub previous_versions: Versions,
    /// Whether rows are tables of consecutive slots.
    pub in_order: bool,
    /// Whether the Step stage may write frames: no system of a host's can change them before Record.
    pub lends: bool,
    /// Whether the Step stage has written the frames of the tick in progress.
    pub lent: bool,
    /// Whether Record wrote the tick in progress, so that Assemble has something to close.
    pub recorded: bool,
    /// Whether a row had no frame in the tick in progress: it was pending or quarantined.
    pub gaps: bool,
    /// By slot: whether its row is not in the world. Scratch.
    pub missing: Vec<bool>,
    /// By slot: states of a recurrent policy. Scratch.
    pub states: Vec<f32>,
    pub pool: TrajectoryPool,
    pub monitor: Monitor,
}

impl<T: Task> RolloutSlot<T> {
    pub(crate) fn get(&self) -> Option<&Rollout<T>> {
        (self.0.as_deref()? as &dyn Any).downcast_ref()
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut Rollout<T>> {
        (self.0.as_deref_mut()? as &mut dyn Any).downcast_mut()
    }
}

/// Runs `f` with the world and, beside it, the rollout; none if there is none.
pub(crate) fn with_rollout<T: Task, R>(
    world: &mut World,
    f: impl FnOnce(&mut World, &mut Rollout<T>) -> R,
) -> Option<R> {
    let mut slot = RolloutSlot(world.get_resource_mut::<RolloutSlot<T>>()?.0.take());
    let done = slot.get_mut().map(|rollout| f(world, rollout));
    *world.resource_mut::<RolloutSlot<T>>() = slot;
    done
}

impl<T: Task> Recording<T> for Rollout<T> {
    fn lend(&mut self, slots: &[Slot], version: u64, split: bool) -> Option<FrameSlots<'_, T>> {
        let lends = self.lends && self.in_order && self.tick < self.ticks && are_in_order(slots, self.rows);
        let lent = self.block.as_mut().filter(|_| lends)?.frame_slots(self.tick, self.rows, version, split);
        self.lent = lent.is_some();
        lent
    }
}

impl<T: Task> Rollout<T> {
    pub(crate) fn new(columns: Columns, rewards: RewardTransform, monitor: Monitor, pool: TrajectoryPool) -> Self {
        Self {
            columns,
            block: None,
            rows: 0,
            ticks: 0,
            tick: 0,
            rollout: 0,
            rewards,
            worker: 0,
            serial: 0,
            first_versions: Vec::new(),
            started: Vec::new(),
            ended: Vec::new(),
            quarantined: Vec::new(),
            forced: VecDeque::new(),
            noted: 0,
            plan: TickPlan::default(),
            previous_versions: Versions::default(),
            in_order: false,
            lends: false,
            lent: false,
            recorded: false,
            gaps: false,
            missing: Vec::new(),
            states: Vec::new(),
            pool,
            monitor,
        }
    }

    /// A new trajectory id.
    pub(crate) fn next_id(&mut self) -> TrajectoryId {
        self.serial += 1;
        TrajectoryId::new(self.worker, self.serial)
    }

    /// Begins a rollout of `ticks` ticks of `rows` in `block`; tick 0 takes the present observations.
    pub(crate) fn begin(&mut self, world: &World, mut block: Box<Block<T>>, rows: &[RowIndex], ticks: usize) {
        block.begin(&self.columns.specs, ticks, rows);
        self.rows = rows.len();
        self.ticks = ticks;
        self.tick = 0;
        self.lent = false;
        self.ended.clear();
        self.block = Some(block);
        self.noted = self.forced.len();
        while let Some((ended, trajectory)) = self.forced.pop_front() {
            self.end_episode(ended, trajectory);
        }
        self.first_versions.resize(rows.len(), 0);
        self.record_leading(world, 0);
        self.remember_start(world);
    }

    /// Lists an episode that ended.
    #[inline(always)]
    pub(crate) fn end_episode(&mut self, ended: Ended<T::Observation>, trajectory: Trajectory) {
        if let Some(block) = &mut self.block {
            block.trajectories.push(trajectory);
            self.ended.push(ended);
        }
    }

    /// Episodes that ended, from number `first` on.
    pub(crate) fn ended_from(&self, first: usize) -> &[Trajectory] {
        self.block.as_ref().and_then(|block| block.trajectories.get(first..)).unwrap_or_default()
    }

    /// Whether the rollout's last tick is done; then nothing is missing in the block.
    pub(crate) fn seal(&mut self) -> bool {
        let full = self.tick >= self.ticks;
        self.block.as_mut().filter(|_| full).map(|block| sort_finals(block)).is_some()
    }

    /// Takes the finished block out of the rollout.
    pub(crate) fn finish(&mut self) -> Option<Box<Block<T>>> {
        let mut block = self.block.take()?;
        sort_finals(&mut block);
        self.rollout += 1;
        Some(block)
    }

    /// Copies the columns that lead, as they are now, to tick `tick`.
    pub(crate) fn record_leading(&mut self, world: &World, tick: usize) {
        self.record_columns(world, tick, 0, |spec| spec.leads);
    }

    /// Copies the columns that `which` chooses among those from number `from` on, as they are now, to tick `tick`.
    pub(crate) fn record_columns(
        &mut self,
        world: &World,
        tick: usize,
        from: usize,
        which: impl Fn(&ColumnSpec) -> bool,
    ) {
        let Some(block) = &mut self.block else { return };
        let columns = self.columns.specs.iter().zip(&mut self.columns.sources).zip(&mut block.columns);
        for ((spec, source), column) in columns.skip(from) {
            if let Some(source) = source
                && which(spec)
            {
                let width = self.rows * spec.stride;
                source.record(world, self.in_order, &mut column.bytes_mut()[tick * width..(tick + 1) * width]);
            }
        }
    }
}

/// Record keeps what follows a frame one tick later than Assemble does: only then is the order broken.
pub(super) fn sort_finals<T: Task>(block: &mut Block<T>) {
    if !block.finals.is_sorted_by_key(|last| last.frame) {
        block.finals.sort_unstable_by_key(|last| last.frame);
    }
}
