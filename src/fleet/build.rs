//! Building a collector with workers.

use std::{
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize},
    },
    time::Duration,
};

use bevy_ecs::prelude::*;

use super::{Budget, Child, Common, Filling, Fleet};
use crate::{
    build::{self, Build, Share, build_rows},
    collector::Collector,
    components::{ColumnSpec, RolloutSlot, Worker, WorkerStatus},
    config::CollectorConfig,
    drive::Drive,
    error::Error,
    hooks::Hooks,
    policies::Seat,
    replay_writer::ReplayWriter,
    rollout::{ArenaPool, Assembly, Rollout, TrajectoryPool},
    schedule::Collect,
    stats::{Fixed, Monitor, Watched},
    task::Task,
    workers::Crew,
};

/// Builds the workers' collectors and the one in front of them, and starts the threads.
pub(crate) fn build<T: Task>(parts: Build<T>) -> Result<Collector<T>, Error> {
    let ranges = parts.config.ranges();
    let budget = Arc::new(AtomicU64::new(parts.config.total_frames.unwrap_or(u64::MAX)));
    let policy_rows: Vec<_> = parts.policies.rows(parts.config.rows).collect();
    let mut children: Vec<Child<T>> = Vec::with_capacity(ranges.len());
    for (worker, range) in ranges.iter().enumerate() {
        let weights = children.first().map(|first| first.collector.policies.iter().map(|seat| seat.weights.clone()));
        let share = Share {
            rows: range.clone(),
            all_rows: parts.config.rows,
            policy_rows: policy_rows.iter().map(|rows| rows.len()).collect(),
            weights: weights.map(Iterator::collect),
            worker: Some(worker),
        };
        let mut collector = build_rows(share_of(&parts, worker, range)?, share)?;
        check_statistics(&mut collector)?;
        collector.joined_in_front = parts.config.is_sync() && joins(&parts.config);
        if parts.config.is_async() {
            collector.budget = Some(Budget { left: budget.clone(), granted: 0, taken: Arc::default() });
        }
        children.push(Child { collector, worker, held: Arc::default() });
    }
    front(parts, ranges, policy_rows, children)
}

/// Whether episodes are joined.
fn joins(config: &CollectorConfig) -> bool {
    config.trajs_per_batch.is_some() || config.whole_episodes().is_some()
}

/// What a worker's collector is built of.
fn share_of<T: Task>(parts: &Build<T>, worker: usize, range: &Range<u32>) -> Result<Build<T>, Error> {
    let stepper = parts.stepper.share().ok_or_else(|| Error::Conflict {
        first: "with_simulator",
        second: "workers",
        reason: "one simulator steps all rows in one call; leave workers out".into(),
    })?;
    let mut config = CollectorConfig {
        rows: range.len(),
        workers: 0,
        delivery: None,
        worker_rows: None,
        preemptive_threshold: None,
        worker_deadline: None,
        on_worker_fault: None,
        worker: Some(worker as u16),
        total_frames: None,
        ..parts.config.clone()
    };
    if parts.config.is_sync() {
        // The collector in front makes batches of what they have in common.
        config.frames_per_batch = Some(parts.config.horizon().saturating_mul(range.len()));
        (config.trajs_per_batch, config.traj_format, config.set_truncated) = (None, None, false);
        (config.replay_write_mode, config.trajs_per_write, config.max_open_frames) = (None, None, None);
        config.max_arenas = 1;
    }
    let rows = range.start as usize..range.end as usize;
    Ok(Build {
        config,
        policies: parts.policies.share(rows),
        stepper,
        hooks: Hooks::default(),
        extras: parts.extras.clone(),
        setup: parts.setup.clone(),
        replay: None,
        max_memory: parts.max_memory,
    })
}

/// Statistics of one worker's rows are not those of all.
fn check_statistics<T: Task>(collector: &mut Collector<T>) -> Result<(), Error> {
    let running = (0..collector.policies.len()).any(|policy| {
        let norm = collector.drive.normalization(policy);
        norm.is_some_and(|norm| !norm.frozen)
    });
    if running {
        let reason = "each worker would have statistics of its own rows; give the policy frozen ones, or leave workers out";
        return Err(Error::Conflict { first: "normalize", second: "workers", reason: reason.into() });
    }
    Ok(())
}

