//! Building a collector from checked options.

use std::{ops::Range, sync::Arc};

use bevy_ecs::{prelude::*, schedule::LogLevel};

use crate::{
    builder::{Extra, Setup},
    collector::Collector,
    components::{ColumnSpec, OwnWorld, Parallelism, Threads, TickPlan, Worker},
    config::CollectorConfig,
    drive::Drive,
    env::{PoolShare, Spawn, Stepper},
    error::Error,
    fault::FaultPolicy,
    hooks::Hooks,
    memory,
    plugin::{self, InstallActing, TaskParts},
    policies::Seat,
    policy::{self, Actor, Duty, Policies, Policy, plan::Plan},
    replay::Replay,
    replay_writer::ReplayWriter,
    rollout::{ArenaPool, Assembly, Columns, Rollout, TrajectoryPool},
    schedule::{Collect, CollectSystems, Executor, Overlap},
    seed::Seed,
    stats::{Fixed, Monitor},
    task::{Task, check_spaces},
    weights::WeightsHandle,
};

/// What a collector is built of; the options are checked.
pub(crate) struct Build<T: Task> {
    pub config: CollectorConfig,
    pub policies: Policies<T>,
    pub stepper: Box<dyn Stepper<T>>,
    pub hooks: Hooks<T>,
    pub extras: Vec<Extra>,
    pub setup: Vec<Setup>,
    pub replay: Option<Replay<T>>,
    pub max_memory: usize,
    pub act: InstallActing,
    /// Spreads the rows over workers.
    pub spread: Option<Spread<T>>,
}

/// Builds the collector in front of workers.
pub(crate) type Spread<T> = fn(Build<T>) -> Result<Collector<T>, Error>;

/// The rows of a world among those of all workers.
pub(crate) struct Share {
    pub rows: Range<u32>,
    pub all_rows: usize,
    /// Rows of each policy in all workers.
    pub policy_rows: Vec<usize>,
    /// Where the weights of each policy come from, if that is decided.
    pub weights: Option<Vec<Option<WeightsHandle>>>,
    /// Number of the worker, if this is one of several.
    pub worker: Option<usize>,
    /// How often the rows were built before.
    pub life: u32,
}

/// Builds a collector.
pub(crate) fn build<T: Task>(parts: Build<T>) -> Result<Collector<T>, Error> {
    check_spaces::<T>()?;
    let config = &parts.config;
    let (asked, effective) = (config.frames_per_batch.unwrap_or(0), config.effective_frames_per_batch());
    if asked > 0 && asked != effective && !config.is_async() {
        let rows = config.rows;
        tracing::warn!("frames_per_batch {asked} is no multiple of {rows} rows: batches have {effective} frames");
    }
    if let Some(spread) = parts.spread {
        return spread(parts);
    }
    let rows = config.rows;
    let policies = parts.policies.rows(rows).map(|range| range.len()).collect();
    build_rows(
        parts,
        Share { rows: 0..rows as u32, all_rows: rows, policy_rows: policies, weights: None, worker: None, life: 0 },
    )
}

