//! The builder: every option by a method, and the parts that are no data.

mod asked;

use std::{sync::Arc, time::Duration};

use bevy_ecs::prelude::*;

use crate::{
    batched,
    builder::asked::{Asked, Way},
    collector::{Build, Collector, build},
    config::{CollectorConfig, Delivery, MAX_ROLLOUT_BYTES, OnWorkerFault, ReplayWriteMode, TrajFormat},
    data::Data,
    env::{AsyncBatched, BatchEnv, BatchStepper, Env, RowContext, RowStepper, Stepper},
    episode_versions,
    error::{BoxError, Error},
    fault::FaultPolicy,
    feed::Feed,
    fleet,
    hooks::Hooks,
    policy::{Exploration, Policies, Policy},
    replay::Replay,
    rollout::{Batch, Columns, RewardTransform},
    schedule::{Executor, Overlap},
    task::Task,
    weights::{WeightSync, WeightsSource},
};

/// Makes a [`Collector`]. Every method sets one option of [`CollectorConfig`] or a part; `build` checks them all.
pub struct CollectorBuilder<T: Task, S> {
    config: CollectorConfig,
    pub(crate) policies: Policies<T>,
    stepper: S,
    hooks: Hooks<T>,
    extras: Vec<Extra>,
    setup: Vec<Setup>,
    pub(crate) replay: Option<Replay<T>>,
    source: Option<Box<dyn WeightsSource>>,
    max_memory: usize,
    asked: Asked<T, S>,
}

pub(crate) type Setup = Arc<dyn Fn(&mut World, &mut Schedule) + Send + Sync>;
pub(crate) type Extra = Arc<dyn Fn(&mut Columns, &mut World) + Send + Sync>;

impl<E: Env + Default> Collector<E> {
    /// A collector of rows that start as `E::default()`, with a random policy.
    pub fn builder() -> CollectorBuilder<E, RowStepper<E>> {
        Self::with_factory(|_| Ok(E::default()))
    }
}

impl<E: Env> Collector<E> {
    /// A collector whose rows are built by `factory`, in row order.
    pub fn with_factory(
        factory: impl Fn(&mut RowContext) -> Result<E, BoxError> + Send + Sync + 'static,
    ) -> CollectorBuilder<E, RowStepper<E>> {
        CollectorBuilder::new(RowStepper::new(factory))
    }
}

impl<S: BatchEnv> Collector<S> {
    /// A collector whose rows are all stepped by `sim`.
    pub fn with_simulator(sim: S) -> CollectorBuilder<S, BatchStepper<S>> {
        CollectorBuilder::new(BatchStepper { sim: Some(sim), options: S::Options::default() })
    }
}

impl<E: Env> CollectorBuilder<E, RowStepper<E>> {
    /// Options of every reset, until changed. Default: `E::Options::default()`.
    #[must_use]
    pub fn reset_options(mut self, options: E::Options) -> Self {
        self.stepper.options = options;
        self
    }
}

impl<S: BatchEnv> CollectorBuilder<S, BatchStepper<S>> {
    /// Options of every reset, until changed. Default: `S::Options::default()`.
    #[must_use]
    pub fn reset_options(mut self, options: S::Options) -> Self {
        self.stepper.options = options;
        self
    }
}

