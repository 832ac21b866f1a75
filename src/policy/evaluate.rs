//! A policy's network outside the tick: values of last observations, and deployment.

use std::{
    marker::PhantomData,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use super::{
    backend::Site,
    normalize::Normalizer,
    plan::{Exploration, Forward, Memory, Network, Outcome, Plan, States},
    policy::NetworkPolicy,
};
use crate::{
    components::{ActionKey, Critic, Episode, EpisodeStep, Masks, Weights},
    data::Data,
    error::Error,
    task::Task,
};

/// What a network says of observations.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation<T: Task> {
    /// The most likely action of each row.
    pub actions: Vec<T::Action>,
    /// Log-probability of each of them.
    pub log_probs: Vec<f32>,
    /// Entropy of each distribution in nats; of a squashed Gaussian, which has none in closed form, the negative
    /// log-probability.
    pub entropies: Vec<f32>,
    /// The head's parameters: logits, values, or means and what else the network gives, `[rows, params_width]`.
    pub params: Vec<f32>,
    /// Parameters of a row.
    pub params_width: usize,
    /// Value of each observation; zeros for a network without a critic.
    pub values: Vec<f32>,
}

/// A network that can be asked at any time, from any thread. Clones share it.
pub struct Evaluator<T: Task> {
    shared: Arc<Shared>,
    task: PhantomData<fn() -> T>,
}

struct Shared {
    plan: Plan,
    site: Site,
    newest: Mutex<(Arc<Weights>, Option<Normalizer>)>,
    /// Under a lock of its own: who brings new weights does not wait for a call.
    loaded: Mutex<Loaded>,
}

/// What the calls use.
#[derive(Default)]
struct Loaded {
    /// Opened at the first call.
    network: Option<Box<dyn Network>>,
    /// What the network has loaded.
    weights: Weak<Weights>,
    normalizer: Option<Normalizer>,
}

impl Loaded {
    /// The network with the newest weights.
    fn renew(&mut self, shared: &Shared, rows: usize) -> Result<(&mut dyn Network, Option<&Normalizer>), Error> {
        let network = match &mut self.network {
            Some(network) => network,
            network => network.insert(shared.site.open(&shared.plan, rows)?.0),
        };
        let (weights, normalizer) = shared.newest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !std::ptr::eq(self.weights.as_ptr(), &*weights) {
            network.load(&weights)?;
            self.weights = Arc::downgrade(&weights);
        }
        // The same weights may be published again, with newer statistics.
        self.normalizer = normalizer;
        Ok((&mut **network, self.normalizer.as_ref()))
    }
}

impl<T: Task> Clone for Evaluator<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), task: PhantomData }
    }
}

impl<T: Task> Evaluator<T> {
    pub(super) fn new(plan: Plan, site: Site, weights: Arc<Weights>, normalizer: Option<Normalizer>) -> Self {
        let shared = Shared { plan, site, newest: Mutex::new((weights, normalizer)), loaded: Mutex::default() };
        Self { shared: Arc::new(shared), task: PhantomData }
    }

    pub(super) fn from_policy(policy: &NetworkPolicy) -> Result<Self, Error> {
        let plan = policy.spec.plan::<T>()?;
        let weights = policy.initial_weights(&plan)?;
        let norm = policy.running_norm(plan.inputs)?;
        Ok(Self::new(plan, policy.site.alone(), Arc::new(weights), norm.map(|norm| norm.snapshot())))
    }

