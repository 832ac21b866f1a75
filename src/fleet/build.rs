//! Building a collector with workers.

use std::{
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64},
    },
};

use bevy_ecs::prelude::*;

use super::{
    child::{Budget, Child},
    member::Member,
    pace::Pace,
    threads::{Common, Filling, ThreadFleet},
};
use crate::{
    build::{self, Build, Share, build_rows},
    builder::{Extra, Setup},
    collector::Collector,
    components::{ColumnSpec, OwnWorld, RolloutSlot, Worker},
    config::CollectorConfig,
    drive::Drive,
    env::Stepper,
    error::Error,
    hooks::Hooks,
    plugin::InstallActing,
    policies::Seat,
    policy::{Policies, WorkerCritics},
    replay_writer::ReplayWriter,
    rollout::{ArenaPool, Assembly, Rollout, TrajectoryPool},
    schedule::Collect,
    stats::{Counters, Fixed, Monitor, Watched},
    task::Task,
    weights::{Models, WeightSync, WeightsHandle},
    workers::Crew,
};

/// Where the weights of each policy come from.
pub(super) type Handles = Vec<Option<WeightsHandle>>;

/// What each worker is built of.
pub(super) struct Parts<T: Task> {
    pub config: CollectorConfig,
    policies: Policies<T>,
    stepper: Box<dyn Stepper<T>>,
    extras: Vec<Extra>,
    setup: Vec<Setup>,
    max_memory: usize,
    act: InstallActing,
    /// Frames that workers may step yet which deliver on their own.
    pub budget: Arc<AtomicU64>,
}

/// Builds the workers' collectors and the one in front of them, and starts the threads.
pub(crate) fn build<T: Task>(build: Build<T>) -> Result<Collector<T>, Error> {
    let Build { config, policies, stepper, hooks, extras, setup, replay, max_memory, act, .. } = build;
    let budget = Arc::new(AtomicU64::new(config.total_frames.unwrap_or(u64::MAX)));
    let parts = Parts { config, policies, stepper, extras, setup, max_memory, act, budget };
    let ranges = parts.config.ranges();
    let stop = Arc::default();
    let mut children: Vec<Child<T>> = Vec::with_capacity(ranges.len());
    for (worker, range) in ranges.iter().enumerate() {
        let first = children.first().filter(|_| !parts.apart());
        let mut child = parts.child(worker, range, first.map(Child::handles), 0, None, &stop)?;
        check_statistics(&mut child.collector)?;
        if parts.config.preemptive_threshold.is_some() && child.collector.drive.remembers() {
            let reason = "a rollout that is cut short lacks the states behind its last frames; leave this out".into();
            return Err(Error::Conflict { first: "preemptive_threshold", second: "policy", reason });
        }
        children.push(child);
    }
    let mut front = parts.front(hooks, replay, &children)?;
    let weights: Vec<Handles> = children.iter().map(Child::handles).collect();
    if parts.apart() {
        front.worker_models = weights.iter().map(|own| models(own)).collect();
    }
    let critics = children.iter().map(|child| child.collector.critic.clone()).collect::<Option<Vec<_>>>();
    let critics = critics.filter(|_| parts.apart()).map(|critics| Arc::new(WorkerCritics::new(critics)));
    if let Some(critics) = &critics {
        front.critic = Some(critics.clone());
    }
    let mut fleet = parts.fleet(&front, ranges, children, weights, stop)?;
    fleet.critics = critics;
    front.fleet = Some(Box::new(fleet));
    Ok(front)
}

/// The handles of one worker's networks.
fn models(handles: &[Option<WeightsHandle>]) -> Models {
    Models::new(handles.iter().enumerate().filter_map(|(policy, handle)| Some((policy, handle.clone()?))))
}

impl<T: Task> Child<T> {
    fn handles(&self) -> Handles {
        self.collector.policies.iter().map(|seat| seat.weights.clone()).collect()
    }
}

