//! A network as compute shaders: weights and recurrent states stay in device memory, all layers and the head run in
//! one submit.
//!
//! What a tick costs when it has as many rows as the one before, and what new weights send; a test counts it:
//!
//! | network | bytes up a row | bytes down a row | dispatches | submits | operations a row | bytes of weights | as halves |
//! |---|---|---|---|---|---|---|---|
//! | 4-64-64-2, critic alike | 32 | 20 | 2 | 1 | 17792 | 40512 | 20512 |
//! | 17-256-256-2, critic alike | 84 | 20 | 7 | 1 | 281088 | 571404 | 285704 |
//! | 4, GRU of 64, 2 and value | 40 | 20 | 4 | 1 | 26496 | 55820 | 27912 |
//! | bytes 4×84×84, 3 convolutions, 64, 2 and value | 28240 | 20 | 7 | 1 | 5708160 | 490060 | 245032 |
//!
//! A small network of linear layers is one dispatch (`shaders/fused.wgsl`), any other has one for each layer; the head is
//! one more. What a kernel reads, by tile of a thread:
//!
//! | kernel | a thread computes | loads for its products |
//! |---|---|---|
//! | fused, weights in workgroup or uniform memory | a row, 8 outputs at a time | 2 of 16 bytes for 8 (1 of halves); matrices in private memory |
//! | linear | 4 rows × 4 outputs | 1 of 16 bytes and 4 of 4 bytes for 16 (8 bytes of halves) |
//! | convolution | 4 filters × 4 places | 8 of 4 bytes for 16 (pixels of a byte: 4 share a word) |
//! | GRU, LSTM | a unit of 4 rows | 7 and 8 of 4 bytes for 12 and 16 |
//! | layer norm | a workgroup a row | sums by subgroups where the adapter has them, else in workgroup memory |
//!
//! Images of bytes are sent as bytes, rows padded to whole words, and become numbers in the first convolution. Weights
//! are floats, or halves if [`GpuConfig::half`](crate::gpu::GpuConfig::half) asks for them; arithmetic is in floats.
//! Which of the forms runs follows from facts of the adapter, never from a measurement: see [`Form`],
//! [`GpuConfig::weights`](crate::gpu::GpuConfig::weights) and [`GpuConfig::subgroups`](crate::gpu::GpuConfig::subgroups).
//! It is logged when a network is opened.

mod check;
mod fused;
mod half;
mod head;
mod inputs;
mod memory;
mod pack;
mod params;
mod rows;
mod slots;
mod stage;
mod staging;
mod weights;

use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut};

use self::{
    fused::Fused,
    inputs::Inputs,
    memory::DeviceStates,
    pack::Packed,
    rows::{RowBuffers, uniform_stride},
    stage::Stage,
    staging::GpuPacker,
    weights::DeviceWeights,
};
use super::{
    call,
    plan::{Forward, Network, Outcome, PackedWeights, Packer, Plan, States},
};
use crate::{
    error::Error,
    gpu::{Gpu, Kernel, Readback, Upload},
};

pub use fused::Form;
#[doc(hidden)]
pub use params::{Layout, layouts};
#[doc(hidden)]
pub use slots::{Slot, slots};

/// A network on a GPU. Its memory grows to the most rows it has acted for and stays.
pub struct GpuNetwork {
    gpu: Arc<Gpu>,
    plan: Plan,
    inputs: Inputs,
    packer: GpuPacker,
    stages: Vec<Stage>,
    /// None where the host acts, with what it needs for that.
    head: Option<Kernel>,
    host: head::Host,
    weights: DeviceWeights,
    states: DeviceStates,
    /// What the head has of its own.
    log_std: Vec<f32>,
    rows: Option<RowBuffers>,
    packed: Packed,
    /// The uniforms that the device holds: they seldom differ from the last ones'.
    uniforms: Vec<u8>,
    upload: Upload,
    readback: Readback,
}

