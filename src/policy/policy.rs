//! What a collector is given to act.

use std::{fmt, sync::Arc};

use super::{
    backend::{Backend, Site},
    evaluate::{Evaluation, Evaluator},
    network::NetworkSpec,
    normalize::RunningNorm,
    plan::{Exploration, Plan},
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
///
/// The options of networks, from [`weights`](Self::weights) on, are a build error for others.
pub struct Policy<T: Task> {
    pub(crate) kind: PolicyKind<T>,
    pub(crate) trusted: bool,
    pub(crate) name: Option<Arc<str>>,
    /// An option that it was given and only networks have.
    misplaced: Option<&'static str>,
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
        let Self { kind, trusted, name, misplaced } = self;
        Self { kind: kind.clone(), trusted: *trusted, name: name.clone(), misplaced: *misplaced }
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
        Self { kind, trusted, name: None, misplaced: None }
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

    /// Weights that a network starts from, instead of new ones.
    #[must_use]
    pub fn weights(self, weights: Weights) -> Self {
        self.map("weights", |network| network.weights = Some(weights))
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
        self.map("backend", |network| network.site.backend = backend)
    }

    /// Runs a network on this device: by [`Backend::Gpu`], on the adapter that it was opened on. Policies share a
    /// device by clones of it. Default: the process's, [`Gpu::shared`](crate::gpu::Gpu::shared).
    #[cfg(feature = "gpu")]
    #[must_use]
    pub fn device(self, device: Arc<crate::gpu::Gpu>) -> Self {
        self.map("device", |network| (network.site.backend, network.site.device) = (Backend::Gpu, Some(device)))
    }

    /// Has a network's batches run by a server, together with those of other collectors that act by the same weights. Not
    /// for a network that remembers: a build error.
    #[must_use]
    pub fn served_by(self, server: &InferenceServer) -> Self {
        self.map("served_by", |network| network.site.server = Some(server.clone()))
    }

    /// The seed of a network's initial weights. Default: 0.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.map("seed", |network| network.seed = Seed(seed))
    }

    /// Statistics that a network's `normalize` starts from; set `frozen` in them for evaluation.
    #[must_use]
    pub fn normalization(self, norm: RunningNorm) -> Self {
        self.map("normalization", |network| network.norm = Some(norm))
    }

    fn map(mut self, option: &'static str, change: impl FnOnce(&mut NetworkPolicy)) -> Self {
        match &mut self.kind {
            PolicyKind::Network(network) => change(network),
            _ => self.misplaced = self.misplaced.or(Some(option)),
        }
        self
    }

    /// Errors: [`Error::Conflict`] for an option that only networks have.
    pub(super) fn check_options(&self) -> Result<(), Error> {
        let Some(first) = self.misplaced else { return Ok(()) };
        let reason = format!("{self:?} is no network, which this is an option of; leave it out");
        Err(Error::Conflict { first, second: "policy", reason })
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

/// Whether actions can be chosen as `exploration` says. Errors: [`Error::Conflict`] for the mode or the mean if no policy
/// is a network, and for random actions in place of a host's system's.
pub(crate) fn check_exploration<'a, T: Task>(
    exploration: Exploration,
    mut policies: impl Iterator<Item = &'a Policy<T>>,
) -> Result<(), Error> {
    let reason = match exploration {
        Exploration::Mode | Exploration::Mean if !policies.any(Policy::is_network) => {
            format!("no policy is a network, whose distribution has a {exploration:?}; leave exploration out")
        }
        Exploration::Random if policies.any(Policy::is_system) => {
            "a host's system chooses all actions, the random ones too; leave exploration out".into()
        }
        _ => return Ok(()),
    };
    Err(Error::Conflict { first: "exploration", second: "policy", reason })
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
