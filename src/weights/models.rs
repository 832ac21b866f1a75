//! Several policies whose weights change together.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{WeightsHandle, handle::Held};
use crate::{
    components::{Weights, name_list},
    error::Error,
};

/// Publishes new weights of several policies as one epoch, by [`Collector::models`](crate::collector::Collector::models):
/// no tick acts by some of them and not by the others. Clones are the same handle.
///
/// ```
/// use std::time::Duration;
///
/// use gleaner::prelude::*;
/// let network = || Policy::network(NetworkSpec::default());
/// let mut collector =
///     Collector::<CartPole>::builder().rows(8).policies([(0..6, network()), (6..8, network())]).build()?;
/// let models = collector.models();
/// let sets = [0, 1].map(|policy| (policy, (*models.get(policy).unwrap().latest().1).clone()));
/// let epoch = models.publish(sets)?;
/// assert_eq!(epoch, [(0, 1), (1, 1)]);
/// collector.next().expect("endless")?;
/// models.wait_adopted(&epoch, Duration::ZERO)?;
/// # Ok::<(), gleaner::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Models(Arc<BTreeMap<usize, WeightsHandle>>);

impl Models {
    /// The handles of policies by number.
    pub(crate) fn new(handles: impl IntoIterator<Item = (usize, WeightsHandle)>) -> Self {
        Self(Arc::new(handles.into_iter().collect()))
    }

    /// Numbers of the policies that are networks.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = usize> {
        self.0.keys().copied()
    }

    /// The number of the policy that is [`named`](crate::policy::Policy::named) so. Errors: [`Error::Config`] for a name that
    /// none of these has.
    pub fn id(&self, name: &str) -> Result<usize, Error> {
        let found = self.0.iter().find(|(_, handle)| handle.name() == Some(name));
        found.map(|(id, _)| *id).ok_or_else(|| {
            let names: Vec<_> = self.0.values().filter_map(WeightsHandle::name).collect();
            let legal = if names.is_empty() { "none has a name" } else { &name_list(names.into_iter()) };
            Error::config("policy", name, format!("names of networks that share weights: {legal}"))
        })
    }

    /// Publishes weights of one of them. Errors: [`Error::Config`] for a number that is none of [`ids`](Self::ids).
    pub fn get(&self, policy: usize) -> Result<&WeightsHandle, Error> {
        self.0.get(&policy).ok_or_else(|| {
            let legal: Vec<_> = self.ids().map(|id| id.to_string()).collect();
            let legal = if legal.is_empty() { "none" } else { &name_list(legal.iter().map(String::as_str)) };
            Error::config("policy", policy, format!("numbers of networks that share weights: {legal}"))
        })
    }

    /// Publishes new weights of some policies, or all: every set is checked before any is swapped in. Returns the
    /// version of each, by policy.
    ///
    /// Errors: as [`get`](Self::get) and [`WeightsHandle::publish`], with the policy; [`Error::Config`] for none at all
    /// and for a policy that is there twice. Nothing is published then.
    pub fn publish(&self, epoch: impl IntoIterator<Item = (usize, Weights)>) -> Result<Vec<(usize, u64)>, Error> {
        let mut sets = BTreeMap::new();
        for (policy, weights) in epoch {
            let handle = self.get(policy)?;
            weights.check(handle.specs()).map_err(|error| of_policy(policy, error))?;
            if sets.insert(policy, (handle, Arc::new(weights))).is_some() {
                return Err(Error::config("epoch", format!("policy {policy} twice"), "each policy once"));
            }
        }
        if sets.is_empty() {
            return Err(Error::config("epoch", "empty", "weights of at least one policy"));
        }
        // In the order of the policies, as who reads several of them does.
        let mut held: Vec<_> = sets.values().map(|(handle, _)| handle.hold()).collect();
        held.iter().try_for_each(|held| held.next(None).map(drop))?;
        let swap = |(held, (policy, (_, weights))): (&mut Held<'_>, (&usize, &(_, Arc<Weights>)))| {
            held.swap(None, weights.clone()).map(|(version, before)| ((*policy, version), before))
        };
        let swapped: Result<Vec<_>, Error> = held.iter_mut().zip(&sets).map(swap).collect();
        drop(held);
        // With the sets before: freeing them holds nobody up.
        Ok(swapped?.into_iter().map(|(version, _)| version).collect())
    }

    /// The newest version of each, by policy.
    pub(crate) fn versions(&self) -> Vec<(usize, u64)> {
        self.0.iter().map(|(policy, handle)| (*policy, handle.version())).collect()
    }

    /// Waits until every worker acts with these versions, or newer ones. Errors: as [`get`](Self::get) and
    /// [`WeightsHandle::wait_adopted`].
    pub fn wait_adopted(&self, epoch: &[(usize, u64)], deadline: Duration) -> Result<(), Error> {
        let begin = Instant::now();
        for (policy, version) in epoch {
            self.get(*policy)?.wait_adopted(*version, deadline.saturating_sub(begin.elapsed()))?;
        }
        Ok(())
    }
}

/// What is wrong with the weights of a policy.
fn of_policy(policy: usize, error: Error) -> Error {
    match error {
        Error::Tensor { name, problem } => Error::Tensor { name: format!("{name} of policy {policy}"), problem },
        error => error,
    }
}
