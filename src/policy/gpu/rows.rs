//! What a network keeps for its rows in device memory: inputs, intermediate matrices, outputs, and their bindings.

use super::{params::PARAMS_SIZE, weights::DeviceWeights};
use crate::{
    error::Error,
    gpu::{Gpu, Kernel},
    policy::plan::{Head, Place, Plan},
};

pub(super) struct RowBuffers {
    /// Rows that fit.
    pub(super) capacity: usize,
    pub(super) uniforms: wgpu::Buffer,
    pub(super) inputs: wgpu::Buffer,
    pub(super) draws: wgpu::Buffer,
    pub(super) masks: wgpu::Buffer,
    pub(super) params: wgpu::Buffer,
    pub(super) actions: wgpu::Buffer,
    pub(super) log_probs: wgpu::Buffer,
    pub(super) value: wgpu::Buffer,
    /// One a layer, the head's last.
    pub(super) bindings: Vec<wgpu::BindGroup>,
}

/// Bytes from one uniform to the next.
pub(super) fn uniform_stride(gpu: &Gpu) -> u64 {
    PARAMS_SIZE.next_multiple_of(u64::from(gpu.limits().min_uniform_buffer_offset_alignment.max(1)))
}

/// Words of one row's mask; 0 for a head that has no discrete action.
pub(super) fn mask_words(head: &Head) -> usize {
    match head {
        Head::Categorical { n } => n.div_ceil(4),
        Head::Gaussian { .. } => 0,
    }
}

impl RowBuffers {
    pub(super) fn new(
        gpu: &Gpu,
        plan: &Plan,
        kernels: &[Kernel],
        weights: &DeviceWeights,
        capacity: usize,
    ) -> Result<Self, Error> {
        let storage = |label: &str, words: usize| {
            use wgpu::BufferUsages as Usage;
            let usage = Usage::STORAGE | Usage::COPY_DST | Usage::COPY_SRC;
            gpu.buffer(label, (capacity as u64).saturating_mul(words as u64 * 4), usage)
        };
        let hidden = plan.hidden.iter().enumerate();
        let hidden: Vec<_> =
            hidden.map(|(i, width)| storage(&format!("hidden {i}"), *width)).collect::<Result<_, _>>()?;
        let uniforms = uniform_stride(gpu) * kernels.len() as u64;
        let mut own = Self {
            capacity,
            uniforms: gpu.buffer("uniforms", uniforms, wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST)?,
            inputs: storage("inputs", plan.inputs)?,
            draws: storage("draws", 4)?,
            masks: storage("masks", mask_words(&plan.head))?,
            params: storage("params", plan.head.params())?,
            actions: storage("actions", plan.head.action_words())?,
            log_probs: storage("log-probs", 1)?,
            value: storage("values", usize::from(plan.value))?,
            bindings: Vec::new(),
        };
        own.bindings = own.bind(gpu, plan, kernels, weights, &hidden)?;
        Ok(own)
    }

    fn bind(
        &self,
        gpu: &Gpu,
        plan: &Plan,
        kernels: &[Kernel],
        weights: &DeviceWeights,
        hidden: &[wgpu::Buffer],
    ) -> Result<Vec<wgpu::BindGroup>, Error> {
        let place = |place| match place {
            Place::Input => &self.inputs,
            Place::Hidden(i) => &hidden[i],
            Place::Params => &self.params,
            Place::Value => &self.value,
        };
        let uniform = |i: usize| wgpu::BufferBinding {
            buffer: &self.uniforms,
            offset: uniform_stride(gpu) * i as u64,
            size: wgpu::BufferSize::new(PARAMS_SIZE),
        };
        let mut bindings = Vec::new();
        for (i, (layer, kernel)) in plan.layers.iter().zip(kernels).enumerate() {
            let weight = weights.binding(&format!("{}.weight", layer.name))?;
            let bias = weights.binding(&format!("{}.bias", layer.name))?;
            bindings
                .push(kernel.bind(gpu, &[uniform(i), whole(place(layer.from)), weight, bias, whole(place(layer.to))])?);
        }
        let third = match plan.head {
            Head::Categorical { .. } => whole(&self.masks),
            Head::Gaussian { .. } => weights.binding("log_std")?,
        };
        let (params, draws) = (whole(&self.params), whole(&self.draws));
        let (actions, log_probs) = (whole(&self.actions), whole(&self.log_probs));
        let head = plan.layers.len();
        bindings.push(kernels[head].bind(gpu, &[uniform(head), params, draws, third, actions, log_probs])?);
        Ok(bindings)
    }
}

fn whole(buffer: &wgpu::Buffer) -> wgpu::BufferBinding<'_> {
    buffer.as_entire_buffer_binding()
}