/// Builds a collector of rows in a world of its own.
pub(crate) fn build_rows<T: Task>(parts: Build<T>, share: Share) -> Result<Collector<T>, Error> {
    let Build { config, policies, mut stepper, hooks, extras, setup, replay, max_memory, act, .. } = parts;
    let effective = config.effective_frames_per_batch();
    let mut world = OwnWorld::default();
    // Conflicts among gleaner's own systems are errors; a host's systems only warn.
    let ambiguity = if setup.is_empty() { LogLevel::Error } else { LogLevel::Warn };
    let mut schedule = Collect::schedule_with(config.executor, config.overlap, ambiguity);
    // Only a host's systems have commands to apply.
    schedule.set_apply_final_deferred(!setup.is_empty());
    let policies = policies.by_number();
    check_overlap(&config, &policies, &*stepper)?;
    policy::check_exploration(config.exploration, policies.iter().map(|(_, policy)| policy))?;
    check_random(&config, &policies)?;
    check_faults(&config, &*stepper)?;
    let plans = plans(&policies)?;
    let columns = columns(&mut world, &config, &policies, &plans, &extras)?;
    let specs: Arc<[ColumnSpec]> = columns.specs.clone().into();
    memory::check::<T>(&config, &specs, &plans, max_memory)?;
    let agents = agents(&config, &*stepper)?;
    let actors = open(policies, &config, &share)?;
    let backend = backend(&actors);
    let monitor = Monitor::new(Fixed {
        requested_frames_per_batch: Some(effective as u64),
        total_frames: config.total_frames,
        rows: config.rows as u64,
        agents: agents as u64,
        backend: backend.clone(),
        writes: replay.is_some(),
        pool: config.async_batched.is_some(),
    });
    if let Some(options) = config.async_batched {
        let (total_frames, random_frames) = (config.total_frames, config.init_random_frames);
        let (on_fault, monitor) = (config.on_fault, monitor.clone());
        world.insert_resource(PoolShare { options, on_fault, total_frames, random_frames, monitor });
    }
    tracing::info!(backend, rows = config.rows, horizon = config.horizon(), "collector built");
    let policies: Vec<_> = actors.iter().map(|(actor, weights)| Seat::of(actor, weights, config.rows)).collect();
    let limit = [config.max_frames_per_traj, stepper.time_limit()].into_iter().flatten().min().unwrap_or(u32::MAX);
    let (parallelism, shared) = parallelism(&config, &actors);
    let mut rollout = Rollout::new(columns, config.reward, monitor.clone(), TrajectoryPool::new(config.episode_events));
    rollout.worker = config.worker.unwrap_or(0);
    rollout.lends = setup.is_empty();
    let writer = |replay| ReplayWriter::new(replay, rollout.worker, &specs, config.whole_episodes());
    let replay = replay.as_ref().map(writer).transpose()?;
    if config.takes_as_they_come() {
        world.insert_resource(Assembly::<T>::new(&specs).listing_all());
    } else if config.trajs_per_batch.is_some() || config.whole_episodes().is_some() {
        world.insert_resource(Assembly::<T>::new(&specs));
    }
    plugin::install_parts(
        &mut world,
        &mut schedule,
        TaskParts {
            actors,
            rollout,
            replay,
            parallelism,
            act,
            infer: if config.async_batched.is_some() { CollectSystems::Respond } else { CollectSystems::Infer },
            adopter: (share.worker.unwrap_or(0), share.life),
        },
    );
    let spawn = Spawn {
        first_row: share.rows.start,
        rows: config.rows as u32,
        all_rows: share.all_rows as u32,
        seed: Seed(config.seed),
        worker: config.worker.map(u32::from),
        first_episode: share.life.wrapping_mul(1 << 24),
        limit,
        overlap: config.overlap,
        on_fault: config.on_fault,
        monitor: monitor.clone(),
    };
    let entities = stepper.install(&mut world, &mut schedule, &spawn)?;
    if let Some(worker) = share.worker {
        world.spawn(Worker { index: worker as u32, first_row: spawn.first_row, rows: spawn.rows });
    }
    for change in setup {
        change(&mut world, &mut schedule);
    }
    schedule.initialize(&mut world).map_err(|error| plugin::schedule_error(&error, &schedule, &world))?;
    let threads = threads(config.threads, shared)?;
    if config.executor == Executor::MultiThreaded {
        world.resource_mut::<TickPlan<T>>().threads = threads.clone();
    }
    let pool = ArenaPool::new(specs.len(), config.max_arenas);
    let mut drive = Drive::new(world, schedule, threads, pool, specs, monitor, share.rows);
    drive.all_rows = share.all_rows;
    drive.renumber(0, &entities);
    Ok(Collector::new(drive, config, stepper, hooks, policies, agents, entities))
}

