//! What runs a collector: a world, its schedule, its threads, and the rollout that they fill.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bevy_ecs::prelude::*;

use crate::{
    components::{
        ColumnSpec, EpisodeReturn, OwnWorld, RolloutSlot, RowIndex, Slot, Threads, TickPlan, TickReport, TrajectoryId,
        rows_of,
    },
    config::CollectorConfig,
    error::Error,
    memory, plugin,
    policy::{Actor, RunningNorm},
    replay_writer::{ReplayWriter, note_open},
    rollout::{ArenaPool, Assembly, Block, Ended, in_order, with_rollout},
    stats::Monitor,
    task::Task,
};

/// The parts of a collector that tick.
pub(crate) struct Drive<T: Task> {
    pub world: OwnWorld,
    pub schedule: Schedule,
    threads: Option<Threads>,
    pub pool: ArenaPool<T>,
    pub specs: Arc<[ColumnSpec]>,
    pub monitor: Monitor,
    pub rows: Vec<RowIndex>,
    /// Rows of all workers; unless told otherwise these are all.
    pub all_rows: usize,
    /// Frames that those before it stepped for the same rows.
    pub frames_before: u64,
    slots: QueryState<&'static Slot>,
    returns: QueryState<&'static EpisodeReturn>,
}

impl<T: Task> Drive<T> {
    /// The parts of a collector of `rows`, which are in `world` already.
    pub(crate) fn new(
        mut world: OwnWorld,
        schedule: Schedule,
        threads: Option<Threads>,
        pool: ArenaPool<T>,
        specs: Arc<[ColumnSpec]>,
        monitor: Monitor,
        rows: Range<u32>,
    ) -> Self {
        Self {
            slots: rows_of::<T, _>(&mut world),
            returns: rows_of::<T, _>(&mut world),
            all_rows: rows.len(),
            rows: rows.map(RowIndex).collect(),
            frames_before: 0,
            pool,
            threads,
            world,
            schedule,
            specs,
            monitor,
        }
    }

    /// Bytes of a rollout's columns.
    pub(crate) fn rollout_bytes(&self, rows: usize, ticks: usize) -> usize {
        memory::rollout_bytes(&self.specs, rows, ticks)
    }