    /// Replaces weights and normalisation and gives the old weights; takes effect with the next call.
    pub(crate) fn set(&self, weights: Arc<Weights>, normalizer: Option<Normalizer>) -> Arc<Weights> {
        let mut newest = self.shared.newest.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *newest, (weights, normalizer)).0
    }

    /// The weights that it was given last.
    pub(super) fn weights(&self) -> Arc<Weights> {
        self.shared.newest.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Acts for observations by the mode; all actions count as legal, an epsilon is at its end. A recurrent network takes
    /// each for the first of an episode. Errors: on a GPU those of the device, which the first call opens
    /// ([`Error::Gpu`], [`Error::DeviceLost`]).
    pub fn evaluate(&self, observations: &[T::Observation]) -> Result<Evaluation<T>, Error> {
        self.run(observations, Masks::new::<()>(&[]), None)
    }

    /// Like [`evaluate`](Self::evaluate), for a network that remembers `states`, `[rows, width]`; puts the new ones
    /// there. An episode begins with zeros. Errors: those of `evaluate`; [`Error::Config`] for `states` of another
    /// length.
    pub fn evaluate_from(&self, observations: &[T::Observation], states: &mut [f32]) -> Result<Evaluation<T>, Error> {
        self.run(observations, Masks::new::<()>(&[]), Some(states))
    }

    /// Numbers of a row's state: noise that goes on from step to step, recurrent layers. 0 for a network without memory.
    pub fn state_width(&self) -> usize {
        self.shared.plan.state()
    }

    /// Numbers of the state that a value depends on: noise has no part in it.
    pub(super) fn state_width_of_critic(&self) -> usize {
        if self.shared.plan.is_recurrent() { self.shared.plan.state() } else { 0 }
    }

    /// Whether the network has a critic.
    pub(super) fn gives_values(&self) -> bool {
        self.shared.plan.value
    }

    /// Acts for observations by the mode among the legal actions. A recurrent network takes each for the first of an
    /// episode. Errors: those of [`evaluate`](Self::evaluate); [`Error::Config`] for other than a mask an observation.
    pub fn evaluate_masked(&self, observations: &[T::Observation], masks: &[T::Mask]) -> Result<Evaluation<T>, Error> {
        if masks.len() != observations.len() {
            return Err(Error::config(
                "masks",
                masks.len(),
                format!("{}, as many as observations", observations.len()),
            ));
        }
        self.run(observations, Masks::new(masks), None)
    }

    fn run(
        &self,
        observations: &[T::Observation],
        masks: Masks<'_>,
        states: Option<&mut [f32]>,
    ) -> Result<Evaluation<T>, Error> {
        let plan = &self.shared.plan;
        let rows = observations.len();
        let width = plan.state();
        if let Some(states) = &states
            && states.len() != rows * width
        {
            return Err(Error::config("states", states.len(), format!("{}, {width} a row", rows * width)));
        }
        let remembered = States::new(rows, width);
        for (place, state) in states.iter().flat_map(|states| states.chunks_exact(width.max(1))).enumerate() {
            remembered.write(place, 0, state);
        }
        let mut loaded = self.shared.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let (network, normalizer) = loaded.renew(&self.shared, rows)?;
        let mut inputs = vec![0.0; rows * plan.inputs];
        encode(observations, normalizer, &mut inputs);
        let params_width = plan.head.params();
        let mut evaluation = Evaluation {
            actions: vec![bytemuck::Zeroable::zeroed(); rows],
            log_probs: vec![0.0; rows],
            entropies: vec![0.0; rows],
            params: vec![0.0; rows * params_width],
            params_width,
            values: vec![0.0; rows],
        };
        let fresh = vec![u8::from(states.is_none()); rows];
        let places: Vec<_> = (0..rows as u32).collect();
        let input = Forward {
            inputs: &inputs,
            masks,
            keys: &vec![ActionKey::default(); rows],
            episodes: &vec![Episode::default(); rows],
            steps: &vec![EpisodeStep::default(); rows],
            exploration: Exploration::Mode,
            frames: u64::MAX,
            memory: (width > 0).then_some(Memory { states: &remembered, places: &places, fresh: &fresh }),
        };
        let mut out = Outcome {
            params: &mut evaluation.params,
            actions: bytemuck::cast_slice_mut(&mut evaluation.actions),
            log_probs: &mut evaluation.log_probs,
            entropies: &mut evaluation.entropies,
            values: &mut evaluation.values,
        };
        if states.is_some() {
            network.push_states(&remembered)?;
        }
        network.forward(&input, &mut out)?;
        if states.is_some() {
            network.pull_states(&remembered)?;
        }
        for (place, state) in states.into_iter().flat_map(|states| states.chunks_exact_mut(width.max(1))).enumerate() {
            remembered.read(place, 0, state);
        }
        Ok(evaluation)
    }
}

/// Observations as the network's input, `[rows, width]`.
pub(super) fn encode<D: Data>(observations: &[D], normalizer: Option<&Normalizer>, inputs: &mut [f32]) {
    let width = inputs.len().checked_div(observations.len()).unwrap_or(0);
    for (observation, input) in observations.iter().zip(inputs.chunks_exact_mut(width.max(1))) {
        observation.encode(input);
    }
    if let Some(normalizer) = normalizer {
        normalizer.apply(inputs);
    }
}

impl<T: Task> Critic<T> for Evaluator<T> {
    fn state_width(&self) -> usize {
        self.state_width_of_critic()
    }

    fn values(
        &self,
        _: &[u32],
        _: &[u16],
        observations: &[T::Observation],
        states: &mut [f32],
    ) -> Result<Vec<f32>, Error> {
        if !self.gives_values() {
            let problem = "the policy gives no values; legal: a network with a critic".into();
            return Err(Error::State { call: "bootstrap_values", problem });
        }
        let evaluation =
            if states.is_empty() { self.evaluate(observations) } else { self.evaluate_from(observations, states) };
        Ok(evaluation?.values)
    }
}
