//! What runs a collector: a world, its schedule, its threads, and the rollout that they fill.

use std::sync::Arc;

use bevy_ecs::{prelude::*, schedule::LogLevel};

use crate::{
    collector::Collector,
    components::{
        ColumnSpec, EpisodeReturn, Observation, RowIndex, Slot, Threads, TickPlan, TickReport, TrajectoryId, Weights,
    },
    config::{CollectorConfig, Extra},
    env::{Spawn, Stepper},
    error::Error,
    hooks::Hooks,
    memory,
    plugin::{self, TaskParts},
    policy::{Actor, Policy, RunningNorm, plan::Plan},
    rollout::{ArenaPool, Assembly, Block, Columns, Rollout, RolloutSlot, TrajectoryPool, in_order, with_rollout},
    schedule::{Collect, CollectSystems, Executor, Overlap},
    seed::Seed,
    stats::{Fixed, Monitor},
    task::{Task, check_spaces},
    weights::WeightsHandle,
};

/// The parts of a collector that tick.
pub(crate) struct Drive<T: Task> {
    pub world: World,
    pub schedule: Schedule,
    threads: Option<Arc<rayon::ThreadPool>>,
    pub pool: ArenaPool<T>,
    pub specs: Arc<[ColumnSpec]>,
    pub monitor: Monitor,
    pub rows: Vec<RowIndex>,
    slots: QueryState<&'static Slot, With<Observation<T>>>,
    returns: QueryState<&'static EpisodeReturn, With<Observation<T>>>,
}

/// Builds a collector from checked options.
pub(crate) fn build<T: Task>(
    config: CollectorConfig,
    policy: Policy<T>,
    mut stepper: Box<dyn Stepper<T>>,
    hooks: Hooks<T>,
    extras: Vec<Extra>,
    setup: Vec<Box<dyn FnOnce(&mut World, &mut Schedule)>>,
    max_memory: usize,
) -> Result<Collector<T>, Error> {
    check_spaces::<T>()?;
    check_overlap(&config, &policy, &*stepper)?;
    let (asked, effective) = (config.frames_per_batch.unwrap_or(0), config.effective_frames_per_batch());
    if asked > 0 && asked != effective {
        let rows = config.rows;
        tracing::warn!("frames_per_batch {asked} is no multiple of {rows} rows: batches have {effective} frames");
    }
    let mut world = World::new();
    // Conflicts among gleaner's own systems are errors; a host's systems only warn.
    let ambiguity = if setup.is_empty() { LogLevel::Error } else { LogLevel::Warn };
    let mut schedule = Collect::schedule_with(config.executor, config.overlap, ambiguity);
    let plan = policy.plan()?;
    let columns = columns::<T>(&mut world, &config, plan.as_ref(), extras)?;
    let specs: Arc<[ColumnSpec]> = columns.specs.clone().into();
    memory::check::<T>(&config, &specs, plan.as_ref(), max_memory)?;
    let (actor, initial) =
        Actor::open(policy, config.exploration, config.rows, config.threads, config.record_distribution)?;
    let monitor = Monitor::new(Fixed {
        requested_frames_per_batch: effective as u64,
        total_frames: config.total_frames,
        backend: actor.backend().into(),
    });
    tracing::info!(backend = actor.backend(), rows = config.rows, horizon = config.horizon(), "collector built");
    let evaluator = actor.evaluator();
    let weights = weights(&actor, initial)?;
    let limit = [config.max_frames_per_traj, stepper.time_limit()].into_iter().flatten().min().unwrap_or(u32::MAX);
    let shared = shared(&config, &actor);
    let mut rollout = Rollout::new(columns, config.reward, monitor.clone(), TrajectoryPool::new(config.episode_events));
    rollout.worker = config.worker.unwrap_or(0);
    plugin::install_parts(
        &mut world,
        &mut schedule,
        TaskParts {
            actor,
            weights: weights.clone(),
            rollout,
            parallelism: config.parallelism(),
            infer: CollectSystems::Infer,
            overlap: config.overlap,
        },
    );
    let spawn = Spawn {
        first_row: 0,
        rows: config.rows as u32,
        seed: Seed(config.seed),
        worker: config.worker.map(u32::from),
        limit,
        overlap: config.overlap,
    };
    let entities = stepper.install(&mut world, &mut schedule, &spawn)?;
    for change in setup {
        change(&mut world, &mut schedule);
    }
    schedule.initialize(&mut world).map_err(|error| plugin::schedule_error(&error, &schedule, &world))?;
    let threads = threads(config.threads, shared)?;
    if config.executor == Executor::MultiThreaded
        && let Some(pool) = &threads
    {
        world.resource_mut::<TickPlan<T>>().threads = Some(Threads(pool.clone()));
    }
    let mut drive = Drive {
        slots: world.query_filtered(),
        returns: world.query_filtered(),
        rows: (0..config.rows as u32).map(RowIndex).collect(),
        pool: ArenaPool::new(specs.len(), config.max_arenas),
        threads,
        world,
        schedule,
        specs,
        monitor,
    };
    drive.renumber(0, &entities);
    Ok(Collector::new(drive, config, stepper, hooks, evaluator, weights, entities))
}

