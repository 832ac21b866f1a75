//! Collectors whose rows act by several policies.

use std::ops::Range;

use crate::{
    collector::Collector,
    config::CollectorBuilder,
    env::Stepper,
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
    /// network, and with [`WeightSync::Off`].
    pub fn weights_of(&self, policy: usize) -> Option<WeightsHandle> {
        self.models().get(policy).ok().cloned()
    }

    /// Publishes new weights of several policies as one epoch, from anywhere. Its policies are those that
    /// [`weights_of`](Self::weights_of) gives a handle of.
    pub fn models(&self) -> Models {
        let open = self.config.weight_sync != WeightSync::Off;
        let handles = self.policies.iter().enumerate().filter(|_| open);
        // Collected first: a map is then built by code that does not depend on the task.
        let handles: Vec<_> = handles.filter_map(|(number, seat)| Some((number, seat.weights.clone()?))).collect();
        Models::new(handles)
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
