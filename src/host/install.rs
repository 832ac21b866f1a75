//! Putting a hosted task into a world.

use std::sync::Arc;

use bevy_ecs::{
    prelude::*,
    schedule::{LogLevel, Schedules},
};
use serde::{Deserialize, Serialize};

use super::{
    batches::{Batches, record_answers, turn_rollout},
    rows::{self, HostRows},
};
use crate::{
    builder::Extra,
    components::{AllRows, Parallelism, Slot, TickPlan},
    config::MAX_ROWS,
    data::Data,
    env::{Env, RowContext, RowStepper, Spawn, Stepper},
    error::{BoxError, Error},
    fault::FaultPolicy,
    plugin::{TaskParts, act_for, install_parts},
    policy::{self, Actor, Duty, Evaluator, Exploration, Policy},
    replay::Replay,
    replay_writer::{ReplayWriteMode, ReplayWriter, WholeEpisodes, mode_conflicts},
    rollout::{ArenaPool, Columns, RewardTransform, Rollout, TrajectoryPool},
    schedule::{Collect, CollectSystems, Executor, Overlap, TaskSystems},
    seed::Seed,
    stats::{Fixed, Monitor},
    task::{Task, check_spaces},
    weights::WeightsHandle,
};

/// Options of a collection from a host's rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostConfig {
    /// Ticks of a batch. Default: 64.
    pub ticks_per_batch: usize,
    /// Frames after which the engine asks the host to reset a row. Default: none.
    pub max_frames_per_traj: Option<u32>,
    /// How the policy's distribution becomes an action. Mode and mean need a network, random not a host's system.
    /// Default: sample.
    pub exploration: Exploration,
    /// Master seed of the policy's streams. Default: 0.
    pub seed: u64,
    /// Batches that may be alive at once, taken or not; when all are, rows stand still. Default: 8.
    pub max_arenas: usize,
    /// Bytes that the columns of one rollout may take. Default: 8 GiB.
    pub max_memory: usize,
    /// How recorded rewards are made from the host's. Default: as they are.
    pub reward: RewardTransform,
    /// Whether the last frame of each row in a batch is marked as truncated. Default: no.
    pub set_truncated: bool,
    /// Whether [`EpisodeEnded`](crate::rollout::EpisodeEnded) is triggered for each finished episode. Default: no.
    pub episode_events: bool,
    /// Number of this collection among several whose data are put together, as
    /// [`CollectorConfig::worker`](crate::config::CollectorConfig::worker). Default: none, and ids as of worker 0.
    pub worker: Option<u16>,
    /// What is written to the replay buffer. Only with [`HostBuilder::replay`]. Default: rollouts.
    pub replay_write_mode: Option<ReplayWriteMode>,
    /// Finished episodes of a write, fewer if fewer wait. Only with mode `Trajectory`. Default: all that wait.
    pub trajs_per_write: Option<usize>,
    /// Frames of running episodes that are held until their end, as
    /// [`CollectorConfig::max_open_frames`](crate::config::CollectorConfig::max_open_frames). Only with mode
    /// `Trajectory`. Default: 1,048,576.
    pub max_open_frames: Option<usize>,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            ticks_per_batch: 64,
            max_frames_per_traj: None,
            exploration: Exploration::Sample,
            seed: 0,
            max_arenas: 8,
            max_memory: 8 << 30,
            reward: RewardTransform::default(),
            set_truncated: false,
            episode_events: false,
            worker: None,
            replay_write_mode: None,
            trajs_per_write: None,
            max_open_frames: None,
        }
    }
}

/// Collects from the entities of a host's world.
pub struct HostBuilder<T: Task> {
    config: HostConfig,
    policy: Policy<T>,
    extras: Vec<Extra>,
    /// Environments that gleaner steps, and their number; none if the host steps its own entities.
    owned: Option<(u32, Box<dyn Stepper<T>>)>,
    replay: Option<Replay<T>>,
}

