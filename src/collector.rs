//! The headless collector: environments in a world of its own, batches by iteration.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicBool},
};

use bevy_ecs::prelude::*;

use crate::{
    components::{ColumnSpec, Critic},
    config::CollectorConfig,
    drive::Drive,
    env::Stepper,
    error::Error,
    feed::Feed,
    fleet::{Budget, Fleet},
    hooks::Hooks,
    policies::Seat,
    policy::{Critics, Evaluator},
    rollout::{Assembly, Batch},
    stats::{Monitor, Stats},
    task::Task,
    weights::{Models, WeightsHandle},
};

pub(crate) use crate::build::{Build, build};

/// Which rows a call is about.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// All of them.
    All,
    /// Those with these global numbers.
    Some(&'a [u32]),
}

/// Bytes that a collector holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// One rollout; known when the collector is built.
    pub rollout: usize,
    /// Arenas that are free now.
    pub free_arenas: usize,
    /// Arenas in being, free or held by batches.
    pub arenas: usize,
    /// Chunks of running and waiting episodes (trajectory mode).
    pub trajectories: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// The budget is used up.
    Finished,
    Shut,
}

/// Steps environments with a policy and yields what happened as batches.
///
/// ```
/// use gleaner::prelude::*;
///
/// let mut collector =
///     Collector::<CartPole>::builder().rows(8).frames_per_batch(128).total_frames(1_000).build()?;
/// let mut frames = 0;
/// for batch in &mut collector {
///     let batch = batch?;
///     frames += batch.frames();
///     assert_eq!(batch.rewards().len(), batch.len());
/// }
/// assert_eq!(frames, 1_000);
/// # Ok::<(), gleaner::Error>(())
/// ```
///
/// An error ends the iteration after a clean shutdown, except [`Error::ArenasHeld`], after which it goes on once a batch
/// was dropped, and [`Error::WeightsSource`], after which it goes on under the weights before.
pub struct Collector<T: Task> {
    pub(crate) drive: Drive<T>,
    pub(crate) config: CollectorConfig,
    pub(crate) stepper: Box<dyn Stepper<T>>,
    pub(crate) hooks: Hooks<T>,
    pub(crate) policies: Vec<Seat<T>>,
    /// Rows of one simulation.
    pub(crate) agents: usize,
    /// The policies' networks, as batches share them.
    pub(crate) critic: Option<Arc<dyn Critic<T>>>,
    pub(crate) entities: Vec<Entity>,
    pub(crate) state: State,
    /// The workers that step the rows; none inline.
    pub(crate) fleet: Option<Box<dyn Fleet<T>>>,
    /// Frames that this worker may step, if several share a budget.
    pub(crate) budget: Option<Budget>,
    /// Whether a wait for episodes is left after a rollout, so that orders are seen; and whether it was, at the last call.
    pub(crate) stepwise: bool,
    pub(crate) not_yet: bool,
    /// Whether the next batch has begun: what comes before it is done.
    pub(crate) begun: bool,
    /// Ends a rollout at its next tick.
    pub(crate) stop: Arc<AtomicBool>,
    /// Whether this worker's episodes are joined by who delivers them.
    pub(crate) joined_in_front: bool,
    /// What brings new weights.
    pub(crate) feed: Feed,
    /// By worker, if each has weights of its own.
    pub(crate) worker_models: Vec<Models>,
}

impl<T: Task> Collector<T> {
    pub(crate) fn new(
        drive: Drive<T>,
        config: CollectorConfig,
        stepper: Box<dyn Stepper<T>>,
        hooks: Hooks<T>,
        policies: Vec<Seat<T>>,
        agents: usize,
        entities: Vec<Entity>,
    ) -> Self {
        let mut evaluators: Vec<_> = policies.iter().map(|policy| policy.evaluator.clone()).collect();
        let critic: Option<Arc<dyn Critic<T>>> = match &mut evaluators[..] {
            [only] => only.take().map(|evaluator| Arc::new(evaluator) as _),
            _ => evaluators.iter().any(Option::is_some).then(|| Arc::new(Critics(evaluators)) as _),
        };
        Self {
            drive,
            config,
            stepper,
            hooks,
            policies,
            agents,
            critic,
            entities,
            state: State::Ready,
            fleet: None,
            budget: None,
            stepwise: false,
            not_yet: false,
            begun: false,
            stop: Arc::default(),
            joined_in_front: false,
            feed: Feed::default(),
            worker_models: Vec::new(),
        }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.config.rows
    }

    /// Ticks of a rollout.
    pub fn horizon(&self) -> usize {
        self.config.horizon()
    }

    /// Frames of a full batch: what was asked for, rounded up to whole ticks. With workers that deliver on their own: of
    /// the largest batch.
    pub fn frames_per_batch(&self) -> usize {
        self.drive.monitor.stats().requested_frames_per_batch.unwrap_or(0) as usize
    }

    /// Number of the worker that this collector is; none inline. See [`CollectorConfig::worker`].
    pub fn worker(&self) -> Option<u32> {
        self.config.worker.map(u32::from)
    }

    /// Whether whole trajectories are joined, to be yielded or written.
    pub(crate) fn joins(&self) -> bool {
        let joins = self.config.trajs_per_batch.is_some() || self.config.whole_episodes().is_some();
        self.joined_in_front || joins && !self.config.takes_as_they_come()
    }