fn front<T: Task>(
    parts: Build<T>,
    ranges: Vec<Range<u32>>,
    policy_rows: Vec<Range<usize>>,
    children: Vec<Child<T>>,
) -> Result<Collector<T>, Error> {
    let Build { config, policies, stepper, hooks, extras, replay, .. } = parts;
    let mut world = World::new();
    let policies = policies.by_number();
    let plans = build::plans(&policies)?;
    let columns = build::columns(&mut world, &config, &policies, &plans, &extras)?;
    let specs: Arc<[ColumnSpec]> = columns.specs.clone().into();
    let first = &children[0].collector;
    let seats: Vec<_> = policy_rows
        .into_iter()
        .zip(&first.policies)
        .map(|(rows, seat)| Seat { rows, weights: seat.weights.clone(), evaluator: seat.evaluator.clone() })
        .collect();
    let weights: Vec<_> = seats.iter().map(|seat| seat.weights.clone()).collect();
    weights.iter().flatten().for_each(|weights| weights.set_adopters(children.len()));
    let frames = match config.is_sync() {
        true => config.effective_frames_per_batch(),
        false => children.iter().map(|child| child.collector.frames_per_batch()).max().unwrap_or(0),
    };
    let tokens: Vec<Arc<()>> = children.iter().map(|_| Arc::default()).collect();
    let monitors: Vec<Monitor> = children.iter().map(|child| child.collector.monitor()).collect();
    let watched = monitors.iter().zip(&tokens);
    let watched = watched.map(|(monitor, token)| Watched { monitor: monitor.clone(), thread: Arc::downgrade(token) });
    let fixed = Fixed {
        requested_frames_per_batch: frames as u64,
        total_frames: config.total_frames,
        rows: config.rows as u64,
        agents: 1,
        backend: first.stats().backend,
    };
    let monitor = Monitor::of_workers(fixed, watched);
    let rollout = Rollout::new(columns, config.reward, monitor.clone(), TrajectoryPool::new(false));
    world.insert_resource(RolloutSlot::<T>(Some(Box::new(rollout))));
    if config.is_sync() && joins(&config) {
        world.insert_resource(Assembly::<T>::new(&specs));
    }
    if let Some(replay) = &replay {
        let mut writer = ReplayWriter::new(replay, 0, &specs, None)?;
        writer.direct = false;
        world.insert_resource(writer);
    }
    let spawn = |(index, range): (u32, &Range<u32>)| {
        let worker = Worker { index, first_row: range.start, rows: range.len() as u32 };
        world.spawn(worker).id()
    };
    let entities = (0..).zip(&ranges).map(spawn).collect();
    let pool = ArenaPool::new(specs.len(), config.max_arenas);
    let schedule = Schedule::new(Collect);
    let drive = Drive::new(world, schedule, None, pool, specs, monitor, 0..config.rows as u32, config.rows);
    let fleet = fleet(&config, ranges, monitors, weights, children, tokens)?;
    let mut collector = Collector::new(drive, config, stepper, hooks, seats, 1, entities);
    collector.fleet = Some(Box::new(fleet));
    Ok(collector)
}

fn fleet<T: Task>(
    config: &CollectorConfig,
    ranges: Vec<Range<u32>>,
    monitors: Vec<Monitor>,
    weights: Vec<Option<crate::weights::WeightsHandle>>,
    mut children: Vec<Child<T>>,
    tokens: Vec<Arc<()>>,
) -> Result<Fleet<T>, Error> {
    let workers = children.len();
    let share = config.preemptive_threshold.map_or(workers, |share| (workers as f32 * share) as usize);
    let filling = Mutex::new(Filling { merge: None, lost: vec![false; workers] });
    // All together are never waited for less.
    let enough = if share >= workers { usize::MAX } else { share.max(1) };
    let stop = Arc::<AtomicBool>::default();
    children.iter_mut().for_each(|child| child.collector.stop = stop.clone());
    let common = Common { filling, stop, finished: AtomicUsize::new(0), enough };
    let budgets = children.iter().map(|child| child.collector.budget.as_ref());
    let budgets = budgets.map(|budget| budget.map(|budget| (budget.left.clone(), budget.taken.clone()))).collect();
    let held = children.iter().map(|child| child.held.clone()).collect();
    Ok(Fleet {
        // One batch of each may wait beside the one that it makes.
        crew: Crew::start(children.into_iter().zip(tokens), workers)?,
        ranges,
        monitors,
        weights,
        common: Arc::new(common),
        deadline: config.deadline(),
        on_fault: config.on_worker_fault.unwrap_or_default(),
        statuses: vec![WorkerStatus::Working; workers],
        here: vec![true; workers],
        through: vec![false; workers],
        producing: false,
        waited: vec![Duration::ZERO; workers],
        held,
        max_arenas: config.max_arenas,
        budgets,
        round: 0,
    })
}