/// What is handed out when a task is put into a world; in an app, a resource.
#[derive(Resource)]
pub struct Installed<T: Task> {
    /// Publishes new weights; none if the policy is no network.
    pub weights: Option<WeightsHandle>,
    /// Reads the counters.
    pub monitor: Monitor,
    /// The network outside the tick; none if the policy is no network.
    pub evaluator: Option<Evaluator<T>>,
}

impl<T: Task> HostBuilder<T> {
    /// Rows of task `T` that `policy` acts for.
    pub fn new(policy: Policy<T>) -> Self {
        Self { config: HostConfig::default(), policy, extras: Vec::new(), owned: None, replay: None }
    }

    /// Sets all options.
    #[must_use]
    pub fn config(mut self, config: HostConfig) -> Self {
        self.config = config;
        self
    }

    /// Writes each rollout, or the episodes that are complete with it ([`HostConfig::replay_write_mode`]), to `replay` at
    /// the end of its last tick; [`Batches`] then has none. Several collectors and hosts may share a buffer if each has
    /// its own number ([`HostConfig::worker`]). Of rollouts an episode that is cut between two of them, as its row left
    /// the world, has no end in the buffer; written whole it has.
    #[must_use]
    pub fn replay(mut self, replay: &Replay<T>) -> Self {
        self.replay = Some(replay.clone());
        self
    }

    /// Records component `C` of the rows as column `name`. Rows that lack it have zeros there.
    #[must_use]
    pub fn record<C: Component + Data>(mut self, name: &'static str) -> Self {
        self.extras.push(Arc::new(move |columns, world| columns.add_extra::<T, C>(world, name)));
        self
    }

    /// Adds the task's stages to the schedule [`Collect`] of `world`; the host runs it, once a tick:
    /// `world.run_schedule(Collect)`. Call it once for each task, before its rows are spawned.
    ///
    /// Errors: [`Error::Config`] and [`Error::Conflict`] for illegal options, several in [`Error::Many`], for a
    /// recorded component's name that is taken, for rows that take more than `max_memory`, and for a number that
    /// another collector of the replay buffer has; [`Error::Space`]; [`Error::State`] if the task is in the world
    /// already, or the buffer's handle is read-only; [`Error::Network`], [`Error::Tensor`] and those of the device for
    /// a policy that cannot act. Where gleaner steps, also those of factories and first resets; the task then stays in the
    /// world without a frame.
    pub fn install(self, world: &mut World) -> Result<Installed<T>, Error> {
        let Self { config, policy, extras, owned, replay } = self;
        config.check(replay.is_some())?;
        let rows = owned.as_ref().map_or(1, |(rows, _)| *rows);
        if !(1..=MAX_ROWS as u32).contains(&rows) {
            return Err(Error::config("rows", rows, format!("1 to {MAX_ROWS}")));
        }
        check_spaces::<T>()?;
        if world.contains_resource::<HostRows<T>>() {
            let problem = format!("{} is in this world already", std::any::type_name::<T>());
            return Err(Error::State { call: "install", problem });
        }
        let (slots, exploration) = (rows as usize, config.exploration);
        policy::check_exploration(exploration, std::iter::once(&policy))?;
        let rows_of = 0..u32::MAX;
        let duty =
            Duty { policy: 0, rows: rows_of, slots, all_rows: slots, exploration, threads: 1, record_params: false };
        let (actor, initial) = Actor::open(policy, duty)?;
        let weights = match (actor.plan(), initial) {
            (Some(plan), Some(initial)) => Some(WeightsHandle::new(plan.tensors(), (*initial).clone())?),
            _ => None,
        };
        let columns = columns::<T>(world, &actor, extras)?;
        let writer =
            |replay| ReplayWriter::new(replay, config.worker.unwrap_or(0), &columns.specs, config.whole_episodes());
        let replay = replay.as_ref().map(writer).transpose()?;
        let backend = actor.backend().map(String::from);
        let fixed = Fixed { backend, writes: replay.is_some(), ..Fixed::default() };
        let monitor = Monitor::new(fixed);
        let evaluator = actor.evaluator();
        let batches = Batches {
            queue: Default::default(),
            error: None,
            pool: ArenaPool::new(columns.specs.len(), config.max_arenas),
            specs: columns.specs.clone().into(),
            evaluator: evaluator.clone(),
            monitor: monitor.clone(),
            ticks: config.ticks_per_batch,
            set_truncated: config.set_truncated,
            max_memory: config.max_memory,
            held: false,
            failed: false,
        };
        batches.check_memory(rows as usize)?;
        let pool = TrajectoryPool::new(config.episode_events);
        let mut rollout = Rollout::new(columns, config.reward, monitor.clone(), pool);
        rollout.worker = config.worker.unwrap_or(0);
        let parts = TaskParts {
            actors: vec![(actor, weights.clone())],
            rollout,
            replay,
            parallelism: Parallelism::SERIAL,
            act: act_for::<T, AllRows>,
            infer: if owned.is_some() { CollectSystems::Infer } else { CollectSystems::Respond },
            adopter: (0, 0),
        };
        let limits = [config.max_frames_per_traj, owned.as_ref().and_then(|(_, stepper)| stepper.time_limit())];
        let limit = limits.into_iter().flatten().min().unwrap_or(u32::MAX);
        world.insert_resource(HostRows::<T>::new(Seed(config.seed), limit));
        world.insert_resource(batches);
        let mut schedule = take_schedule(world);
        install_parts(world, &mut schedule, parts);
        set_apart::<T>(world, &mut schedule);
        world.resource_mut::<TickPlan<T>>().active = 0;
        let begun = match owned {
            Some((rows, stepper)) => own_rows(world, &mut schedule, (rows, stepper), limit, config.seed, &monitor),
            None => {
                host_rows::<T>(world, &mut schedule);
                Ok(())
            }
        };
        // The world's other tasks go on also if this one's environments cannot begin.
        world.resource_mut::<Schedules>().insert(schedule);
        begun?;
        Ok(Installed { weights, monitor, evaluator })
    }
}