    pub(crate) fn rollout(&mut self) -> Option<Mut<'_, RolloutSlot<T>>> {
        self.world.get_resource_mut::<RolloutSlot<T>>()
    }

    /// Runs `ticks` ticks, of which the last steps only as many rows as `left` frames allow; `later` ticks of the same
    /// rollout are run by later calls. Before each it looks whether to `stop`.
    pub(crate) fn roll(
        &mut self,
        config: &CollectorConfig,
        block: Box<Block<T>>,
        ticks: Ticks,
        left: u64,
        stop: &AtomicBool,
    ) -> Result<Box<Block<T>>, Error> {
        self.begin(block, ticks.now);
        let (rows, all) = (config.rows as u64, self.all_rows as u64);
        let stepped = self.frames_before + self.monitor.ledger().counters.stepped_frames;
        // Workers go in step: what this one has stepped, all have.
        let before = stepped / rows * all + stepped % rows;
        let schedule = TickSchedule {
            rows,
            all,
            first: self.rows.first().map_or(0, |row| u64::from(row.0)),
            ticks,
            left,
            random: config.init_random_frames.saturating_sub(before),
            cut: config.reset_at_each_iter,
        };
        let Self { world, schedule: tick, threads, .. } = self;
        let mut run = Ok(());
        Threads::enter(threads.as_ref(), || run = schedule.run::<T>(world, tick, stop));
        run?;
        self.report_running_return();
        self.finish()
    }

    /// Runs one tick, for the rows of a pool that came.
    pub(crate) fn turn(&mut self, block: Box<Block<T>>) -> Result<Box<Block<T>>, Error> {
        self.begin(block, 1);
        let Self { world, schedule, threads, .. } = self;
        Threads::enter(threads.as_ref(), || schedule.run(world));
        self.world.resource_mut::<TickReport<T>>().take_error().map_or(Ok(()), Err)?;
        self.finish()
    }

    fn finish(&mut self) -> Result<Box<Block<T>>, Error> {
        let block = self.rollout().and_then(|mut holder| holder.get_mut()?.finish());
        block.ok_or_else(|| Error::State { call: "rollout", problem: "a system took the rollout away".into() })
    }

    fn begin(&mut self, block: Box<Block<T>>, ticks: usize) {
        let ordered = in_order(&mut self.slots, &self.world, self.rows.len());
        with_rollout::<T, _>(&mut self.world, |world, rollout| {
            rollout.in_order = ordered;
            rollout.begin(world, block, &self.rows, ticks);
        });
    }

    /// Weights published since the last tick act in the first frame.
    pub(crate) fn adopt_weights(&mut self) -> Result<(), Error> {
        plugin::adopt_now::<T>(&mut self.world);
        self.world.resource_mut::<TickReport<T>>().take_error().map_or(Ok(()), Err)
    }

    pub(crate) fn report_running_return(&mut self) {
        let returns = self.returns.iter(&self.world);
        let (sum, count) = returns.fold((0.0, 0), |(sum, n), total| (sum + f64::from(total.0), n + 1));
        let mean = (count > 0).then(|| (sum / f64::from(count)) as f32);
        self.monitor.ledger().set_running_return(mean);
    }

    /// The running and waiting episodes; none where rollouts are delivered as they are.
    pub(crate) fn assembly(&mut self) -> Option<Mut<'_, Assembly<T>>> {
        self.world.get_resource_mut()
    }

    /// What writes to a replay buffer, if there is one.
    pub(crate) fn writer(&mut self) -> Option<Mut<'_, ReplayWriter<T>>> {
        self.world.get_resource_mut()
    }

    /// How many of the first `frames` frames of all workers are of these rows.
    pub(crate) fn share_of(&self, frames: u64) -> u64 {
        let (first, rows, all) = (self.rows[0].0, self.rows.len() as u64, self.all_rows as u64);
        frames / all * rows + (frames % all).saturating_sub(u64::from(first)).min(rows)
    }

    /// Ticks of the newest rollout that were run.
    pub(crate) fn ticks_done(&mut self) -> usize {
        self.rollout().and_then(|mut holder| Some(holder.get_mut()?.tick)).unwrap_or_default()
    }

    /// Whether a policy is recurrent.
    pub(crate) fn remembers(&mut self) -> bool {
        self.rollout().and_then(|mut holder| Some(holder.get_mut()?.columns.memory.is_some())).unwrap_or_default()
    }

    /// Hands the newest rollout, with the episodes that ended in it, to who delivers it.
    pub(crate) fn hand_over(&mut self, block: &Block<T>, take: impl FnOnce(&[Ended<T::Observation>])) {
        if let Some(mut holder) = self.rollout()
            && let Some(rollout) = holder.get_mut()
        {
            take(&rollout.ended);
        }
        let mut ledger = self.monitor.ledger();
        ledger.in_flight -= block.frames as u64;
        ledger.counters.frames += block.frames as u64;
    }

    /// Counts what is in flight as lost: nobody waits for it.
    pub(crate) fn lose_in_flight(&mut self) {
        self.monitor.ledger().give_up();
    }

    /// Joins a finished rollout to the running episodes; of these at most `max_open` frames stay, if there is a limit.
    pub(crate) fn ingest(&mut self, block: &Block<T>, max_open: Option<usize>) {
        let specs = self.specs.clone();
        with_rollout::<T, _>(&mut self.world, |world, rollout| {
            let Some(mut assembly) = world.get_resource_mut::<Assembly<T>>() else { return };
            assembly.ingest(rollout, block, rollout.ticks);
            if let Some(max_open) = max_open {
                let early = assembly.let_go(block, &specs, rollout.ticks, max_open);
                note_open(&rollout.monitor, &assembly, early);
            }
        });
    }

    /// Forgets running and waiting episodes.
    pub(crate) fn forget_episodes(&mut self) {
        if let Some(mut assembly) = self.assembly() {
            assembly.clear();
        }
        self.monitor.ledger().open = 0;
    }

    /// Drops the rollout in progress, if an error cut it short.
    pub(crate) fn abandon(&mut self) {
        let pool = self.pool.clone();
        if let Some(mut holder) = self.rollout()
            && let Some(block) = holder.get_mut().and_then(|rollout| rollout.block.take())
        {
            pool.give_back(block);
        }
    }

    /// Gives every row a new trajectory id, the first with the serial after `serial`.
    pub(crate) fn renumber(&mut self, serial: u64, entities: &[Entity]) {
        with_rollout::<T, _>(&mut self.world, |world, rollout| {
            rollout.serial = serial;
            rollout.first_versions.resize(entities.len(), 0);
            rollout.started.clear();
            for (slot, entity) in entities.iter().enumerate() {
                if let Some(mut id) = world.get_mut::<TrajectoryId>(*entity) {
                    *id = rollout.next_id();
                    rollout.started.push(slot as u32);
                }
            }
            rollout.monitor.ledger().counters.trajectory_serial = rollout.serial;
        });
    }

    /// Lets every row's next frame begin with an empty memory.
    pub(crate) fn forget_states(&mut self) {
        let mut actors = self.world.query::<&mut Actor<T>>();
        actors.iter_mut(&mut self.world).for_each(|mut actor| actor.forget_states());
    }

    /// The statistics of the observations of policy number `policy`.
    pub(crate) fn normalization(&mut self, policy: usize) -> Option<RunningNorm> {
        let mut actors = self.world.query::<&Actor<T>>();
        actors.iter(&self.world).find(|actor| actor.number() == policy)?.normalization().cloned()
    }
}

