//! The critics of several policies, or of several workers, as one.

use std::sync::{Arc, PoisonError, RwLock};

use super::evaluate::Evaluator;
use crate::{components::Critic, error::Error, task::Task};

/// Where `numbers` is `number`.
fn positions<N: PartialEq>(numbers: &[N], number: N) -> Vec<usize> {
    (0..numbers.len()).filter(|i| numbers[*i] == number).collect()
}

/// The first `state` numbers of the states at `own`, of which each has `width`.
fn gathered(states: &[f32], own: &[usize], width: usize, state: usize) -> Vec<f32> {
    own.iter().flat_map(|i| &states[i * width..][..state]).copied().collect()
}

/// By policy its network; none for a policy that is no network.
pub(crate) struct Critics<T: Task>(pub Vec<Option<Evaluator<T>>>);

impl<T: Task> Critic<T> for Critics<T> {
    fn state_width(&self) -> usize {
        self.0.iter().flatten().map(Evaluator::state_width_of_critic).max().unwrap_or(0)
    }

    /// Zeros where a policy gives no values.
    fn values(
        &self,
        policies: &[u32],
        _: &[u16],
        observations: &[T::Observation],
        states: &mut [f32],
    ) -> Result<Vec<f32>, Error> {
        let critics = self.0.iter().enumerate().filter_map(|(i, evaluator)| Some((i as u32, evaluator.as_ref()?)));
        let critics: Vec<_> = critics.filter(|(_, evaluator)| evaluator.gives_values()).collect();
        if critics.is_empty() {
            let problem = "no policy gives values; legal: a network with a critic among them".into();
            return Err(Error::State { call: "bootstrap_values", problem });
        }
        let (width, mut values) = (self.state_width(), vec![0.0; observations.len()]);
        for (policy, evaluator) in critics {
            let own = positions(policies, policy);
            if own.is_empty() {
                continue;
            }
            let seen: Vec<_> = own.iter().map(|i| observations[*i]).collect();
            let mut met = gathered(states, &own, width, evaluator.state_width_of_critic());
            for (i, value) in own.into_iter().zip(evaluator.values(&[], &[], &seen, &mut met)?) {
                values[i] = value;
            }
        }
        Ok(values)
    }
}

/// By worker what gives values under its own weights.
pub(crate) struct WorkerCritics<T: Task>(RwLock<Vec<Arc<dyn Critic<T>>>>);

impl<T: Task> WorkerCritics<T> {
    pub(crate) fn new(critics: Vec<Arc<dyn Critic<T>>>) -> Self {
        Self(RwLock::new(critics))
    }

    /// Another one acts in a worker's place.
    pub(crate) fn replace(&self, worker: usize, critic: Arc<dyn Critic<T>>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner)[worker] = critic;
    }

    fn now(&self) -> Vec<Arc<dyn Critic<T>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<T: Task> Critic<T> for WorkerCritics<T> {
    fn state_width(&self) -> usize {
        self.now().first().map_or(0, |critic| critic.state_width())
    }

    fn values(
        &self,
        policies: &[u32],
        workers: &[u16],
        observations: &[T::Observation],
        states: &mut [f32],
    ) -> Result<Vec<f32>, Error> {
        let (width, mut values) = (self.state_width(), vec![0.0; observations.len()]);
        for (worker, critic) in (0..).zip(self.now()) {
            let own = positions(workers, worker);
            if own.is_empty() {
                continue;
            }
            let seen: Vec<_> = own.iter().map(|i| observations[*i]).collect();
            let of = own.iter().filter_map(|i| policies.get(*i).copied()).collect::<Vec<_>>();
            let mut met = gathered(states, &own, width, width);
            for (i, value) in own.into_iter().zip(critic.values(&of, &[], &seen, &mut met)?) {
                values[i] = value;
            }
        }
        Ok(values)
    }
}
