//! Collectors whose rows act by several policies.

use std::ops::Range;

use crate::{
    collector::Collector,
    config::CollectorBuilder,
    env::Stepper,
    error::Error,
    policy::{Actor, Evaluator, Policies, Policy, RunningNorm},
    task::Task,
    weights::{Models, WeightSync, WeightsHandle},
};

/// A policy of a collector, as its user sees it.
pub(crate) struct Seat<T: Task> {
    /// The rows that it acts for.
    pub rows: Range<usize>,
    /// None if it is no network.
    pub weights: Option<WeightsHandle>,
    /// None if it is no network.
    pub evaluator: Option<Evaluator<T>>,
}

impl<T: Task> Seat<T> {
    pub(crate) fn of(actor: &Actor<T>, weights: &Option<WeightsHandle>, rows: usize) -> Self {
        let bound = |slot: u32| (slot as usize).min(rows);
        let slots = actor.rows();
        let rows = bound(slots.start)..bound(slots.end);
        Self { rows, weights: weights.clone(), evaluator: actor.evaluator() }
    }
}

impl<T: Task, S: Stepper<T> + 'static> CollectorBuilder<T, S> {
    /// Several policies, each with a range of rows: together all rows, none twice. They are numbered in this order, in
    /// [`Batch::policies`](crate::rollout::Batch::policies), [`Collector::weights_of`] and
    /// [`Stats::policy_versions`](crate::stats::Stats::policy_versions). Replaces [`policy`](Self::policy).
    ///
    /// Each has its own network, backend, weights and normalisation; what it does for a row does not depend on the
    /// others. If any is a network, rows of the others have zeros as log-probabilities and values. An annealed epsilon
    /// counts the frames of its own policy.
    ///
    /// ```
    /// use gleaner::prelude::*;
    /// let learner = Policy::network(NetworkSpec::default());
    /// let mut collector = Collector::<CartPole>::builder()
    ///     .rows(8)
    ///     .frames_per_batch(64)
    ///     .policies([(0..6, learner), (6..8, Policy::random())])
    ///     .build()?;
    /// let batch = collector.next().expect("endless")?;
    /// assert_eq!(batch.policies().expect("several")[..8], [0, 0, 0, 0, 0, 0, 1, 1]);
    /// assert!(collector.weights_of(0).is_some() && collector.weights_of(1).is_none());
    /// # Ok::<(), gleaner::Error>(())
    /// ```
    #[must_use]
    pub fn policies(mut self, policies: impl IntoIterator<Item = (Range<usize>, Policy<T>)>) -> Self {
        self.policies = Policies::Several(policies.into_iter().collect());
        self
    }
}

impl<T: Task> Collector<T> {
    /// The rows of each policy, by number.
    pub fn policies(&self) -> impl ExactSizeIterator<Item = Range<usize>> {
        self.policies.iter().map(|policy| policy.rows.clone())
    }

    /// Publishes new weights of policy number `policy` from anywhere; none if there is no such policy, if it is no
    /// network, with [`WeightSync::Off`], and with [`WeightSync::PerWorker`].
    pub fn weights_of(&self, policy: usize) -> Option<WeightsHandle> {
        self.models().get(policy).ok().cloned()
    }

    /// Publishes new weights of several policies as one epoch, from anywhere. Its policies are those that
    /// [`weights_of`](Self::weights_of) gives a handle of.
    pub fn models(&self) -> Models {
        let open = !matches!(self.config.weight_sync, WeightSync::Off | WeightSync::PerWorker);
        let handles = self.policies.iter().enumerate().filter(|_| open);
        // Collected first: a map is then built by code that does not depend on the task.
        let handles: Vec<_> = handles.filter_map(|(number, seat)| Some((number, seat.weights.clone()?))).collect();
        Models::new(handles)
    }

    /// Publishes new weights to worker number `worker` alone, from anywhere; each worker's versions begin at 0. A worker that
    /// was given up takes them and is not waited for; one in its place goes on by them.
    ///
    /// ```
    /// use gleaner::prelude::*;
    /// let policy = Policy::network(NetworkSpec::default());
    /// let builder = Collector::<CartPole>::builder().rows(8).workers(2).policy(policy);
    /// let mut collector = builder.weight_sync(WeightSync::PerWorker).build()?;
    /// let second = collector.models_of_worker(1)?;
    /// let weights = (*second.get(0)?.latest().1).clone();
    /// assert_eq!(second.publish([(0, weights)])?, [(0, 1)]);
    /// let batch = collector.next().expect("endless")?;
    /// assert_eq!(batch.versions()[..8], [0, 0, 0, 0, 1, 1, 1, 1]);
    /// # Ok::<(), gleaner::Error>(())
    /// ```
    ///
    /// Errors: [`Error::State`] without [`WeightSync::PerWorker`]; [`Error::Config`] for a worker that does not exist.
    pub fn models_of_worker(&self, worker: usize) -> Result<Models, Error> {
        of_worker(&self.worker_models, worker)
    }

    /// The network of policy number `policy` outside the tick, under its newest adopted weights; none if there is no such
    /// policy, or if it is no network.
    pub fn evaluator_of(&self, policy: usize) -> Option<Evaluator<T>> {
        self.policies.get(policy)?.evaluator.clone()
    }

    /// Statistics that policy number `policy` normalises observations with; none if it does not.
    pub fn normalization_of(&mut self, policy: usize) -> Option<RunningNorm> {
        match &self.fleet {
            Some(fleet) => fleet.on_all(move |worker| worker.normalization_of(policy)).ok()?.pop()?,
            None => self.drive.normalization(policy),
        }
    }
}

/// What publishes to one of the workers that have weights of their own.
pub(crate) fn of_worker(models: &[Models], worker: usize) -> Result<Models, Error> {
    if models.is_empty() {
        let problem = "all act by the same weights; legal: with weight_sync PerWorker, models otherwise".into();
        return Err(Error::State { call: "models_of_worker", problem });
    }
    let legal = || Error::config("worker", worker, format!("0 to {}", models.len() - 1));
    models.get(worker).cloned().ok_or_else(legal)
}