macro_rules! options {
    ($($(#[$attribute:meta])* $name:ident: $type:ty => $value:expr;)*) => {
        $(
            $(#[$attribute])*
            #[must_use]
            pub fn $name(mut self, $name: $type) -> Self {
                self.config.$name = $value;
                self
            }
        )*
    };
}

impl<T: Task, S: Stepper<T> + 'static> CollectorBuilder<T, S> {
    fn new(stepper: S) -> Self {
        Self {
            config: CollectorConfig::default(),
            policies: Policies::One(Policy::random()),
            stepper,
            hooks: Hooks::default(),
            extras: Vec::new(),
            setup: Vec::new(),
            replay: None,
            source: None,
            max_memory: MAX_ROLLOUT_BYTES,
            asked: Asked::default(),
        }
    }

    /// Sets all options at once. What they ask for is not known before the program runs: the task is compiled for workers,
    /// a pool, lanes and episodes of one version, which takes about 1.6 times as long as without.
    #[must_use]
    pub fn config(mut self, config: CollectorConfig) -> Self {
        self.config = config;
        self.asked = Asked::all();
        self
    }

    /// What acts for all rows. Default: [`Policy::random`]. See [`policies`](Self::policies) for several.
    #[must_use]
    pub fn policy(mut self, policy: Policy<T>) -> Self {
        self.policies = Policies::One(policy);
        self
    }

    options! {
        /// See [`CollectorConfig::rows`].
        rows: usize => rows;
        /// See [`CollectorConfig::frames_per_batch`].
        frames_per_batch: usize => Some(frames_per_batch);
        /// See [`CollectorConfig::total_frames`].
        total_frames: u64 => Some(total_frames);
        /// See [`CollectorConfig::max_frames_per_traj`].
        max_frames_per_traj: u32 => Some(max_frames_per_traj);
        /// See [`CollectorConfig::init_random_frames`].
        init_random_frames: u64 => init_random_frames;
        /// See [`CollectorConfig::reset_at_each_iter`].
        reset_at_each_iter: bool => reset_at_each_iter;
        /// See [`CollectorConfig::set_truncated`].
        set_truncated: bool => set_truncated;
        /// See [`CollectorConfig::trajs_per_batch`].
        trajs_per_batch: usize => Some(trajs_per_batch);
        /// See [`CollectorConfig::traj_format`].
        traj_format: TrajFormat => Some(traj_format);
        /// See [`CollectorConfig::replay_write_mode`].
        replay_write_mode: ReplayWriteMode => Some(replay_write_mode);
        /// See [`CollectorConfig::trajs_per_write`].
        trajs_per_write: usize => Some(trajs_per_write);
        /// See [`CollectorConfig::max_open_frames`].
        max_open_frames: usize => Some(max_open_frames);
        /// See [`CollectorConfig::exploration`].
        exploration: Exploration => exploration;
        /// See [`CollectorConfig::seed`].
        seed: u64 => seed;
        /// See [`CollectorConfig::threads`].
        threads: usize => threads;
        /// See [`CollectorConfig::executor`].
        executor: Executor => executor;
        /// See [`CollectorConfig::on_fault`].
        on_fault: FaultPolicy => on_fault;
        /// See [`CollectorConfig::worker`].
        worker: u16 => Some(worker);
        /// See [`CollectorConfig::delivery`].
        delivery: Delivery => Some(delivery);
        /// See [`CollectorConfig::worker_rows`].
        worker_rows: Vec<usize> => Some(worker_rows);
        /// See [`CollectorConfig::preemptive_threshold`].
        preemptive_threshold: f32 => Some(preemptive_threshold);
        /// See [`CollectorConfig::worker_deadline`].
        worker_deadline: Duration => Some(worker_deadline);
        /// See [`CollectorConfig::on_worker_fault`].
        on_worker_fault: OnWorkerFault => Some(on_worker_fault);
        /// See [`CollectorConfig::max_staleness`].
        max_staleness: u64 => Some(max_staleness);
        /// See [`CollectorConfig::weight_sync`].
        weight_sync: WeightSync => weight_sync;
        /// See [`CollectorConfig::weight_sync_interval`].
        weight_sync_interval: u64 => Some(weight_sync_interval);
        /// See [`CollectorConfig::max_arenas`].
        max_arenas: usize => max_arenas;
        /// See [`CollectorConfig::reward`].
        reward: RewardTransform => reward;
        /// See [`CollectorConfig::record_distribution`].
        record_distribution: bool => record_distribution;
        /// See [`CollectorConfig::record_states`].
        record_states: bool => record_states;
        /// See [`CollectorConfig::episode_events`].
        episode_events: bool => episode_events;
        /// See [`CollectorConfig::step_rows_per_thread`].
        step_rows_per_thread: usize => Some(step_rows_per_thread);
        /// See [`CollectorConfig::infer_rows_per_thread`].
        infer_rows_per_thread: usize => infer_rows_per_thread;
    }

    /// See [`CollectorConfig::overlap`].
    #[must_use]
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.config.overlap = overlap;
        self.asked.lanes = Some(Way::lanes());
        self
    }

    /// See [`CollectorConfig::workers`].
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.config.workers = workers;
        self.asked.workers = Some(fleet::build);
        self
    }

    /// See [`CollectorConfig::one_version_per_trajectory`].
    #[must_use]
    pub fn one_version_per_trajectory(mut self, one_version_per_trajectory: bool) -> Self {
        self.config.one_version_per_trajectory = one_version_per_trajectory;
        self.asked.episodes = Some(Way::episodes());
        self
    }

    /// See [`CollectorConfig::async_batched`].
    #[must_use]
    pub fn async_batched(mut self, async_batched: AsyncBatched) -> Self {
        self.config.async_batched = Some(async_batched);
        self.asked.pool = Some(Way::pool());
        self
    }

    /// Records component `C` of the rows as column `name`. Rows that lack it have zeros there.
    #[must_use]
    pub fn record<C: Component + Data>(mut self, name: &'static str) -> Self {
        self.extras.push(Arc::new(move |columns, world| columns.add_extra::<T, C>(world, name)));
        self
    }

    /// Writes what is collected to `replay`, which several collectors may share if each has its own number
    /// ([`worker`](Self::worker)). The collector then yields [`receipts`](Collector::receipts) instead of batches; hooks
    /// still see every batch.
    #[must_use]
    pub fn replay(mut self, replay: &Replay<T>) -> Self {
        self.replay = Some(replay.clone());
        self
    }

    /// Gets new weights from `source`. Only with a network, and without another [`weight_sync`](Self::weight_sync).
    #[must_use]
    pub fn weights_source(mut self, source: impl WeightsSource + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Changes the world and the tick's schedule before the first rollout: systems, observers, resources of the host. With
    /// workers it is called for the world of each, in which there is a [`Worker`](crate::components::Worker) resource.
    #[must_use]
    pub fn setup(mut self, setup: impl Fn(&mut World, &mut Schedule) + Send + Sync + 'static) -> Self {
        self.setup.push(Arc::new(setup));
        self
    }

    /// Bytes that rows, one rollout and the networks may need together, as reckoned before any is allocated. Default:
    /// [`MAX_ROLLOUT_BYTES`].
    #[must_use]
    pub fn max_memory(mut self, bytes: usize) -> Self {
        self.max_memory = bytes;
        self
    }

    /// Called before each rollout; where rows do not step together, before each batch, or write to a buffer. With
    /// [`reset_at_each_iter`](Self::reset_at_each_iter) the reset came with the last tick of the rollout before: what
    /// the hook changes about how episodes start acts at the end of the coming rollout, so one batch later. An error,
    /// or a panic, ends the iteration with [`Error::Hook`], after a clean shutdown.
    #[must_use]
    pub fn pre_collect(mut self, hook: impl FnMut() -> Result<(), BoxError> + Send + 'static) -> Self {
        self.hooks.pre_collect = Some(Box::new(hook));
        self
    }

    /// Called with each batch before it is yielded. An error, or a panic, ends the iteration with [`Error::Hook`],
    /// after a clean shutdown; the batch's frames count as discarded, unless a replay buffer has them.
    #[must_use]
    pub fn post_collect(mut self, hook: impl FnMut(&Batch<T>) -> Result<(), BoxError> + Send + 'static) -> Self {
        self.hooks.post_collect = Some(Box::new(hook));
        self
    }

    /// Applied to each batch before the hook sees it; may change its size. Frames are counted before. An error, or a
    /// panic, ends the iteration with [`Error::Hook`], after a clean shutdown; the batch's frames count as discarded.
    #[must_use]
    pub fn post_process(
        mut self,
        process: impl FnMut(Batch<T>) -> Result<Batch<T>, BoxError> + Send + 'static,
    ) -> Self {
        self.hooks.post_process = Some(Box::new(process));
        self
    }

    /// Checks everything and builds the collector. Errors: [`Error::Config`] and [`Error::Conflict`] for wrong options,
    /// all of them at once in [`Error::Many`]; [`Error::Space`]; [`Error::Network`], [`Error::Tensor`] and those of the
    /// device for a policy that cannot act; [`Error::State`] for a read-only handle of a replay buffer;
    /// [`Error::Schedule`] for systems that conflict; those of factories, first resets and workers.
    pub fn build(self) -> Result<Collector<T>, Error> {
        let Self { config, policies, stepper, hooks, extras, setup, replay, source, max_memory, asked } = self;
        config.check(replay.is_some())?;
        Error::all(policies.problems(config.rows))?;
        Error::all(batched::policy_conflicts(config.async_batched.as_ref(), &policies))?;
        Error::all(episode_versions::conflicts(&config, &policies))?;
        let (Way { stepper: way, act }, spread) = asked.taken(&config);
        let stepper = way(stepper)?;
        let feed = Feed::open(&config.weight_sync, source, &policies.networks())?;
        feed.check_interval(config.weight_sync_interval)?;
        let built = build(Build { config, policies, stepper, hooks, extras, setup, replay, max_memory, act, spread })?;
        Ok(built.fed_by(feed))
    }
}