/// Whether the rows can be two lanes, if they shall be.
fn check_overlap<T: Task>(
    config: &CollectorConfig,
    policies: &[(Range<u32>, Policy<T>)],
    stepper: &dyn Stepper<T>,
) -> Result<(), Error> {
    if config.overlap == Overlap::None {
        return Ok(());
    }
    let conflict = |second, reason: &str| Err(Error::Conflict { first: "overlap", second, reason: reason.into() });
    if !stepper.has_lanes() {
        return conflict("with_simulator", "a simulator steps all rows in one call; leave overlap out");
    }
    if policies.iter().any(|(_, policy)| policy.is_system()) {
        return conflict("policy", "a host's system acts for all rows at once; leave overlap out");
    }
    if config.executor == Executor::SingleThreaded {
        tracing::warn!("overlap Two: lanes take turns on one thread; they overlap with executor MultiThreaded");
    }
    Ok(())
}

/// Whether gleaner may choose actions, if it shall.
fn check_random<T: Task>(config: &CollectorConfig, policies: &[(Range<u32>, Policy<T>)]) -> Result<(), Error> {
    if config.init_random_frames == 0 || !policies.iter().any(|(_, policy)| policy.is_system()) {
        return Ok(());
    }
    let reason = "a host's system chooses all actions, the random ones too; leave init_random_frames out".into();
    Err(Error::Conflict { first: "init_random_frames", second: "policy", reason })
}

/// Whether a row that fails can start anew, if it shall.
fn check_faults<T: Task>(config: &CollectorConfig, stepper: &dyn Stepper<T>) -> Result<(), Error> {
    if config.on_fault == FaultPolicy::Stop || stepper.rebuilds() {
        return Ok(());
    }
    let reason = "a simulator steps all rows in one call, and none of them can be built anew; leave on_fault out";
    Err(Error::Conflict { first: "on_fault", second: "with_simulator", reason: reason.into() })
}

pub(crate) fn plans<T: Task>(policies: &[(Range<u32>, Policy<T>)]) -> Result<Vec<Option<Plan>>, Error> {
    let plan = |(i, (_, policy)): (usize, &(Range<u32>, Policy<T>))| {
        policy.plan().map_err(|error| match error {
            Error::Network { field, value, legal } if policies.len() > 1 => {
                Error::Network { field: format!("policies[{i}]: {field}"), value, legal }
            }
            error => error,
        })
    };
    policies.iter().enumerate().map(plan).collect()
}

pub(crate) fn columns<T: Task>(
    world: &mut World,
    config: &CollectorConfig,
    policies: &[(Range<u32>, Policy<T>)],
    plans: &[Option<Plan>],
    extras: &[Extra],
) -> Result<Columns, Error> {
    let networks = || plans.iter().flatten();
    let mut columns = Columns::of::<T>(world, networks().next().is_some());
    if policies.len() > 1 {
        let (spec, source) = policy::policy_column(policies.iter().map(|(range, _)| range.clone()).collect());
        columns.add(spec, Some(source));
    }
    let conflict = |first, reason: &str| Error::Conflict { first, second: "policy", reason: reason.into() };
    if config.record_distribution {
        let mut heads = networks().map(|plan| policy::params_columns::<T>(world, &plan.head));
        let first = heads
            .next()
            .ok_or_else(|| conflict("record_distribution", "only a network has a distribution to record"))?;
        let alike = |head: &[(ColumnSpec, _)]| head.iter().map(|(spec, _)| spec).eq(first.iter().map(|(spec, _)| spec));
        if !heads.all(|head| alike(&head)) {
            return Err(conflict(
                "record_distribution",
                "several networks need heads whose distributions have the same columns",
            ));
        }
        drop(heads);
        first.into_iter().for_each(|(spec, source)| columns.add(spec, Some(source)));
    }
    // A pool's rows are joined to episodes, which keep no states.
    if config.async_batched.is_none() {
        columns.memory = policy::remembered::<T>(world, networks());
    }
    if config.record_states {
        let (spec, source) = policy::state_column::<T>(world, networks())
            .ok_or_else(|| conflict("record_states", "only a recurrent network has states to record"))?;
        columns.add(spec, Some(source));
    }
    for extra in extras {
        columns.add_unique(world, &**extra)?;
    }
    Ok(columns)
}

