//! Double Q-learning (van Hasselt et al. 2016) from prioritized samples with n-step returns.

use candle_core::{D, Device, Tensor};
use gleaner::{prelude::*, replay::Sample};

use super::{Result, frames::matrix, mlp::Mlp, off_policy::Learner, optimizer::Adam};

/// How values are learnt.
#[derive(Clone, Debug)]
pub struct DqnConfig {
    pub learning_rate: f64,
    /// How far the target network follows with each step.
    pub tau: f64,
    pub max_gradient_norm: f64,
}

impl Default for DqnConfig {
    fn default() -> Self {
        Self { learning_rate: 1e-3, tau: 0.01, max_gradient_norm: 10.0 }
    }
}

/// A network of action values, and the one that follows it slowly.
pub struct Dqn {
    config: DqnConfig,
    online: Mlp,
    target: Mlp,
    optimizer: Adam,
}

impl Dqn {
    /// A learner that starts from the layers `names` of `weights`.
    pub fn new(weights: &Weights, names: &[&str], config: DqnConfig) -> Result<Self> {
        let online = Mlp::of(weights, names)?;
        let optimizer = Adam::new(online.vars(), config.max_gradient_norm)?;
        Ok(Self { target: online.copy()?, online, optimizer, config })
    }
}

impl<T: Task> Learner<T> for Dqn {
    /// Priorities are the magnitudes of the temporal differences.
    fn update(&mut self, sample: &Sample<T>, remaining: f64) -> Result<Option<Vec<f32>>> {
        let slots: Vec<usize> = (0..sample.len()).collect();
        let vector = |data: &[f32]| Tensor::from_slice(data, data.len(), &Device::Cpu);
        let next = matrix(sample.next_observations(), &slots)?;
        let best = self.online.forward(&next)?.argmax(D::Minus1)?.unsqueeze(1)?;
        let next_values = self.target.forward(&next)?.gather(&best, 1)?.squeeze(1)?;
        let targets = (vector(sample.returns())? + (next_values * vector(sample.discounts())?)?)?.detach();
        let actions = matrix(sample.actions(), &slots)?.to_dtype(candle_core::DType::U32)?;
        let values = self.online.forward(&matrix(sample.observations(), &slots)?)?.gather(&actions, 1)?.squeeze(1)?;
        let differences = (values - targets)?;
        // Huber's loss: half the square up to 1, then linear.
        let size = differences.abs()?;
        let square = size.clamp(0.0, 1.0)?;
        let loss = ((square.sqr()? * 0.5)? + (&size - &square)?)?;
        let loss = (loss * vector(sample.weights())?)?.mean(0)?;
        self.optimizer.step(&loss, self.config.learning_rate * remaining)?;
        self.target.follow(&self.online, self.config.tau)?;
        Ok(Some(size.to_vec1()?))
    }

    fn weights(&self) -> Result<Weights> {
        self.online.weights()
    }
}