    /// Batches, or receipts, of the whole budget; none for an endless collector, in trajectory mode, and with workers that
    /// deliver on their own or may be preempted, where the number depends on the run.
    pub fn len(&self) -> Option<u64> {
        let open = self.joins() || self.config.is_async() || self.config.preemptive_threshold.is_some();
        let bounded = self.config.total_frames.filter(|_| !open)?;
        Some(bounded.div_ceil(self.frames_per_batch() as u64))
    }

    /// Whether the budget allows no batch: never, as a budget is at least one frame.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Names and layouts of the columns of every batch.
    pub fn columns(&self) -> &[ColumnSpec] {
        &self.drive.specs
    }

    /// The counters now.
    pub fn stats(&self) -> Stats {
        self.drive.monitor.stats()
    }

    /// Reads the counters from other threads while the collector runs.
    pub fn monitor(&self) -> Monitor {
        self.drive.monitor.clone()
    }

    /// Publishes new weights from anywhere; none if the policy is no network. Of several policies the first one's; see
    /// [`weights_of`](Self::weights_of).
    pub fn weights(&self) -> Option<WeightsHandle> {
        self.weights_of(0)
    }

    /// The policy's network outside the tick, under the newest adopted weights; none if the policy is no network. Of
    /// several policies the first one's; see [`evaluator_of`](Self::evaluator_of).
    pub fn evaluator(&self) -> Option<Evaluator<T>> {
        self.evaluator_of(0)
    }

    /// Statistics that observations are normalised with; none if they are not. Of several policies the first one's; see
    /// [`normalization_of`](Self::normalization_of).
    pub fn normalization(&mut self) -> Option<crate::policy::RunningNorm> {
        self.normalization_of(0)
    }

    /// The world of the rows, trajectories and policy; with workers, of the [`Worker`](crate::components::Worker) entities.
    pub fn world(&self) -> &World {
        &self.drive.world
    }

    /// The world, to be changed between rollouts.
    pub fn world_mut(&mut self) -> &mut World {
        &mut self.drive.world
    }

    /// Bytes held; with workers also theirs, of those that answer.
    pub fn memory(&self) -> Memory {
        let (free_arenas, arenas) = self.drive.pool.memory();
        let workers = self.fleet.as_ref().and_then(|fleet| fleet.on_all(|worker| worker.memory()).ok());
        let own = Memory {
            rollout: self.drive.rollout_bytes(self.config.rows, self.horizon()),
            free_arenas,
            arenas,
            trajectories: self.drive.world.get_resource().map_or(0, Assembly::<T>::memory),
        };
        workers.into_iter().flatten().fold(own, |sum, worker| Memory {
            rollout: sum.rollout,
            free_arenas: sum.free_arenas + worker.free_arenas,
            arenas: sum.arenas + worker.arenas,
            trajectories: sum.trajectories + worker.trajectories,
        })
    }

    /// One rollout outside iteration, on the same budget and ledger. Errors: [`Error::State`] in trajectory mode, with a
    /// replay buffer, after the end of the budget and after shutdown.
    pub fn rollout(&mut self) -> Result<Batch<T>, Error> {
        let error = |problem: &str| Error::State { call: "rollout", problem: problem.into() };
        if self.replay().is_some() {
            return Err(error("rollouts are written to a replay buffer; take receipts instead"));
        }
        if self.config.is_async() {
            return Err(error("workers deliver on their own (delivery: Async); iterate instead"));
        }
        if self.joins() {
            return Err(error("whole trajectories are collected (trajs_per_batch); iterate instead"));
        }
        match self.state {
            State::Shut => return Err(error("the collector is shut down")),
            State::Ready | State::Finished => {}
        }
        if self.ticks_left() == 0 {
            return Err(error("total_frames are used up"));
        }
        let batch = self.next_batch().inspect_err(|error| self.shutdown_after(error))?;
        let Some(batch) = batch else { return Err(error("total_frames are used up")) };
        self.deliver(batch).map(|(batch, _)| batch).inspect_err(|error| self.shutdown_after(error))
    }

    fn poll(&mut self) -> Result<Option<Batch<T>>, Error> {
        if self.replay().is_some() {
            let problem = "what is collected is written to a replay buffer; iterate over receipts() instead".into();
            return Err(Error::State { call: "next", problem });
        }
        let batch = self.produce()?;
        batch.map(|batch| self.deliver(batch).map(|(batch, _)| batch)).transpose()
    }

    /// What a poll gave, as an iterator's item; ends the collection with it if need be.
    pub(crate) fn yielded<V>(&mut self, polled: Result<Option<V>, Error>) -> Option<Result<V, Error>> {
        match polled {
            Ok(Some(value)) => Some(Ok(value)),
            Ok(None) if std::mem::take(&mut self.not_yet) => None,
            Ok(None) => {
                self.finish();
                None
            }
            Err(error) => {
                self.shutdown_after(&error);
                Some(Err(error))
            }
        }
    }
}

impl<T: Task> Iterator for Collector<T> {
    type Item = Result<Batch<T>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state != State::Ready {
            return None;
        }
        let polled = self.poll();
        self.yielded(polled)
    }
}

impl<T: Task> fmt::Debug for Collector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.stats();
        f.debug_struct("Collector")
            .field("kind", &self.config.kind())
            .field("workers", &self.config.workers)
            .field("rows", &self.rows())
            .field("horizon", &self.horizon())
            .field("frames", &stats.frames)
            .field("total_frames", &self.config.total_frames)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
