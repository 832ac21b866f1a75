//! Weights in device memory: one buffer, a tensor at each aligned offset; or one buffer as the fused kernel reads it.

use std::{borrow::Cow, ops::Range, sync::Arc};

use super::{
    fused::{Form, Fused, NETWORK_SIZE},
    half,
    staging::{GpuPacker, Staging},
};
use crate::{
    components::Weights,
    error::Error,
    gpu::{Gpu, Upload},
    policy::plan::{Kind, Operation, PackedWeights, Plan},
};

pub(super) struct DeviceWeights {
    /// All weights of a fused network, else the tensors.
    buffer: wgpu::Buffer,
    /// Empty for a fused network.
    tensors: Arc<[Part]>,
    /// What the next forward copies.
    staging: Option<Staging>,
    /// Whether a whole set was submitted.
    loaded: bool,
}

/// A tensor in the buffer.
pub(super) struct Part {
    name: String,
    range: Range<u64>,
    /// Of the weight of a linear layer its inputs: it lies by inputs, outputs padded to whole quadruples.
    inputs: Option<usize>,
}

impl Part {
    /// What is sent.
    pub(super) fn bytes<'a>(&self, weights: &'a Weights, half: bool) -> Result<Cow<'a, [u8]>, Error> {
        let data = weights.get(&self.name).map_or(&[][..], |tensor| &tensor.data);
        if half {
            half::check(&self.name, data)?;
        }
        let turned = self.inputs.map(|inputs| by_inputs(data, inputs));
        Ok(match turned {
            Some(turned) if half => half::pack(&turned).into(),
            Some(turned) => bytemuck::cast_slice(&turned).to_vec().into(),
            None if half => half::pack(data).into(),
            None => bytemuck::cast_slice(data).into(),
        })
    }
}

impl DeviceWeights {
    pub(super) fn new(gpu: &Gpu, plan: &Plan, fused: Option<&Fused>) -> Result<Self, Error> {
        use wgpu::BufferUsages as Usage;
        let (mut tensors, mut end) = (Vec::new(), 0);
        if fused.is_none() {
            let alignment = u64::from(gpu.limits().min_storage_buffer_offset_alignment).max(16);
            for (operation, (part, shape)) in parts(plan) {
                let name = format!("{}.{part}", operation.name);
                let inputs =
                    (matches!(operation.kind, Kind::Linear { .. }) && part == "weight").then_some(operation.inputs);
                let size = size(&shape, inputs, gpu.config().half);
                gpu.check_size(&name, size, Usage::STORAGE)?;
                tensors.push(Part { name, range: end..end + size, inputs });
                end = (end + size).next_multiple_of(alignment);
            }
        }
        let buffer = match fused.map(|fused| fused.form) {
            // Bound part by part, so the whole may be larger than a binding.
            None => gpu.create_buffer("weights", end, Usage::STORAGE | Usage::COPY_DST, false)?,
            Some(Form::Uniform) => gpu.buffer("fused weights", NETWORK_SIZE, Usage::UNIFORM | Usage::COPY_DST)?,
            Some(_) => gpu.buffer("fused weights", NETWORK_SIZE, Usage::STORAGE | Usage::COPY_DST)?,
        };
        Ok(Self { buffer, tensors: tensors.into(), staging: None, loaded: false })
    }

    /// Takes over what `packer` packed: it replaces the old set in front of the next forward. Gives what the head has of
    /// its own.
    pub(super) fn adopt(&mut self, packer: &GpuPacker, packed: &PackedWeights) -> Result<Vec<f32>, Error> {
        let (staging, log_std) = packer.take(packed)?;
        self.staging = Some(staging);
        Ok(log_std)
    }

    /// Records the copies of what was adopted since the last forward.
    pub(super) fn record(&self, encoder: &mut wgpu::CommandEncoder) {
        let Some(Staging { buffer, sizes, .. }) = &self.staging else { return };
        let mut at = 0;
        // The one part of a fused network begins where the buffer does.
        let starts = self.tensors.iter().map(|part| part.range.start).chain([0]);
        for (start, size) in starts.zip(sizes).filter(|(_, size)| **size > 0) {
            encoder.copy_buffer_to_buffer(buffer, at, &self.buffer, start, *size);
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

    pub(super) fn tensors(&self) -> &Arc<[Part]> {
        &self.tensors
    }

    /// All weights of a fused network.
    pub(super) fn network(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    /// The binding of the tensor called `name`, which is one of the plan's.
    pub(super) fn binding(&self, name: &str) -> Result<wgpu::BufferBinding<'_>, Error> {
        let found = self.tensors.iter().find(|part| part.name == name);
        let Part { range, .. } =
            found.ok_or_else(|| Error::Tensor { name: name.into(), problem: "not in the plan".into() })?;
        let size = wgpu::BufferSize::new(range.end - range.start);
        Ok(wgpu::BufferBinding { buffer: &self.buffer, offset: range.start, size })
    }
}

/// Operations with their tensors, a pair a tensor.
fn parts(plan: &Plan) -> impl Iterator<Item = (&Operation, (&'static str, Vec<usize>))> {
    plan.layers.iter().flat_map(|operation| operation.tensors().into_iter().map(move |part| (operation, part)))
}

/// Bytes of a tensor: whole quadruples of words, at least one.
fn size(shape: &[usize], inputs: Option<usize>, half: bool) -> u64 {
    let outputs = shape.first().map_or(1, |outputs| outputs.next_multiple_of(4));
    let elements = inputs.map_or(shape.iter().product(), |inputs| inputs.saturating_mul(outputs)) as u64;
    elements.saturating_mul(if half { 2 } else { 4 }).max(1).next_multiple_of(16)
}

/// A matrix `[outputs, inputs]` as `[inputs, outputs]`, outputs padded with zeros to whole quadruples.
fn by_inputs(data: &[f32], inputs: usize) -> Vec<f32> {
    /// Outputs that are written together: a cache line of them.
    const LINE: usize = 16;
    let padded = (data.len() / inputs).next_multiple_of(4);
    let mut turned = vec![0.0; inputs * padded];
    for (block, rows) in data.chunks(inputs * LINE).enumerate() {
        for (k, to) in turned.chunks_exact_mut(padded).enumerate() {
            let column = rows.iter().skip(k).step_by(inputs);
            to[block * LINE..].iter_mut().zip(column).for_each(|(to, x)| *to = *x);
        }
    }
    turned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_turned_and_padded() {
        assert_eq!(by_inputs(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2), [1.0, 3.0, 5.0, 0.0, 2.0, 4.0, 6.0, 0.0]);
        let (inputs, outputs) = (5, 38);
        let data: Vec<f32> = (0..inputs * outputs).map(|i| i as f32).collect();
        let turned = by_inputs(&data, inputs);
        assert_eq!(turned.len(), inputs * 40);
        for (o, k) in (0..outputs).flat_map(|o| (0..inputs).map(move |k| (o, k))) {
            assert_eq!(turned[k * 40 + o], data[o * inputs + k]);
        }
    }

    #[test]
    fn sizes_are_whole_quadruples() {
        let sizes = |shape: &[usize], inputs| [false, true].map(|half| size(shape, inputs, half));
        assert_eq!(sizes(&[3, 5], None), [64, 32]);
        assert_eq!(sizes(&[3, 5], Some(5)), [80, 48]);
        assert_eq!(sizes(&[0], None), [16, 16]);
    }
}
