//! The policy entity: what acts in a world, with the weights it runs under.

use std::{
    ops::Range,
    sync::{Arc, Mutex},
};

use bevy_ecs::prelude::*;

use super::{
    ahead::Ahead,
    cpu::CpuNetwork,
    evaluate::Evaluator,
    former::ByEpisode,
    normalize::{Normalizer, RunningNorm},
    packing::{PackedWeights, Packing},
    plan::{Exploration, Network, Plan, States},
    policy::{ActFunction, NetworkPolicy, Policy, PolicyKind},
};
use crate::{
    components::Weights,
    data::{Data, Dtype, Field},
    error::Error,
    space::Space,
    task::Task,
};

/// What acts for rows of task `T`: the component of a policy entity.
#[derive(Component)]
pub(crate) struct Actor<T: Task> {
    pub(super) duty: Duty,
    pub(super) kind: ActorKind<T>,
    pub(super) space: Space,
    pub(super) fields: Vec<Field>,
    pub(super) trusted: bool,
    pub(super) ticks: u64,
    /// Frames that the policy acted for before this tick.
    pub(super) frames: u64,
    /// Frames of this tick so far.
    pub(super) acted: u64,
    pub(super) ahead: Ahead<T>,
}

/// What a policy is opened for.
#[derive(Clone, Debug)]
pub(crate) struct Duty {
    /// Number among the task's policies.
    pub policy: usize,
    /// The slots that it acts for; `0..u32::MAX` for a task's only policy.
    pub rows: Range<u32>,
    /// Slots of all policies.
    pub slots: usize,
    /// Rows that it acts for in all workers together.
    pub all_rows: usize,
    pub exploration: Exploration,
    /// Threads that it may act on.
    pub threads: usize,
    /// Whether distributions are recorded.
    pub record_params: bool,
}

impl Duty {
    /// Rows that it acts for.
    fn count(&self) -> usize {
        (self.rows.end as usize).min(self.slots).saturating_sub(self.rows.start as usize)
    }
}

pub(super) enum ActorKind<T: Task> {
    Random,
    Function(ActFunction<T>),
    Network(Box<NetworkActor<T>>),
    System,
}

/// A network with the weights it acts under.
pub(super) struct NetworkActor<T: Task> {
    pub plan: Plan,
    /// One for each thread that infers, which takes its own; a single one on a GPU.
    pub networks: Vec<Mutex<Lane>>,
    pub packing: Packing,
    /// The weights that all networks act by.
    pub packed: PackedWeights,
    /// What running episodes act by, if each acts by one set to its end.
    pub former: Option<Box<dyn ByEpisode<T>>>,
    pub exploration: Exploration,
    pub normalizer: Option<Normalizer>,
    /// The statistics that the next adoption takes its normaliser from.
    pub running: Option<RunningNorm>,
    pub evaluator: Evaluator<T>,
    /// The head's parameters in the newest tick, by place in the run. Scratch.
    pub params: Vec<f32>,
    /// Entropies likewise; empty if they are not recorded.
    pub entropies: Vec<f32>,
    /// The same by slot, if they are recorded.
    pub recorded: Option<Recorded>,
    /// What rows remember: recurrent states, noise.
    pub states: States,
    /// By place in the run: where its state is, and whether it begins with zeros. Scratch.
    pub places: Vec<u32>,
    pub fresh: Vec<u8>,
    /// Standard deviations of a Gaussian head, if they are no function of the observation.
    pub std: Vec<f32>,
    pub backend: String,
    /// Whether an observation is floats and nothing else: its bytes are the network's input.
    pub raw: bool,
}

/// The distributions of the newest tick, by slot.
pub(super) struct Recorded {
    /// `[slots, head.params()]`.
    pub params: Vec<f32>,
    pub entropies: Vec<f32>,
}

impl Recorded {
    fn new(slots: usize, width: usize) -> Self {
        Self { params: vec![0.0; slots * width], entropies: vec![0.0; slots] }
    }

    /// Takes over the parameters and the entropy of the row in `slot`, if it is recorded.
    pub(super) fn put(&mut self, slot: usize, params: &[f32], entropy: f32) {
        if let (Some(place), at) = (self.entropies.get_mut(slot), slot * params.len()) {
            *place = entropy;
            self.params[at..at + params.len()].copy_from_slice(params);
        }
    }
}

/// A network and its input.
pub(super) struct Lane {
    pub network: Box<dyn Network>,
    pub inputs: Vec<f32>,
}

impl NetworkPolicy {
    pub(super) fn initial_weights(&self, plan: &Plan) -> Result<Weights, Error> {
        let weights = self.weights.clone().unwrap_or_else(|| self.spec.initial_weights(plan, self.seed));
        weights.check(&plan.tensors())?;
        Ok(weights)
    }

    pub(super) fn running_norm(&self, inputs: usize) -> Result<Option<RunningNorm>, Error> {
        match (&self.norm, self.spec.normalize) {
            (Some(norm), Some(_)) => norm.check(inputs).map(|()| Some(norm.clone())),
            (Some(_), None) => Err(Error::Conflict {
                first: "normalization",
                second: "normalize",
                reason: "statistics were given to a network that does not normalise; add `normalize` to its spec"
                    .into(),
            }),
            (None, _) => Ok(self.spec.running_norm(inputs)),
        }
    }
}

