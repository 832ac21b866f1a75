//! The action distributions that gleaner's heads stand for, with gradients.

use candle_core::{D, Tensor};
use candle_nn::ops::log_softmax;

/// A distribution for each frame of a minibatch.
pub enum Distribution {
    /// From logits, `[frames, actions]`.
    Categorical { log_probs: Tensor },
    /// From means, `[frames, elements]`, and `log_std`, `[elements]`.
    Gaussian { mean: Tensor, log_std: Tensor },
}

impl Distribution {
    pub fn categorical(logits: &Tensor) -> candle_core::Result<Self> {
        Ok(Self::Categorical { log_probs: log_softmax(logits, D::Minus1)? })
    }

    /// Log-probability of each action; `actions` are `[frames, elements]`, a discrete one its index as a float.
    pub fn log_prob(&self, actions: &Tensor) -> candle_core::Result<Tensor> {
        match self {
            Self::Categorical { log_probs } => {
                let index = actions.to_dtype(candle_core::DType::U32)?;
                log_probs.gather(&index, 1)?.squeeze(1)
            }
            Self::Gaussian { mean, log_std } => {
                let z = (actions - mean)?.broadcast_div(&log_std.exp()?)?;
                let log_density = (z.sqr()? * -0.5)?.broadcast_sub(log_std)?;
                log_density.affine(1.0, -0.5 * (2.0 * std::f64::consts::PI).ln())?.sum(1)
            }
        }
    }

    /// Mean entropy over the frames.
    pub fn entropy(&self) -> candle_core::Result<Tensor> {
        match self {
            Self::Categorical { log_probs } => (log_probs.exp()? * log_probs)?.sum(1)?.mean(0)?.neg(),
            Self::Gaussian { log_std, .. } => {
                log_std.affine(1.0, 0.5 + 0.5 * (2.0 * std::f64::consts::PI).ln())?.sum_all()
            }
        }
    }
}
