//! Weights in device memory: one buffer, a tensor at each aligned offset; of a fused network a second one.

use std::ops::Range;

use super::{
    fused::NETWORK_SIZE,
    staging::{GpuPacker, Staging},
};
use crate::{
    error::Error,
    gpu::{Gpu, Upload},
    policy::plan::{PackedWeights, Plan},
};

/// Tensors and where they are in device memory.
pub(super) type Tensors = Vec<(String, Range<u64>)>;

pub(super) struct DeviceWeights {
    buffer: wgpu::Buffer,
    tensors: Tensors,
    /// All weights once more, as the fused kernel reads them; a word without one.
    network: wgpu::Buffer,
    /// What the next forward copies.
    staging: Option<Staging>,
    /// Whether a whole set was submitted.
    loaded: bool,
}

impl DeviceWeights {
    pub(super) fn new(gpu: &Gpu, plan: &Plan, fused: bool) -> Result<Self, Error> {
        let alignment = u64::from(gpu.limits().min_storage_buffer_offset_alignment).max(4);
        let (mut tensors, mut end) = (Vec::new(), 0);
        for spec in plan.tensors() {
            let size = (spec.shape.iter().product::<usize>() * 4).max(4) as u64;
            gpu.check_size(&spec.name, size, wgpu::BufferUsages::STORAGE)?;
            tensors.push((spec.name, end..end + size));
            end = (end + size).next_multiple_of(alignment);
        }
        // Bound part by part, so the whole may be larger than a binding.
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
        let buffer = gpu.create_buffer("weights", end, usage, false)?;
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let network = gpu.buffer("fused weights", if fused { NETWORK_SIZE } else { 0 }, usage)?;
        Ok(Self { buffer, tensors, network, staging: None, loaded: false })
    }

    /// Takes over what `packer` packed: it replaces the old set in front of the next forward. Gives the tensor `log_std`.
    pub(super) fn adopt(&mut self, packer: &GpuPacker, packed: &PackedWeights) -> Result<Vec<f32>, Error> {
        let (staging, log_std) = packer.take(packed)?;
        self.staging = Some(staging);
        Ok(log_std)
    }

    /// Records the copies of what was adopted since the last forward.
    pub(super) fn record(&self, encoder: &mut wgpu::CommandEncoder) {
        let Some(Staging { buffer, sizes, .. }) = &self.staging else { return };
        let mut at = 0;
        let tensors = self.tensors.iter().map(|(_, range)| (&self.buffer, range.start));
        for ((to, start), size) in tensors.chain([(&self.network, 0)]).zip(sizes).filter(|(_, size)| **size > 0) {
            encoder.copy_buffer_to_buffer(buffer, at, to, start, *size);
            at += size;
        }
    }

    /// The staging memory that the recorded copies read, to be submitted with them.
    pub(super) fn submit(&mut self) -> Option<Upload> {
        self.loaded = self.loaded();
        self.staging.take().map(|staging| staging.upload)
    }

    pub(super) fn loaded(&self) -> bool {
        self.loaded || self.staging.is_some()
    }

    pub(super) fn tensors(&self) -> &Tensors {
        &self.tensors
    }

    pub(super) fn network(&self) -> &wgpu::Buffer {
        &self.network
    }

    /// The binding of the tensor called `name`, which is one of the plan's.
    pub(super) fn binding(&self, name: &str) -> Result<wgpu::BufferBinding<'_>, Error> {
        let found = self.tensors.iter().find(|(own, _)| own == name);
        let (_, range) = found.ok_or_else(|| Error::Tensor { name: name.into(), problem: "not in the plan".into() })?;
        let size = wgpu::BufferSize::new(range.end - range.start);
        Ok(wgpu::BufferBinding { buffer: &self.buffer, offset: range.start, size })
    }
}
