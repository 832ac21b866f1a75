//! What a network keeps for its rows in device memory: inputs, intermediate matrices, outputs, and their bindings.

use super::{
    head::{self, Binding, action_words, mask_words},
    inputs::Inputs,
    memory::DeviceStates,
    params::PARAMS_SIZE,
    stage::{Bound, Stage},
    weights::DeviceWeights,
};
use crate::{
    error::Error,
    gpu::{Gpu, Kernel},
    policy::plan::{Place, Plan},
};

pub(super) struct RowBuffers {
    /// Rows that fit.
    pub(super) capacity: usize,
    pub(super) uniforms: wgpu::Buffer,
    pub(super) inputs: wgpu::Buffer,
    pub(super) draws: wgpu::Buffer,
    pub(super) masks: wgpu::Buffer,
    pub(super) memory: wgpu::Buffer,
    /// What the head reads besides.
    pub(super) words: wgpu::Buffer,
    hidden: Vec<wgpu::Buffer>,
    pub(super) params: wgpu::Buffer,
    pub(super) actions: wgpu::Buffer,
    pub(super) log_probs: wgpu::Buffer,
    pub(super) value: wgpu::Buffer,
    /// One a stage, the head's last; none before [`bind`](Self::bind).
    pub(super) bindings: Vec<wgpu::BindGroup>,
}

/// Bytes from one uniform to the next.
pub(super) fn uniform_stride(gpu: &Gpu) -> u64 {
    PARAMS_SIZE.next_multiple_of(u64::from(gpu.limits().min_uniform_buffer_offset_alignment.max(1)))
}

impl RowBuffers {
    /// Memory for `capacity` rows and the uniforms of so many stages, the head's among them.
    pub(super) fn new(
        gpu: &Gpu,
        (plan, inputs): (&Plan, &Inputs),
        stages: usize,
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
        let uniforms = uniform_stride(gpu) * stages as u64;
        Ok(Self {
            capacity,
            uniforms: gpu.buffer("uniforms", uniforms, wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST)?,
            inputs: storage("inputs", inputs.words())?,
            draws: storage("draws", 4)?,
            masks: storage("masks", mask_words(&plan.head))?,
            memory: storage("memory", if plan.state() > 0 { 2 } else { 0 })?,
            words: gpu.buffer(
                "head",
                head::most_words(&plan.head, capacity) as u64 * 4,
                wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST,
            )?,
            hidden,
            params: storage("params", plan.head.params())?,
            actions: storage("actions", action_words(&plan.head))?,
            log_probs: storage("log-probs", 1)?,
            value: storage("values", usize::from(plan.value))?,
            bindings: Vec::new(),
        })
    }

    /// Binds all stages, and the head's kernel.
    pub(super) fn bind(
        &mut self,
        gpu: &Gpu,
        plan: &Plan,
        (stages, head): (&[Stage], Option<&Kernel>),
        weights: &DeviceWeights,
        states: &DeviceStates,
    ) -> Result<(), Error> {
        let bound = |bound: &Bound| match bound {
            Bound::Place(Place::Input) => Ok(whole(&self.inputs)),
            Bound::Place(Place::Hidden(i)) => Ok(whole(&self.hidden[*i])),
            Bound::Place(Place::Params) => Ok(whole(&self.params)),
            Bound::Place(Place::Value) => Ok(whole(&self.value)),
            Bound::Tensor(name) => weights.binding(name),
            Bound::Network => Ok(whole(weights.network())),
            Bound::Memory => Ok(whole(&self.memory)),
            Bound::States => Ok(whole(states.buffer())),
        };
        let uniform = |i: usize| wgpu::BufferBinding {
            buffer: &self.uniforms,
            offset: uniform_stride(gpu) * i as u64,
            size: wgpu::BufferSize::new(PARAMS_SIZE),
        };
        let mut bindings = Vec::new();
        for (i, stage) in stages.iter().enumerate() {
            let buffers = std::iter::once(Ok(uniform(i))).chain(stage.buffers.iter().map(bound));
            bindings.push(stage.kernel.bind(gpu, &buffers.collect::<Result<Vec<_>, Error>>()?)?);
        }
        let buffer = |binding: &Binding| match binding {
            Binding::Params => whole(&self.params),
            Binding::Draws => whole(&self.draws),
            Binding::Masks => whole(&self.masks),
            Binding::Words => whole(&self.words),
            Binding::Actions => whole(&self.actions),
            Binding::LogProbs => whole(&self.log_probs),
        };
        let uniform = std::iter::once(uniform(stages.len()));
        let buffers: Vec<_> = uniform.chain(head::bindings(&plan.head).iter().map(buffer)).collect();
        if let Some(head) = head {
            bindings.push(head.bind(gpu, &buffers)?);
        }
        self.bindings = bindings;
        Ok(())
    }
}

fn whole(buffer: &wgpu::Buffer) -> wgpu::BufferBinding<'_> {
    buffer.as_entire_buffer_binding()
}
