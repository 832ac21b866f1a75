//! Frames of a batch as tensors.

use candle_core::{Device, Result, Tensor};
use gleaner::{
    data::{Data, width},
    prelude::*,
};

/// What a network is given.
pub struct Frames {
    /// `[frames, width]`; for a recurrent network tick after tick.
    pub observations: Tensor,
    /// What a recurrent network remembers.
    pub memory: Option<Memory>,
}

/// What recurrent layers start from, and where they start anew.
pub struct Memory {
    /// The state of each row before its first frame, `[rows, state]`.
    pub states: Tensor,
    /// 0 for the first frame of an episode, 1 for others, `[frames, 1]`.
    pub going_on: Tensor,
}

impl Frames {
    /// The frames of a batch at `slots`. For a `recurrent` network they must be those of a few rows, tick after tick.
    pub fn new<T: Task>(batch: &Batch<T>, slots: &[usize], recurrent: bool) -> Result<Self> {
        let memory = recurrent.then(|| Memory::new(batch, slots)).transpose()?;
        Ok(Self { observations: matrix(batch.observations(), slots)?, memory })
    }
}

impl Memory {
    fn new<T: Task>(batch: &Batch<T>, slots: &[usize]) -> Result<Self> {
        let rows = batch.rows().len();
        let all = batch.initial_states();
        let width = all.len() / rows;
        let starts: Vec<usize> = slots.iter().copied().take_while(|slot| *slot < rows).collect();
        let states = starts.iter().flat_map(|row| &all[row * width..(row + 1) * width]).copied().collect();
        let going_on = slots.iter().map(|slot| f32::from(u8::from(!batch.is_init(*slot)))).collect();
        Ok(Self {
            states: Tensor::from_vec(states, (starts.len(), width), &Device::Cpu)?,
            going_on: Tensor::from_vec(going_on, (slots.len(), 1), &Device::Cpu)?,
        })
    }
}

/// `[slots, width]` floats.
pub fn matrix<D: Data>(column: &[D], slots: &[usize]) -> Result<Tensor> {
    let width = width::<D>();
    let mut data = vec![0.0; slots.len() * width];
    for (slot, out) in slots.iter().zip(data.chunks_exact_mut(width)) {
        column[*slot].encode(out);
    }
    Tensor::from_vec(data, (slots.len(), width), &Device::Cpu)
}
