//! Weights in device memory: one buffer, a tensor at each aligned offset; or one buffer as the fused kernel reads it.

use std::{borrow::Cow, ops::Range};

use super::{
    fused::{Form, Fused, NETWORK_SIZE},
    half,
};
use crate::{
    components::{TensorSpec, Weights},
    error::Error,
    gpu::{Gpu, Upload},
    policy::plan::Plan,
};

pub(super) struct DeviceWeights {
    /// All weights of a fused network, else the tensors.
    buffer: wgpu::Buffer,
    /// Empty for a fused network.
    tensors: Vec<(String, Range<u64>)>,
    upload: Upload,
    /// Whether a whole set has arrived.
    loaded: bool,
}

impl DeviceWeights {
    pub(super) fn new(gpu: &Gpu, plan: &Plan, fused: Option<&Fused>) -> Result<Self, Error> {
        use wgpu::BufferUsages as Usage;
        let (mut tensors, mut end) = (Vec::new(), 0);
        if fused.is_none() {
            let alignment = u64::from(gpu.limits().min_storage_buffer_offset_alignment).max(4);
            for spec in plan.tensors() {
                let size = size(&spec, gpu.config().half);
                gpu.check_size(&spec.name, size, Usage::STORAGE)?;
                tensors.push((spec.name, end..end + size));
                end = (end + size).next_multiple_of(alignment);
            }
        }
        let buffer = match fused.map(|fused| fused.form) {
            // Bound part by part, so the whole may be larger than a binding.
            None => gpu.create_buffer("weights", end, Usage::STORAGE | Usage::COPY_DST, false)?,
            Some(Form::Uniform) => gpu.buffer("fused weights", NETWORK_SIZE, Usage::UNIFORM | Usage::COPY_DST)?,
            Some(_) => gpu.buffer("fused weights", NETWORK_SIZE, Usage::STORAGE | Usage::COPY_DST)?,
        };
        Ok(Self { buffer, tensors, upload: Upload::default(), loaded: false })
    }

    /// Copies a checked set over the old one. The caller has waited for every forward, so no kernel reads meanwhile.
    pub(super) fn load(
        &mut self,
        gpu: &Gpu,
        (plan, fused): (&Plan, Option<&Fused>),
        weights: &Weights,
    ) -> Result<(), Error> {
        let half = gpu.config().half;
        let part = |name: &str| -> Result<Cow<'_, [u8]>, Error> {
            let data = weights.get(name).map_or(&[][..], |tensor| &tensor.data);
            Ok(if half { half::pack(name, data)?.into() } else { bytemuck::cast_slice(data).into() })
        };
        let parts: Vec<Cow<'_, [u8]>> = match fused {
            Some(fused) => vec![fused.pack(plan, weights)?.into()],
            None => self.tensors.iter().map(|(name, _)| part(name)).collect::<Result<_, _>>()?,
        };
        let slices: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        let from = self.upload.fill(gpu, "weights upload", &slices)?;
        self.loaded = false;
        let mut encoder = gpu.device().create_command_encoder(&Default::default());
        let mut at = 0;
        let starts = self.tensors.iter().map(|(_, range)| range.start).chain(fused.map(|_| 0));
        for (start, part) in starts.zip(&parts) {
            let size = part.len() as u64;
            if size > 0 {
                encoder.copy_buffer_to_buffer(&from, at, &self.buffer, start, size);
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

    /// All weights of a fused network.
    pub(super) fn network(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    /// The binding of the tensor called `name`, which is one of the plan's.
    pub(super) fn binding(&self, name: &str) -> Result<wgpu::BufferBinding<'_>, Error> {
        let found = self.tensors.iter().find(|(own, _)| own == name);
        let (_, range) = found.ok_or_else(|| Error::Tensor { name: name.into(), problem: "not in the plan".into() })?;
        let size = wgpu::BufferSize::new(range.end - range.start);
        Ok(wgpu::BufferBinding { buffer: &self.buffer, offset: range.start, size })
    }
}

/// Bytes of a tensor: whole words, at least one.
fn size(spec: &TensorSpec, half: bool) -> u64 {
    let elements = spec.shape.iter().product::<usize>() as u64;
    if half { elements.div_ceil(2).max(1) * 4 } else { elements.max(1) * 4 }
}