/// Rows of one simulation. Errors: rows that are no whole number of simulations, or budgets that are no whole steps.
fn agents<T: Task>(config: &CollectorConfig, stepper: &dyn Stepper<T>) -> Result<usize, Error> {
    let (agents, rows) = (stepper.agents(), config.rows);
    if agents == 0 || rows % agents != 0 {
        let legal = format!("a multiple of {agents}, the agents of one simulation, which are at least 1");
        return Err(Error::config("rows", rows, legal));
    }
    match config.total_frames {
        // The last tick could not step all agents of a simulation, whose rows are apart.
        Some(total) if agents > 1 && total % rows as u64 != 0 => {
            let legal = format!("a multiple of {rows} rows, so that the {agents} agents of a simulation step together");
            Err(Error::config("total_frames", total, legal))
        }
        _ => Ok(agents),
    }
}

/// Opens the policies, each with the handle of its weights if it is a network.
fn open<T: Task>(
    policies: Vec<(Range<u32>, Policy<T>)>,
    config: &CollectorConfig,
    share: &Share,
) -> Result<Vec<(Actor<T>, Option<WeightsHandle>)>, Error> {
    let open = |(number, (rows, policy)): (usize, (Range<u32>, Policy<T>))| {
        let name = policy.name.clone();
        let (actor, initial) = Actor::open(
            policy,
            Duty {
                policy: number,
                rows,
                slots: config.rows,
                all_rows: share.policy_rows[number],
                exploration: config.exploration,
                threads: config.threads,
                record_params: config.record_distribution,
            },
        )?;
        if let Some(weights) = &share.weights {
            return Ok((actor, weights[number].clone()));
        }
        let weights = match (actor.plan(), initial) {
            (Some(plan), Some(initial)) => Some(WeightsHandle::named(name, plan.tensors(), (*initial).clone())?),
            _ => None,
        };
        Ok((actor, weights))
    };
    policies.into_iter().enumerate().map(open).collect()
}

/// What the networks run on, each backend once.
fn backend<T: Task>(actors: &[(Actor<T>, Option<WeightsHandle>)]) -> Option<String> {
    let mut names: Vec<_> = Vec::new();
    for name in actors.iter().filter_map(|(actor, _)| actor.backend()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| names.join(", "))
}

/// How stages are spread over threads, and whether any is.
fn parallelism<T: Task>(config: &CollectorConfig, actors: &[(Actor<T>, Option<WeightsHandle>)]) -> (Parallelism, bool) {
    if config.threads == 1 {
        return (Parallelism::SERIAL, false);
    }
    let (threads, infer_rows) = (config.threads, config.infer_rows_per_thread);
    let infers = |actor: &Actor<T>| actor.divides() && actor.count() / 2 >= infer_rows;
    let awake = actors.iter().any(|(actor, _)| infers(actor));
    // Waking a thread takes as long as stepping thousands of rows.
    let step_rows = config.step_rows_per_thread.unwrap_or(if awake { 2_048 } else { 16_384 });
    let parallelism = Parallelism { threads, step_rows, infer_rows };
    (parallelism, awake || parallelism.splits(config.rows, step_rows))
}

/// The threads of a collector; none if the calling thread does everything: entering a pool wakes one of its threads,
/// which costs more than a rollout of a few rows.
fn threads(threads: usize, shared: bool) -> Result<Option<Threads>, Error> {
    if !shared {
        return Ok(None);
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("gleaner-{i}"));
    let built =
        pool.build().map_err(|source| Error::config("threads", threads, format!("what the system allows: {source}")));
    built.map(|pool| Some(Threads(Arc::new(pool))))
}