fn columns<T: Task>(world: &mut World, actor: &Actor<T>, extras: Vec<Extra>) -> Result<Columns, Error> {
    let mut columns = Columns::of::<T>(world, actor.plan().is_some());
    columns.memory = policy::remembered::<T>(world, actor.plan().into_iter());
    for extra in extras {
        columns.add_unique(world, &*extra)?;
    }
    Ok(columns)
}

/// The world's `Collect` schedule, which is made if it is not there.
fn take_schedule(world: &mut World) -> Schedule {
    let made = || Collect::base_schedule(Executor::SingleThreaded, LogLevel::Warn);
    world.get_resource_or_init::<Schedules>().remove(Collect).unwrap_or_else(made)
}

/// The tasks of a world.
#[derive(Resource, Default)]
struct Tasks(Vec<TaskSystems>);

/// Tells the schedule that this task's systems do not mind those of the others.
fn set_apart<T: Task>(world: &mut World, schedule: &mut Schedule) {
    let own = TaskSystems::of::<T>();
    let mut tasks = world.get_resource_or_init::<Tasks>();
    for other in &tasks.0 {
        schedule.configure_sets(own.ambiguous_with(*other));
    }
    tasks.0.push(own);
}

/// The host steps: its entities are rows.
fn host_rows<T: Task>(world: &mut World, schedule: &mut Schedule) {
    let stages = (
        rows::observe_host::<T>.after(CollectSystems::Step).before(CollectSystems::Record),
        rows::close_rows::<T>.after(CollectSystems::Record).before(CollectSystems::Assemble),
        rows::lower_flags::<T>.after(CollectSystems::Assemble).before(CollectSystems::WriteReplay),
        record_answers::<T>.after(CollectSystems::Report).before(turn_rollout::<T>),
        turn_rollout::<T>.after(CollectSystems::Report).before(CollectSystems::Respond),
        rows::await_outcomes::<T>.after(policy::infer::<T, AllRows>).in_set(CollectSystems::Respond),
    );
    schedule.add_systems(stages.in_set(TaskSystems::of::<T>()));
    if size_of::<T::Mask>() > 0 {
        let check = rows::check_masks::<T>.in_set(TaskSystems::of::<T>()).in_set(CollectSystems::Respond);
        schedule.add_systems(check.before(policy::infer::<T, AllRows>));
    }
    rows::require_columns::<T>(world);
    world.add_observer(rows::join::<T>);
    world.add_observer(rows::leave::<T>);
    world.add_observer(rows::join_enabled::<T>);
    world.add_observer(rows::leave_disabled::<T>);
}

