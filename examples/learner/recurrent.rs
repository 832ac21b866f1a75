//! Recurrent layers, unrolled over the ticks of a rollout.

use candle_core::{Result, Tensor};
use candle_nn::ops::sigmoid;

use super::{frames::Memory, ops};

/// The tensors of a gated recurrent unit (Cho et al. 2014), with the gates r, z, n as PyTorch stacks them.
pub struct Gru<'a> {
    pub weight_ih: &'a Tensor,
    pub weight_hh: &'a Tensor,
    pub bias_ih: &'a Tensor,
    pub bias_hh: &'a Tensor,
}

impl Gru<'_> {
    /// States after each frame, `[frames, hidden]`, for inputs `[frames, width]` of tick after tick.
    pub fn forward(&self, x: &Tensor, memory: &Memory) -> Result<Tensor> {
        let rows = memory.states.dim(0)?;
        let mut state = memory.states.clone();
        let mut states = Vec::new();
        for first in (0..x.dim(0)?).step_by(rows) {
            let going_on = memory.going_on.narrow(0, first, rows)?;
            state = self.step(&x.narrow(0, first, rows)?, &state.broadcast_mul(&going_on)?)?;
            states.push(state.clone());
        }
        Tensor::cat(&states, 0)
    }

    fn step(&self, x: &Tensor, state: &Tensor) -> Result<Tensor> {
        let hidden = state.dim(1)?;
        let of_input = ops::linear(x, self.weight_ih, self.bias_ih)?;
        let of_state = ops::linear(state, self.weight_hh, self.bias_hh)?;
        let gates = sigmoid(&(of_input.narrow(1, 0, 2 * hidden)? + of_state.narrow(1, 0, 2 * hidden)?)?)?;
        let (reset, keep) = (gates.narrow(1, 0, hidden)?, gates.narrow(1, hidden, hidden)?);
        let recalled = (reset * of_state.narrow(1, 2 * hidden, hidden)?)?;
        let new = ops::tanh(&(of_input.narrow(1, 2 * hidden, hidden)? + recalled)?)?;
        &new + (keep * (state - &new)?)?
    }
}
