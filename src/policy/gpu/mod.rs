//! A network as compute shaders: weights stay in device memory, all layers and the head run in one submit.

mod check;
mod pack;
mod params;
mod rows;
mod weights;

use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut};

use self::{
    pack::Packed,
    rows::{RowBuffers, uniform_stride},
    weights::DeviceWeights,
};
use super::plan::{Activation, Forward, Head, Kind, Network, Outcome, Plan};
use crate::{
    components::Weights,
    error::Error,
    gpu::{Gpu, Kernel, Readback, Upload},
};

#[doc(hidden)]
pub use params::{Layout, layouts};

/// A network on a GPU. Its memory grows to the most rows it has acted for and stays.
pub struct GpuNetwork {
    gpu: Arc<Gpu>,
    plan: Plan,
    /// One a layer, the head's last.
    kernels: Vec<Kernel>,
    weights: DeviceWeights,
    rows: Option<RowBuffers>,
    packed: Packed,
    upload: Upload,
    readback: Readback,
}

impl GpuNetwork {
    /// Compiles the kernels of `plan` on `gpu`; [`Network::load`] comes next.
    ///
    /// # Errors
    /// [`Error::Network`] if the plan contradicts itself; [`Error::Gpu`] if the adapter cannot hold the weights.
    pub fn new(gpu: Arc<Gpu>, plan: Plan) -> Result<Self, Error> {
        check::plan(&plan)?;
        let mut kernels: Vec<Kernel> = Vec::new();
        for (i, layer) in plan.layers.iter().enumerate() {
            let Kind::Linear { activation } = layer.kind else {
                return Err(Error::Network {
                    field: format!("layer {}", layer.name),
                    value: format!("{:?}", layer.kind),
                    legal: "linear layers on the GPU".into(),
                });
            };
            let same = plan.layers[..i].iter().position(|other| other.kind == layer.kind);
            kernels.push(match same {
                Some(same) => kernels[same].clone(),
                None => Kernel::new(&gpu, "linear", &[("activation", constant(activation))])?,
            });
        }
        let head = match plan.head {
            Head::Categorical { .. } => "categorical",
            Head::Gaussian { .. } => "gaussian",
        };
        kernels.push(Kernel::new(&gpu, head, &[])?);
        let weights = DeviceWeights::new(&gpu, &plan)?;
        let (upload, readback) = (Upload::default(), Readback::default());
        Ok(Self { gpu, plan, kernels, weights, rows: None, packed: Packed::default(), upload, readback })
    }

    /// The device it runs on.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Rows it has memory for; 0 before the first forward.
    pub fn capacity(&self) -> usize {
        self.rows.as_ref().map_or(0, |rows| rows.capacity)
    }

    fn reserve(&mut self, rows: usize) -> Result<(), Error> {
        if rows > self.capacity() {
            // The smaller ones go first: both need not fit.
            self.rows = None;
            self.rows = Some(RowBuffers::new(&self.gpu, &self.plan, &self.kernels, &self.weights, rows)?);
        }
        Ok(())
    }

    /// Records upload, layers, head and readback of one forward.
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
        let mut at = 0;
        for (size, buffer) in sent.iter().filter(|(size, _)| *size > 0) {
            encoder.copy_buffer_to_buffer(from, at, buffer, 0, *size);
            at += size;
        }
        let mut pass = encoder.begin_compute_pass(&Default::default());
        // A layer's thread takes 4 rows and 4 outputs, the head's a row.
        let tiles = |outputs: usize| rows.div_ceil(4) as u64 * outputs.div_ceil(4) as u64;
        let items = self.plan.layers.iter().map(|layer| tiles(layer.outputs)).chain([rows as u64]);
        for ((kernel, bindings), items) in self.kernels.iter().zip(&buffers.bindings).zip(items) {
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

/// The value of `activation` in `shaders/linear.wgsl`.
fn constant(activation: Activation) -> f64 {
    match activation {
        Activation::Identity => 0.0,
        Activation::Tanh => 1.0,
        Activation::Relu => 2.0,
        Activation::Silu => 3.0,
        Activation::Gelu => 4.0,
    }
}

impl Network for GpuNetwork {
    fn load(&mut self, weights: &Weights) -> Result<(), Error> {
        self.gpu.check()?;
        weights.check(&self.plan.tensors())?;
        self.weights.load(&self.gpu, weights)
    }

    fn forward(&mut self, input: &Forward<'_>, out: &mut Outcome<'_>) -> Result<(), Error> {
        self.gpu.check()?;
        check::call(&self.plan, input, out)?;
        if !self.weights.loaded() {
            return Err(Error::State { call: "forward", problem: "no weights; call load first".into() });
        }
        let rows = input.keys.len();
        if rows == 0 {
            return Ok(());
        }
        self.reserve(rows)?;
        self.packed.pack(&self.plan, input, uniform_stride(&self.gpu) as usize);
        let Some(buffers) = &self.rows else { return Ok(()) };
        let parts: [&[u8]; 4] =
            [&self.packed.uniforms, cast_slice(input.inputs), cast_slice(&self.packed.draws), &self.packed.masks];
        let devices = [&buffers.uniforms, &buffers.inputs, &buffers.draws, &buffers.masks];
        let sent: [_; 4] = std::array::from_fn(|i| (parts[i].len() as u64, devices[i]));
        let words = |len: usize| len as u64 * 4;
        let brought = [
            (words(out.params.len()), &buffers.params),
            (words(out.actions.len()), &buffers.actions),
            (words(out.log_probs.len()), &buffers.log_probs),
            (words(if self.plan.value { rows } else { 0 }), &buffers.value),
        ];
        let from = self.upload.fill(&self.gpu, "policy upload", &parts)?;
        let to = self.readback.reserve(&self.gpu, "policy readback", brought.iter().map(|(size, _)| size).sum())?;
        let commands = self.record(buffers, rows, &from, &sent, &to, &brought)?;
        self.gpu.run(commands, self.kernels.len() as u64, &mut [&mut self.upload], Some(&mut self.readback))?;
        out.values.fill(0.0);
        self.readback.read(|bytes| {
            let targets: [&mut [u8]; 4] = [
                cast_slice_mut(out.params),
                cast_slice_mut(out.actions),
                cast_slice_mut(out.log_probs),
                cast_slice_mut(out.values),
            ];
            let mut at = 0;
            for (target, (size, _)) in targets.into_iter().zip(brought) {
                let size = size as usize;
                target[..size].copy_from_slice(&bytes[at..at + size]);
                at += size;
            }
        })
    }
}