impl GpuNetwork {
    /// Compiles the kernels of `plan` on `gpu`; [`Network::load`] comes next.
    ///
    /// # Errors
    /// [`Error::Network`] if the plan contradicts itself; [`Error::Gpu`] if the adapter cannot hold the weights.
    pub fn new(gpu: Arc<Gpu>, plan: Plan) -> Result<Self, Error> {
        plan.check()?;
        let (fused, inputs) = (Fused::of(&gpu, &plan), Inputs::of(&plan));
        let stages = match &fused {
            Some(fused) => vec![Stage::fused(&gpu, fused)?],
            None => Stage::all(&gpu, &plan, &inputs)?,
        };
        let head = head::kernel(&gpu, &plan.head)?;
        let host = head::Host::new(&plan.head);
        let weights = DeviceWeights::new(&gpu, &plan, fused.as_ref())?;
        let states = DeviceStates::new(&gpu, plan.state(), plan.head.state())?;
        let packer = GpuPacker::new(gpu.clone(), plan.clone(), fused, weights.tensors().clone());
        let form = packer.form();
        let (adapter, half, subgroups) = (gpu.adapter(), gpu.config().half, gpu.subgroups());
        tracing::info!(%adapter, %form, half, subgroups, "network on a GPU");
        Ok(Self {
            gpu,
            plan,
            inputs,
            packer,
            stages,
            head,
            host,
            weights,
            states,
            log_std: Vec::new(),
            rows: None,
            packed: Packed::default(),
            uniforms: Vec::new(),
            upload: Upload::default(),
            readback: Readback::default(),
        })
    }

    /// The device it runs on.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// How its layers run: by the adapter's kind and limits and [`GpuConfig::weights`](crate::gpu::GpuConfig::weights).
    pub fn form(&self) -> Form {
        self.packer.form()
    }

    /// Rows it has memory for; 0 before the first forward.
    pub fn capacity(&self) -> usize {
        self.rows.as_ref().map_or(0, |rows| rows.capacity)
    }

    fn reserve(&mut self, rows: usize, places: usize) -> Result<(), Error> {
        let Self { gpu, plan, inputs, stages, head, weights, states, .. } = self;
        let moved = states.reserve(gpu, places)?;
        let capacity = self.rows.as_ref().map_or(0, |rows| rows.capacity);
        if rows > capacity || (moved && capacity > 0) {
            // The smaller ones go first: both need not fit.
            (self.rows, self.uniforms) = (None, Vec::new());
            let mut buffers = RowBuffers::new(gpu, (plan, inputs), stages.len() + 1, rows.max(capacity))?;
            buffers.bind(gpu, plan, (stages, head.as_ref()), weights, states)?;
            self.rows = Some(buffers);
        }
        Ok(())
    }

    /// Records new weights, upload, layers, head and readback of one forward.
    fn record(
        &self,
        buffers: &RowBuffers,
        rows: usize,
        from: &wgpu::Buffer,
        sent: &[(u64, &wgpu::Buffer)],
        to: &wgpu::Buffer,
        brought: &[(u64, &wgpu::Buffer)],
    ) -> Result<wgpu::CommandBuffer, Error> {
        let mut encoder = self.gpu.device().create_command_encoder(&Default::default());
        self.weights.record(&mut encoder);
        let mut at = 0;
        for (size, buffer) in sent.iter().filter(|(size, _)| *size > 0) {
            encoder.copy_buffer_to_buffer(from, at, buffer, 0, *size);
            at += size;
        }
        let mut pass = encoder.begin_compute_pass(&Default::default());
        // The head's thread takes a row.
        let stages = self.stages.iter().map(|stage| (&stage.kernel, stage.items(rows)));
        let head = self.head.iter().map(|head| (head, rows as u64));
        for ((kernel, items), bindings) in stages.chain(head).zip(&buffers.bindings) {
            kernel.dispatch(&mut pass, bindings, items)?;
        }
        drop(pass);
        at = 0;
        for (size, buffer) in brought.iter().filter(|(size, _)| *size > 0) {
            encoder.copy_buffer_to_buffer(buffer, 0, to, at, *size);
            at += size;
        }
        Ok(encoder.finish())
    }
}

impl Network for GpuNetwork {
    fn packer(&self) -> Arc<dyn Packer> {
        Arc::new(self.packer.clone())
    }

