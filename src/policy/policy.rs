//! What a collector is given to act.

use std::{fmt, sync::Arc};

use super::{
    backend::{Backend, Site},
    evaluate::{Evaluation, Evaluator},
    network::NetworkSpec,
    normalize::RunningNorm,
    plan::Plan,
    server::InferenceServer,
};
use crate::{
    components::{Masks, Weights},
    error::Error,
    seed::{Seed, Streams},
    task::Task,
};

/// A function that acts: observations and masks of a run of rows in, an action a row out.
pub type ActFunction<T> =
    Arc<dyn Fn(&[<T as Task>::Observation], &Masks<'_>, &mut Streams<'_>, &mut [<T as Task>::Action]) + Send + Sync>;

/// What acts: at random, by a function, by a network, or by a host's own system.
pub struct Policy<T: Task> {
    pub(crate) kind: PolicyKind<T>,
    pub(crate) trusted: bool,
    pub(crate) name: Option<Arc<str>>,
}

pub(crate) enum PolicyKind<T: Task> {
    Random,
    Function(ActFunction<T>),
    Network(Box<NetworkPolicy>),
    System,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct NetworkPolicy {
    pub spec: NetworkSpec,
    pub weights: Option<Weights>,
    pub site: Site,
    pub seed: Seed,
    pub norm: Option<RunningNorm>,
}

impl<T: Task> Clone for Policy<T> {
    fn clone(&self) -> Self {
        Self { kind: self.kind.clone(), trusted: self.trusted, name: self.name.clone() }
    }
}

impl<T: Task> Clone for PolicyKind<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Random => Self::Random,
            Self::Function(act) => Self::Function(act.clone()),
            Self::Network(network) => Self::Network(network.clone()),
            Self::System => Self::System,
        }
    }
}

impl<T: Task> Policy<T> {
    /// Uniform over legal actions and bounded intervals; see [`Space::sample`](crate::space::Space::sample).
    pub fn random() -> Self {
        Self::of(PolicyKind::Random, true)
    }

    /// A function. It is called for runs of rows, possibly on several threads at once: what it does for a row must
    /// depend on that row's observation, mask and stream alone. Its actions are checked against the space.
    pub fn function(
        act: impl Fn(&[T::Observation], &Masks<'_>, &mut Streams<'_>, &mut [T::Action]) + Send + Sync + 'static,
    ) -> Self {
        Self::of(PolicyKind::Function(Arc::new(act)), false)
    }

    /// A network. Without [`weights`](Self::weights) it starts from orthogonal ones.
    pub fn network(spec: NetworkSpec) -> Self {
        let network = NetworkPolicy { spec, ..Default::default() };
        Self::of(PolicyKind::Network(Box::new(network)), true)
    }

    /// A system of the host's, in [`CollectSystems::Infer`](crate::schedule::CollectSystems::Infer), that writes
    /// [`Action<T>`](crate::components::Action) of every row; where a host owns the environments, in
    /// [`CollectSystems::Respond`](crate::schedule::CollectSystems::Respond). Its actions are checked against the space.
    pub fn system() -> Self {
        Self::of(PolicyKind::System, false)
    }

    fn of(kind: PolicyKind<T>, trusted: bool) -> Self {
        Self { kind, trusted, name: None }
    }

    /// A name, by which [`Models::id`](crate::weights::Models::id) finds the number of a network among several policies.
    /// Default: none.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Skips the check of actions.
    #[must_use]
    pub fn trusted(mut self) -> Self {
        self.trusted = true;
        self
    }

    /// Weights that a network starts from, instead of new ones. No effect on other policies.
    #[must_use]
    pub fn weights(self, weights: Weights) -> Self {
        self.map(|network| network.weights = Some(weights))
    }

    /// Bytes of the weights that a network was given.
    pub(crate) fn weight_bytes(&self) -> usize {
        let PolicyKind::Network(network) = &self.kind else { return 0 };
        let tensors = network.weights.iter().flat_map(|weights| weights.0.values());
        tensors.map(|tensor| size_of_val(tensor.data.as_slice())).sum()
    }

    /// Where a network runs. Default: [`Backend::Auto`].
    #[must_use]
    pub fn backend(self, backend: Backend) -> Self {
        self.map(|network| network.site.backend = backend)
    }

    /// Runs a network on this device: by [`Backend::Gpu`], on the adapter that it was opened on. Policies share a
    /// device by clones of it. Default: the process's, [`Gpu::shared`](crate::gpu::Gpu::shared).
    #[cfg(feature = "gpu")]
    #[must_use]
    pub fn device(self, device: Arc<crate::gpu::Gpu>) -> Self {
        self.map(|network| (network.site.backend, network.site.device) = (Backend::Gpu, Some(device)))
    }

    /// Has a network's batches run by a server, together with those of other collectors that act by the same weights. Not
    /// for a network that remembers: a build error. No effect on other policies.
    #[must_use]
    pub fn served_by(self, server: &InferenceServer) -> Self {
        self.map(|network| network.site.server = Some(server.clone()))
    }

    /// The seed of a network's initial weights. Default: 0.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.map(|network| network.seed = Seed(seed))
    }

    /// Statistics that a network's `normalize` starts from; set `frozen` in them for evaluation.
    #[must_use]
    pub fn normalization(self, norm: RunningNorm) -> Self {
        self.map(|network| network.norm = Some(norm))
    }

    fn map(mut self, change: impl FnOnce(&mut NetworkPolicy)) -> Self {
        if let PolicyKind::Network(network) = &mut self.kind {
            change(network);
        }
        self
    }

    pub(crate) fn is_system(&self) -> bool {
        matches!(self.kind, PolicyKind::System)
    }

    pub(crate) fn is_network(&self) -> bool {
        matches!(self.kind, PolicyKind::Network(_))
    }

    /// The operations of a network; none for other policies. Errors: a network that does not fit the task.
    pub(crate) fn plan(&self) -> Result<Option<Plan>, Error> {
        match &self.kind {
            PolicyKind::Network(network) => network.spec.plan::<T>().map(Some),
            _ => Ok(None),
        }
    }

    /// The network outside a collector, for deployment. Errors: [`Error::State`] if the policy is no network;
    /// [`Error::Network`] if it, or its statistics, do not fit the task; [`Error::Tensor`] for weights that do not fit;
    /// [`Error::Conflict`] for statistics of a network that does not normalise.
    pub fn evaluator(&self) -> Result<Evaluator<T>, Error> {
        match &self.kind {
            PolicyKind::Network(network) => Evaluator::from_policy(network),
            _ => Err(Error::State { call: "evaluator", problem: "the policy is no network".into() }),
        }
    }

    /// Acts once for observations by the distribution's mode. Builds the network anew: for repeated calls keep an
    /// [`evaluator`](Self::evaluator). Errors: those of `evaluator` and of [`Evaluator::evaluate`].
    pub fn evaluate(&self, observations: &[T::Observation]) -> Result<Evaluation<T>, Error> {
        self.evaluator()?.evaluate(observations)
    }
}

impl<T: Task> fmt::Debug for Policy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            PolicyKind::Random => f.write_str("random"),
            PolicyKind::Function(_) => f.write_str("function"),
            PolicyKind::System => f.write_str("system"),
            PolicyKind::Network(network) => network.fmt(f),
        }
    }
}