impl<T: Task> Actor<T> {
    /// Opens the policy. A network comes with its initial weights.
    pub(crate) fn open(policy: Policy<T>, duty: Duty) -> Result<(Self, Option<Arc<Weights>>), Error> {
        policy.check_options()?;
        let mut initial = None;
        let random = duty.exploration == Exploration::Random;
        let kind = match policy.kind {
            PolicyKind::System => ActorKind::System,
            PolicyKind::Function(_) if random => ActorKind::Random,
            PolicyKind::Random => ActorKind::Random,
            PolicyKind::Function(act) => ActorKind::Function(act),
            PolicyKind::Network(network) => {
                let (actor, weights) = NetworkActor::open(&network, &duty)?;
                initial = Some(weights);
                ActorKind::Network(Box::new(actor))
            }
        };
        let (space, fields) = (T::action_space(), T::Action::fields());
        let actor = Self {
            duty,
            kind,
            space,
            fields,
            trusted: policy.trusted,
            ticks: 0,
            frames: 0,
            acted: 0,
            ahead: Ahead::default(),
        };
        Ok((actor, initial))
    }

    /// The slots that it acts for.
    pub(crate) fn rows(&self) -> Range<u32> {
        self.duty.rows.clone()
    }

    /// How many rows that are.
    pub(crate) fn count(&self) -> usize {
        self.duty.count()
    }

    /// Its number among the task's policies.
    pub(crate) fn number(&self) -> usize {
        self.duty.policy
    }

    /// Goes on as if the policy had acted for `frames` frames.
    pub(crate) fn go_on_from(&mut self, frames: u64) {
        self.frames = frames;
    }

    /// Frames that it has acted for in all workers together, which go in step.
    pub(super) fn all_frames(&self) -> u64 {
        self.frames * self.duty.all_rows as u64 / self.duty.count().max(1) as u64
    }

    /// The network outside the tick.
    pub(crate) fn evaluator(&self) -> Option<Evaluator<T>> {
        match &self.kind {
            ActorKind::Network(network) => Some(network.evaluator.clone()),
            _ => None,
        }
    }

    /// Whether a host's system acts.
    pub(crate) fn is_system(&self) -> bool {
        matches!(self.kind, ActorKind::System)
    }

    /// Whether it acts for parts of the rows on several threads.
    pub(crate) fn divides(&self) -> bool {
        match &self.kind {
            ActorKind::Function(_) => true,
            ActorKind::Network(network) => network.networks.len() > 1 && network.exploration != Exploration::Random,
            ActorKind::Random | ActorKind::System => false,
        }
    }

    /// What the network runs on, in words.
    pub(crate) fn backend(&self) -> Option<&str> {
        match &self.kind {
            ActorKind::Network(network) => Some(&network.backend),
            _ => None,
        }
    }

    /// Lets every row's next frame begin with an empty memory.
    pub(crate) fn forget_states(&mut self) {
        if let ActorKind::Network(network) = &mut self.kind {
            network.states.forget();
        }
    }

    /// The operations of the network.
    pub(crate) fn plan(&self) -> Option<&Plan> {
        match &self.kind {
            ActorKind::Network(network) => Some(&network.plan),
            _ => None,
        }
    }

    /// The running statistics of the observations.
    pub(crate) fn normalization(&self) -> Option<&RunningNorm> {
        match &self.kind {
            ActorKind::Network(network) => network.running.as_ref(),
            _ => None,
        }
    }
}

impl<T: Task> NetworkActor<T> {
    fn open(policy: &NetworkPolicy, duty: &Duty) -> Result<(Self, Arc<Weights>), Error> {
        let Duty { slots, exploration, threads, record_params, .. } = *duty;
        let (rows, plan) = (duty.count(), policy.spec.plan::<T>()?);
        plan.head.check(exploration)?;
        let weights = Arc::new(policy.initial_weights(&plan)?);
        let running = policy.running_norm(plan.inputs)?;
        let (first, site, backend) = policy.site.open(&plan, rows)?;
        let packer = first.packer();
        let packed = packer.pack(&weights)?;
        let mut networks = vec![first];
        if backend == "cpu" {
            for _ in 1..threads {
                networks.push(Box::new(CpuNetwork::new(plan.clone())));
            }
        }
        let normalizer = running.as_ref().map(RunningNorm::snapshot);
        let mut actor = Self {
            exploration,
            evaluator: Evaluator::new(plan.clone(), site, weights.clone(), normalizer.clone()),
            params: vec![0.0; rows * plan.head.params()],
            entropies: Vec::new(),
            recorded: record_params.then(|| Recorded::new(slots, plan.head.params())),
            states: States::new(slots, plan.state()),
            places: Vec::new(),
            fresh: Vec::new(),
            std: Vec::new(),
            networks: networks.into_iter().map(|network| Mutex::new(Lane { network, inputs: Vec::new() })).collect(),
            packing: Packing::new(packer),
            packed: packed.clone(),
            former: None,
            plan,
            normalizer,
            running,
            backend,
            raw: T::Observation::fields().iter().all(|field| field.dtype == Dtype::F32),
        };
        actor.adopt(weights.clone(), packed)?;
        Ok((actor, weights))
    }
}