/// Statistics of one worker's rows are not those of all.
fn check_statistics<T: Task>(collector: &mut Collector<T>) -> Result<(), Error> {
    let running = (0..collector.policies.len()).any(|policy| {
        let norm = collector.drive.normalization(policy);
        norm.is_some_and(|norm| !norm.frozen)
    });
    if running {
        let reason =
            "each worker would have statistics of its own rows; give the policy frozen ones, or leave workers out";
        return Err(Error::Conflict { first: "normalize", second: "workers", reason: reason.into() });
    }
    Ok(())
}

impl<T: Task> Parts<T> {
    /// Whether episodes are joined in front of the workers.
    pub(super) fn joins(&self) -> bool {
        let whole = self.config.trajs_per_batch.is_some() || self.config.whole_episodes().is_some();
        self.config.is_sync() && whole
    }

    /// Whether each worker has weights of its own.
    fn apart(&self) -> bool {
        self.config.weight_sync == WeightSync::PerWorker
    }

    /// A worker's collector, in its `life`-th life from 0; a later one goes on from the counters of those before.
    pub(super) fn child(
        &self,
        worker: usize,
        rows: &Range<u32>,
        weights: Option<Handles>,
        life: u32,
        before: Option<Counters>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Child<T>, Error> {
        let all_rows = self.config.rows;
        let policy_rows = self.policies.rows(all_rows).map(|rows| rows.len()).collect();
        let share = Share { rows: rows.clone(), all_rows, policy_rows, weights, worker: Some(worker), life };
        let mut collector = build_rows(self.of_worker(worker, rows)?, share)?;
        collector.stop = stop.clone();
        collector.joined_in_front = self.joins();
        if self.config.is_async() {
            collector.budget = Some(Budget { left: self.budget.clone(), granted: 0, taken: Arc::default() });
        }
        if let Some(before) = before {
            collector.follow(&before);
        }
        let ordered = self.config.max_staleness.map(|_| Arc::default());
        Ok(Child { collector, worker, life, held: Arc::default(), ordered })
    }

    /// What a worker's collector is built of.
    fn of_worker(&self, worker: usize, rows: &Range<u32>) -> Result<Build<T>, Error> {
        let stepper = self.stepper.share().ok_or_else(|| Error::Conflict {
            first: "with_simulator",
            second: "workers",
            reason: "one simulator steps all rows in one call; leave workers out".into(),
        })?;
        let mut config = CollectorConfig {
            rows: rows.len(),
            workers: 0,
            delivery: None,
            worker_rows: None,
            preemptive_threshold: None,
            worker_deadline: None,
            on_worker_fault: None,
            max_staleness: None,
            weight_sync_interval: None,
            worker: Some(worker as u16),
            total_frames: None,
            ..self.config.clone()
        };
        if self.config.is_sync() {
            // The collector in front makes batches of what they have in common.
            config.frames_per_batch = Some(self.config.horizon().saturating_mul(rows.len()));
            (config.trajs_per_batch, config.traj_format, config.set_truncated) = (None, None, false);
            (config.replay_write_mode, config.trajs_per_write, config.max_open_frames) = (None, None, None);
            config.max_arenas = 1;
        }
        Ok(Build {
            config,
            policies: self.policies.share(rows.start as usize..rows.end as usize),
            stepper,
            hooks: Hooks::default(),
            extras: self.extras.clone(),
            setup: self.setup.clone(),
            replay: None,
            max_memory: self.max_memory,
            act: self.act,
            spread: None,
        })
    }

    /// The collector that delivers what workers collect.
    fn front(
        &self,
        hooks: Hooks<T>,
        replay: Option<crate::replay::Replay<T>>,
        children: &[Child<T>],
    ) -> Result<Collector<T>, Error> {
        let config = self.config.clone();
        let mut world = OwnWorld::default();
        let policies = self.policies.share(0..config.rows).by_number();
        let columns = build::columns(&mut world, &config, &policies, &build::plans(&policies)?, &self.extras)?;
        let specs: Arc<[ColumnSpec]> = columns.specs.clone().into();
        let monitor = self.monitor(children, replay.is_some());
        let rollout = Rollout::new(columns, config.reward, monitor.clone(), TrajectoryPool::new(false));
        world.insert_resource(RolloutSlot::<T>(Some(Box::new(rollout))));
        if self.joins() {
            world.insert_resource(Assembly::<T>::new(&specs));
        }
        if let Some(replay) = &replay {
            let mut writer = ReplayWriter::new(replay, 0, &specs, None)?;
            writer.direct = false;
            world.insert_resource(writer);
        }
        let spawn = |(index, range): (u32, Range<u32>)| {
            world.spawn(Worker { index, first_row: range.start, rows: range.len() as u32 }).id()
        };
        let entities = (0..).zip(config.ranges()).map(spawn).collect();
        let first = &children[0].collector.policies;
        let seats = self.policies.rows(config.rows).zip(first);
        let seats = seats
            .map(|(rows, seat)| {
                // A network of all is not one worker's.
                let evaluator = seat.evaluator.clone().filter(|_| !self.apart());
                Seat { rows, weights: seat.weights.clone(), evaluator }
            })
            .collect();
        let pool = ArenaPool::new(specs.len(), config.max_arenas);
        let (rows, schedule) = (0..config.rows as u32, Schedule::new(Collect));
        let drive = Drive::new(world, schedule, None, pool, specs, monitor, rows);
        let stepper = self.stepper.share().unwrap_or_else(|| unreachable!("the workers have shares of it"));
        Ok(Collector::new(drive, config, stepper, hooks, seats, 1, entities))
    }

    fn monitor(&self, children: &[Child<T>], writes: bool) -> Monitor {
        let frames = match self.config.is_sync() {
            true => self.config.effective_frames_per_batch(),
            false => children.iter().map(|child| child.collector.frames_per_batch()).max().unwrap_or(0),
        };
        Monitor::new(Fixed {
            requested_frames_per_batch: Some(frames as u64),
            total_frames: self.config.total_frames,
            rows: self.config.rows as u64,
            agents: 1,
            backend: children[0].collector.stats().backend,
            writes,
            pool: false,
        })
    }

    fn fleet(
        self,
        front: &Collector<T>,
        ranges: Vec<Range<u32>>,
        children: Vec<Child<T>>,
        weights: Vec<Handles>,
        stop: Arc<AtomicBool>,
    ) -> Result<ThreadFleet<T>, Error> {
        let (config, workers) = (&self.config, children.len());
        for (worker, own) in weights.iter().enumerate() {
            for handle in own.iter().flatten() {
                match self.apart() {
                    true => handle.set_only_adopter(worker, workers),
                    false => handle.set_adopters(workers),
                }
            }
        }
        let filling = Mutex::new(Filling { merge: None, lives: vec![Some(0); workers], finished: 0 });
        let share = config.preemptive_threshold.unwrap_or(1.0);
        let members: Vec<_> = children.iter().zip(ranges).map(|(child, rows)| Member::of(child, rows, 0)).collect();
        let tokens: Vec<Arc<()>> = children.iter().map(|_| Arc::default()).collect();
        for (worker, (member, token)) in members.iter().zip(&tokens).enumerate() {
            let monitor = member.monitor.clone();
            front.drive.monitor.watch(Watched { worker, monitor, thread: Arc::downgrade(token) });
        }
        Ok(ThreadFleet {
            // One batch of each may wait beside the one that it makes.
            crew: Crew::start(children.into_iter().zip(tokens), workers)?,
            members,
            weights,
            pace: config.max_staleness.map(|most| Pace::new(most, workers)),
            common: Arc::new(Common { filling, stop, share }),
            deadline: config.deadline(),
            on_fault: config.on_worker_fault.unwrap_or_default(),
            parts: Arc::new(self),
            critics: None,
            first: None,
            restarts: 0,
            producing: false,
            round: 0,
        })
    }
}
