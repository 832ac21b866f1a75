//! Weights in device memory: one buffer, a tensor at each aligned offset; of a fused network a second one.

use std::ops::Range;

use super::fused::{Fused, NETWORK_SIZE};
use crate::{
    components::Weights,
    error::Error,
    gpu::{Gpu, Upload},
    policy::plan::Plan,
};

pub(super) struct DeviceWeights {
    buffer: wgpu::Buffer,
    tensors: Vec<(String, Range<u64>)>,
    /// All weights once more, as the fused kernel reads them; a word without one.
    network: wgpu::Buffer,
    upload: Upload,
    /// Whether a whole set has arrived.
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
        Ok(Self { buffer, tensors, network, upload: Upload::default(), loaded: false })
    }

    /// Copies a checked set over the old one. The caller has waited for every forward, so no kernel reads meanwhile.
    pub(super) fn load(
        &mut self,
        gpu: &Gpu,
        (plan, fused): (&Plan, Option<&Fused>),
        weights: &Weights,
    ) -> Result<(), Error> {
        let data = |name: &str| weights.get(name).map_or(&[][..], |tensor| &tensor.data);
        let mut parts: Vec<&[u8]> = self.tensors.iter().map(|(name, _)| bytemuck::cast_slice(data(name))).collect();
        let network = fused.map(|fused| fused.pack(plan, weights));
        parts.extend(network.as_deref());
        let from = self.upload.fill(gpu, "weights upload", &parts)?;
        self.loaded = false;
        let mut encoder = gpu.device().create_command_encoder(&Default::default());
        let mut at = 0;
        let tensors = self.tensors.iter().map(|(_, range)| (&self.buffer, range.start));
        for ((to, start), part) in tensors.chain([(&self.network, 0)]).zip(&parts) {
            let size = part.len() as u64;
            if size > 0 {
                encoder.copy_buffer_to_buffer(&from, at, to, start, size);
                at += size;
            }
        }
        gpu.run(encoder.finish(), 0, &mut [&mut self.upload], None)?;
        self.loaded = true;
        Ok(())
    }

    pub(super) fn loaded(&self) -> bool {
        self.loaded
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
