//! The critics of several policies, as one.

use super::evaluate::Evaluator;
use crate::{components::Critic, error::Error, task::Task};

/// Where `policies` is `policy`.
fn positions(policies: &[u32], policy: u32) -> Vec<usize> {
    (0..policies.len()).filter(|i| policies[*i] == policy).collect()
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
    fn values(&self, policies: &[u32], observations: &[T::Observation], states: &mut [f32]) -> Result<Vec<f32>, Error> {
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
            for (i, value) in own.into_iter().zip(evaluator.values(&[], &seen, &mut met)?) {
                values[i] = value;
            }
        }
        Ok(values)
    }
}