/// Ticks of a rollout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    /// Of this call.
    pub now: usize,
    /// Of later ones.
    pub later: usize,
}

/// How the ticks of one rollout go.
struct TickSchedule {
    rows: u64,
    /// Rows of all workers, and the first one of these.
    all: u64,
    first: u64,
    ticks: Ticks,
    /// Frames that the budget allows.
    left: u64,
    /// Frames of all workers that act at random yet.
    random: u64,
    cut: bool,
}

impl TickSchedule {
    fn run<T: Task>(&self, world: &mut World, tick: &mut Schedule, stop: &AtomicBool) -> Result<(), Error> {
        let mut planned = None;
        for i in 0..self.ticks.now as u64 {
            // At least one tick.
            if i > 0 && stop.load(Relaxed) {
                break;
            }
            let ahead =
                (i + 1 < self.ticks.now as u64).then(|| self.tick(i + 1)).map(|(active, random, _)| (active, random));
            let next = (self.tick(i), ahead);
            // Most ticks go like the one before.
            if planned != Some(next) {
                let mut plan = world.resource_mut::<TickPlan<T>>();
                ((plan.active, plan.random, plan.cut_from), plan.ahead) = next;
                planned = Some(next);
            }
            tick.run(world);
            if world.resource::<TickReport<T>>().failed()
                && let Some(error) = world.resource_mut::<TickReport<T>>().take_error()
            {
                return Err(error);
            }
        }
        Ok(())
    }

    /// How tick `i` goes: rows that act, rows that act at random, and from which row on episodes are cut at its end. Rows
    /// that the budget's last tick leaves out are cut a tick before it.
    fn tick(&self, i: u64) -> (u32, u32, u32) {
        let before = i * self.rows;
        let left = self.left - before;
        let active = if left < self.rows { left as u32 } else { u32::MAX };
        let random = self.random.saturating_sub(i * self.all + self.first).min(self.rows).min(left) as u32;
        let cut_from = match (self.ticks.now + self.ticks.later) as u64 - i {
            1 if self.cut => 0,
            2 if self.cut && left < 2 * self.rows => (left - self.rows) as u32,
            _ => u32::MAX,
        };
        (active, random, cut_from)
    }
}