/// gleaner steps: `rows` environments come into the world.
fn own_rows<T: Task>(
    world: &mut World,
    schedule: &mut Schedule,
    (rows, mut stepper): (u32, Box<dyn Stepper<T>>),
    limit: u32,
    seed: u64,
    monitor: &Monitor,
) -> Result<(), Error> {
    let spawn = Spawn {
        first_row: 0,
        rows,
        all_rows: rows,
        seed: Seed(seed),
        worker: None,
        first_episode: 0,
        limit,
        overlap: Overlap::None,
        on_fault: FaultPolicy::Stop,
        monitor: monitor.clone(),
    };
    for entity in stepper.install(world, schedule, &spawn)? {
        // The first rollout seats them, with their first ids.
        world.entity_mut(entity).insert(Slot(rows::WAITING));
    }
    world.insert_resource(rows::OwnedRows(stepper));
    let turn = turn_rollout::<T>.after(CollectSystems::Report).before(CollectSystems::Respond);
    schedule.add_systems(turn.in_set(TaskSystems::of::<T>()));
    let begun = world.run_system_cached(turn_rollout::<T>);
    begun.map_err(|error| Error::Schedule(error.to_string()))
}

impl<E: Env + Default> HostBuilder<E> {
    /// `rows` environments that gleaner steps within the host's world, each starting as `E::default()`. Several tasks
    /// can be in one world: install each.
    pub fn environments(rows: u32, policy: Policy<E>) -> Self {
        Self::environments_from(rows, |_| Ok(E::default()), policy)
    }
}

impl<E: Env> HostBuilder<E> {
    /// `rows` environments that gleaner steps within the host's world, built by `factory` in row order.
    pub fn environments_from(
        rows: u32,
        factory: impl Fn(&mut RowContext) -> Result<E, BoxError> + Send + Sync + 'static,
        policy: Policy<E>,
    ) -> Self {
        Self { owned: Some((rows, Box::new(RowStepper::new(factory)))), ..Self::new(policy) }
    }
}

impl HostConfig {
    fn check(&self, replay: bool) -> Result<(), Error> {
        let mut errors = Vec::new();
        let mut require = |holds: bool, field: &'static str, value: String, legal: &str| {
            if !holds {
                errors.push(Error::config(field, value, legal));
            }
        };
        let ticks = self.ticks_per_batch;
        require((1..1 << 31).contains(&ticks), "ticks_per_batch", ticks.to_string(), "1 to 2^31 - 1");
        require(self.max_frames_per_traj != Some(0), "max_frames_per_traj", "0".into(), "1 or more, or none");
        let arenas = self.max_arenas;
        require((1..=1 << 16).contains(&arenas), "max_arenas", arenas.to_string(), "1 to 65536");
        require(self.trajs_per_write != Some(0), "trajs_per_write", "0".into(), "1 or more, or none");
        errors.extend(self.reward.problems());
        let (mode, whole) = (self.replay_write_mode, self.trajs_per_write);
        errors.extend(mode_conflicts(replay, mode, whole, self.max_open_frames));
        if replay && self.set_truncated {
            let reason = "the edge of a batch means nothing in a buffer; leave set_truncated out".into();
            errors.push(Error::Conflict { first: "set_truncated", second: "replay", reason });
        }
        Error::all(errors)
    }

    fn whole_episodes(&self) -> Option<WholeEpisodes> {
        let max_open = self.max_open_frames.unwrap_or(1 << 20);
        (self.replay_write_mode == Some(ReplayWriteMode::Trajectory))
            .then_some(WholeEpisodes { per_write: self.trajs_per_write, max_open })
    }
}
