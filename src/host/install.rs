//! Putting a hosted task into a world.

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
    components::{Parallelism, TickPlan},
    config::Extra,
    data::Data,
    error::Error,
    plugin::{TaskParts, install_parts},
    policy::{self, Actor, Evaluator, Exploration, Policy},
    rollout::{ArenaPool, Columns, RewardTransform, Rollout, TrajectoryPool},
    schedule::{Collect, CollectSystems, Executor},
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
    /// How the policy's distribution becomes an action. Default: sample.
    pub exploration: Exploration,
    /// Master seed of the policy's streams. Default: 0.
    pub seed: u64,
    /// Batches that may be alive at once, taken or not; when all are, rows stand still. Default: 8.
    pub max_arenas: usize,
    /// How recorded rewards are made from the host's. Default: as they are.
    pub reward: RewardTransform,
    /// Whether the last frame of each row in a batch is marked as truncated. Default: no.
    pub set_truncated: bool,
    /// Whether [`EpisodeEnded`](crate::rollout::EpisodeEnded) is triggered for each finished episode. Default: no.
    pub episode_events: bool,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            ticks_per_batch: 64,
            max_frames_per_traj: None,
            exploration: Exploration::Sample,
            seed: 0,
            max_arenas: 8,
            reward: RewardTransform::default(),
            set_truncated: false,
            episode_events: false,
        }
    }
}

/// Collects from the entities of a host's world.
pub struct HostBuilder<T: Task> {
    config: HostConfig,
    policy: Policy<T>,
    extras: Vec<Extra>,
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
        Self { config: HostConfig::default(), policy, extras: Vec::new() }
    }

    /// Sets all options.
    #[must_use]
    pub fn config(mut self, config: HostConfig) -> Self {
        self.config = config;
        self
    }

    /// Records component `C` of the rows as column `name`. Rows that lack it have zeros there.
    #[must_use]
    pub fn record<C: Component + Data>(mut self, name: &'static str) -> Self {
        self.extras.push(Box::new(move |columns, world| columns.add_extra::<T, C>(world, name)));
        self
    }

    /// Adds the task's stages to the schedule [`Collect`] of `world`; the host runs it, once a tick:
    /// `world.run_schedule(Collect)`. Call it once for each task, before its rows are spawned.
    pub fn install(self, world: &mut World) -> Result<Installed<T>, Error> {
        let Self { config, policy, extras } = self;
        config.check()?;
        check_spaces::<T>()?;
        if world.contains_resource::<HostRows<T>>() {
            let problem = format!("{} is in this world already", std::any::type_name::<T>());
            return Err(Error::State { call: "install", problem });
        }
        let (actor, initial) = Actor::open(policy, config.exploration, 1, 1, false)?;
        let weights = match (actor.plan(), initial) {
            (Some(plan), Some(initial)) => Some(WeightsHandle::new(plan.tensors(), (*initial).clone())?),
            _ => None,
        };
        let columns = columns::<T>(world, &actor, extras)?;
        let fixed = Fixed { backend: actor.backend().into(), ..Fixed::default() };
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
            held: false,
        };
        let parts = TaskParts {
            actor,
            weights: weights.clone(),
            rollout: Rollout::new(columns, config.reward, monitor.clone(), TrajectoryPool::new(config.episode_events)),
            parallelism: Parallelism::SERIAL,
            infer: CollectSystems::Respond,
        };
        add_stages(world, parts);
        rows::require_columns::<T>(world);
        world.insert_resource(HostRows::<T>::new(Seed(config.seed), config.max_frames_per_traj.unwrap_or(u32::MAX)));
        world.insert_resource(batches);
        world.resource_mut::<TickPlan<T>>().active = 0;
        world.add_observer(rows::join::<T>);
        world.add_observer(rows::leave::<T>);
        Ok(Installed { weights, monitor, evaluator })
    }
}

fn columns<T: Task>(world: &mut World, actor: &Actor<T>, extras: Vec<Extra>) -> Result<Columns, Error> {
    let mut columns = Columns::of::<T>(world, actor.plan().is_some());
    for extra in extras {
        columns.add_unique(world, extra)?;
    }
    Ok(columns)
}

/// Adds the stages to the world's `Collect` schedule, which is made if it is not there.
fn add_stages<T: Task>(world: &mut World, parts: TaskParts<T>) {
    let mut schedule = world
        .get_resource_or_init::<Schedules>()
        .remove(Collect)
        .unwrap_or_else(|| Collect::base_schedule(Executor::SingleThreaded, LogLevel::Warn));
    install_parts(world, &mut schedule, parts);
    schedule.add_systems((
        rows::observe_host::<T>.after(CollectSystems::Step).before(CollectSystems::Record),
        rows::close_rows::<T>.after(CollectSystems::Record).before(CollectSystems::Assemble),
        rows::lower_flags::<T>.after(CollectSystems::Assemble).before(CollectSystems::WriteReplay),
        record_answers::<T>.after(CollectSystems::Report).before(turn_rollout::<T>),
        turn_rollout::<T>.after(CollectSystems::Report).before(CollectSystems::Respond),
        rows::await_outcomes::<T>.after(policy::infer::<T>).in_set(CollectSystems::Respond),
    ));
    world.resource_mut::<Schedules>().insert(schedule);
}

impl HostConfig {
    fn check(&self) -> Result<(), Error> {
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
        errors.extend(self.reward.problems());
        Error::all(errors)
    }
}