/// Whether the rows can be two lanes, if they shall be.
fn check_overlap<T: Task>(config: &CollectorConfig, policy: &Policy<T>, stepper: &dyn Stepper<T>) -> Result<(), Error> {
    if config.overlap == Overlap::None {
        return Ok(());
    }
    let conflict = |second, reason: &str| Err(Error::Conflict { first: "overlap", second, reason: reason.into() });
    if !stepper.has_lanes() {
        return conflict("with_simulator", "a simulator steps all rows in one call; leave overlap out");
    }
    if policy.is_system() {
        return conflict("policy", "a host's system acts for all rows at once; leave overlap out");
    }
    if config.executor == Executor::SingleThreaded {
        tracing::warn!("overlap Two: lanes take turns on one thread; they overlap with executor MultiThreaded");
    }
    Ok(())
}

fn columns<T: Task>(
    world: &mut World,
    config: &CollectorConfig,
    plan: Option<&Plan>,
    extras: Vec<Extra>,
) -> Result<Columns, Error> {
    let mut columns = Columns::of::<T>(world, plan.is_some());
    match plan {
        Some(plan) if config.record_distribution => {
            for (spec, source) in crate::policy::params_columns::<T>(world, &plan.head) {
                columns.add(spec, Some(source));
            }
        }
        None if config.record_distribution => {
            let reason = "only a network has a distribution to record".into();
            return Err(Error::Conflict { first: "record_distribution", second: "policy", reason });
        }
        _ => {}
    }
    match plan {
        Some(plan) if plan.is_recurrent() => {
            columns.memory = crate::policy::remembered::<T>(world, plan);
            if config.record_states {
                let (spec, source) = crate::policy::state_column::<T>(world, plan);
                columns.add(spec, Some(source));
            }
        }
        _ if config.record_states => {
            let reason = "only a recurrent network has states to record".into();
            return Err(Error::Conflict { first: "record_states", second: "policy", reason });
        }
        _ => {}
    }
    for extra in extras {
        columns.add_unique(world, extra)?;
    }
    Ok(columns)
}

fn weights<T: Task>(actor: &Actor<T>, initial: Option<Arc<Weights>>) -> Result<Option<WeightsHandle>, Error> {
    let (Some(plan), Some(initial)) = (actor.plan(), initial) else { return Ok(None) };
    WeightsHandle::new(plan.tensors(), (*initial).clone()).map(Some)
}

/// Whether any stage has rows enough to spread them over threads.
fn shared<T: Task>(config: &CollectorConfig, actor: &Actor<T>) -> bool {
    let parallelism = config.parallelism();
    let splits = |least| parallelism.splits(config.rows, least);
    splits(parallelism.step_rows) || actor.divides() && splits(parallelism.infer_rows)
}