    fn adopt(&mut self, packed: &PackedWeights) -> Result<(), Error> {
        self.gpu.check()?;
        self.log_std = self.weights.adopt(&self.packer, packed)?;
        Ok(())
    }

    fn forward(&mut self, input: &Forward<'_>, out: &mut Outcome<'_>) -> Result<(), Error> {
        self.gpu.check()?;
        call::check(&self.plan, input, out)?;
        if !self.weights.loaded() {
            return Err(Error::State { call: "forward", problem: "no weights; call load first".into() });
        }
        let rows = input.keys.len();
        if rows == 0 {
            return Ok(());
        }
        self.reserve(rows, input.memory.map_or(0, |memory| memory.needed()))?;
        self.packed.pack((&self.plan, &self.stages), &self.log_std, input, uniform_stride(&self.gpu) as usize);
        let Some(buffers) = &self.rows else { return Ok(()) };
        let Packed { uniforms, inputs, draws, masks, memory, words } = &mut self.packed;
        let inputs = self.inputs.pack(input.inputs, inputs);
        let held = std::mem::take(&mut self.uniforms);
        let uniforms = if held == *uniforms { &[][..] } else { &uniforms[..] };
        let parts: [&[u8]; 6] = [uniforms, inputs, cast_slice(draws), masks, cast_slice(memory), cast_slice(words)];
        let devices =
            [&buffers.uniforms, &buffers.inputs, &buffers.draws, &buffers.masks, &buffers.memory, &buffers.words];
        let sent: [_; 6] = std::array::from_fn(|i| (parts[i].len() as u64, devices[i]));
        let words = |len: usize| len as u64 * 4;
        let brought = [
            (words(out.params.len()), &buffers.params),
            (words(rows * head::action_words(&self.plan.head)), &buffers.actions),
            (words(if self.head.is_some() { rows } else { 0 }), &buffers.log_probs),
            (words(if self.plan.value { rows } else { 0 }), &buffers.value),
        ];
        let from = self.upload.fill(&self.gpu, "policy upload", &parts)?;
        let to = self.readback.reserve(&self.gpu, "policy readback", brought.iter().map(|(size, _)| size).sum())?;
        let commands = self.record(buffers, rows, &from, &sent, &to, &brought)?;
        let mut staging = self.weights.submit();
        let mut none = Upload::default();
        let uploads = &mut [&mut self.upload, staging.as_mut().unwrap_or(&mut none)];
        let dispatches = (self.stages.len() + self.head.iter().count()) as u64;
        self.gpu.run(commands, dispatches, uploads, Some(&mut self.readback))?;
        if let Some(staging) = staging {
            self.packer.give_back(staging);
        }
        self.uniforms = held;
        self.uniforms.clone_from(&self.packed.uniforms);
        out.values.fill(0.0);
        self.readback.read(|bytes| {
            let targets: [&mut [u8]; 4] =
                [cast_slice_mut(out.params), out.actions, cast_slice_mut(out.log_probs), cast_slice_mut(out.values)];
            let mut at = 0;
            for (target, (size, _)) in targets.into_iter().zip(brought) {
                let size = size as usize;
                copy_rows(rows, &bytes[at..at + size], target);
                at += size;
            }
        })?;
        self.host.act(&self.plan.head, &self.log_std, input, out);
        self.plan.head.entropies(&self.log_std, input, out);
        Ok(())
    }

    fn push_states(&mut self, states: &States) -> Result<(), Error> {
        self.gpu.check()?;
        check::states(&self.plan, states)?;
        self.reserve(0, states.len())?;
        self.states.push(&self.gpu, states)
    }

    fn pull_states(&mut self, states: &States) -> Result<(), Error> {
        self.gpu.check()?;
        check::states(&self.plan, states)?;
        self.states.pull(&self.gpu, states)
    }
}

/// Copies rows that may be padded to whole words; nothing if nothing came.
fn copy_rows(rows: usize, from: &[u8], to: &mut [u8]) {
    let (stride, width) = (from.len() / rows, to.len() / rows);
    if stride == width {
        return to.copy_from_slice(from);
    }
    for (to, from) in to.chunks_exact_mut(width).zip(from.chunks_exact(stride.max(1))) {
        to.copy_from_slice(&from[..width]);
    }
}