/// The threads of a collector; none if the calling thread does everything: entering a pool wakes one of its threads,
/// which costs more than a rollout of a few rows.
fn threads(threads: usize, shared: bool) -> Result<Option<Arc<rayon::ThreadPool>>, Error> {
    if !shared {
        return Ok(None);
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("gleaner-{i}"));
    let built =
        pool.build().map_err(|source| Error::config("threads", threads, format!("what the system allows: {source}")));
    built.map(|pool| Some(Arc::new(pool)))
}

impl<T: Task> Drive<T> {
    /// Bytes of a rollout's columns.
    pub(crate) fn rollout_bytes(&self, rows: usize, ticks: usize) -> usize {
        memory::rollout_bytes(&self.specs, rows, ticks)
    }

    pub(crate) fn rollout(&mut self) -> Option<Mut<'_, RolloutSlot<T>>> {
        self.world.get_resource_mut::<RolloutSlot<T>>()
    }

    /// Runs `ticks` ticks, of which the last steps only as many rows as `left` frames allow.
    pub(crate) fn roll(
        &mut self,
        config: &CollectorConfig,
        block: Box<Block<T>>,
        ticks: usize,
        left: u64,
    ) -> Result<Box<Block<T>>, Error> {
        self.begin(block, ticks);
        let stepped = self.monitor.ledger().counters.stepped_frames;
        let schedule = TickSchedule {
            rows: config.rows as u64,
            ticks: ticks as u64,
            left,
            random: config.init_random_frames.saturating_sub(stepped),
            cut: config.reset_at_each_iter,
        };
        let Self { world, schedule: tick, threads, .. } = self;
        match threads {
            Some(pool) => pool.install(|| schedule.run::<T>(world, tick))?,
            None => schedule.run::<T>(world, tick)?,
        }
        self.report_running_return();
        let block = self.rollout().and_then(|mut holder| holder.0.as_mut()?.finish());
        block.ok_or_else(|| Error::State { call: "rollout", problem: "a system took the rollout away".into() })
    }

    fn begin(&mut self, block: Box<Block<T>>, ticks: usize) {
        let ordered = in_order::<T>(&mut self.slots, &self.world, self.rows.len());
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

    fn report_running_return(&mut self) {
        let returns = self.returns.iter(&self.world);
        let (sum, count) = returns.fold((0.0, 0), |(sum, n), total| (sum + f64::from(total.0), n + 1));
        let mean = (count > 0).then(|| (sum / f64::from(count)) as f32);
        self.monitor.ledger().set_running_return(mean);
    }

    /// Joins a finished rollout to the episodes of `assembly`.
    pub(crate) fn ingest(&mut self, assembly: &mut Assembly<T>, block: &Block<T>) {
        if let Some(rollout) = self.rollout().as_ref().and_then(|holder| holder.0.as_deref()) {
            assembly.ingest(rollout, block, rollout.ticks);
        }
    }

    /// Drops the rollout in progress, if an error cut it short.
    pub(crate) fn abandon(&mut self) {
        let pool = self.pool.clone();
        if let Some(mut holder) = self.rollout()
            && let Some(block) = holder.0.as_mut().and_then(|rollout| rollout.block.take())
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

    pub(crate) fn normalization(&mut self) -> Option<RunningNorm> {
        let mut query = self.world.query::<&Actor<T>>();
        query.iter(&self.world).next()?.normalization().cloned()
    }
}

/// How the ticks of one rollout go.
struct TickSchedule {
    rows: u64,
    ticks: u64,
    /// Frames that the budget allows.
    left: u64,
    /// Frames that act at random yet.
    random: u64,
    cut: bool,
}

impl TickSchedule {
    fn run<T: Task>(&self, world: &mut World, tick: &mut Schedule) -> Result<(), Error> {
        let mut planned = None;
        for i in 0..self.ticks {
            let ahead = (i + 1 < self.ticks).then(|| self.tick(i + 1)).map(|(active, random, _)| (active, random));
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
        let random = self.random.saturating_sub(before).min(self.rows).min(left) as u32;
        let cut_from = match self.ticks - i {
            1 if self.cut => 0,
            2 if self.cut && left < 2 * self.rows => (left - self.rows) as u32,
            _ => u32::MAX,
        };
        (active, random, cut_from)
    }
}
