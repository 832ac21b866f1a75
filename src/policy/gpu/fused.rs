//! Small networks of linear layers in one dispatch: what fits, where the weights are read from, and how they lie.
//!
//! On hardware each workgroup fetches the weights into workgroup memory, once for its 64 rows, if the adapter has
//! enough of it: 4-64-64-2 takes 20,000 bytes (18.4 KB and padding), above WebGPU's default of 16 KiB, so the adapter's
//! own limit is requested. Otherwise, and on software adapters, they are in uniform memory, since all threads read the
//! same weight at the same time: on lavapipe the network 4-64-64-2 runs ten times as fast as with its weights in
//! workgroup memory, where each thread of a vector loads for itself. A network that is too large for either runs layer by layer.

use std::fmt;

use bytemuck::bytes_of;

use super::{
    half,
    params::{FusedLayer, FusedParams},
};
use crate::{
    components::Weights,
    error::Error,
    gpu::{AdapterKind, Gpu, WeightMemory},
    policy::plan::{Activation, Kind, Operation, Place, Plan},
};

/// Layers, quadruples of words of weights, and words of a row's memory that the shader has room for.
pub(super) const LAYERS: usize = 16;
const FOURS: usize = 4064;
const MEMORY: usize = 320;
/// Outputs that a thread computes together.
const TILE: usize = 8;

/// Bytes of the shader's `FusedNetwork`: what every adapter allows in one uniform binding.
pub(super) const NETWORK_SIZE: u64 = (LAYERS * size_of::<FusedLayer>() + FOURS * 16) as u64;

/// How the layers of a network run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A dispatch a layer, weights in storage.
    Layers,
    /// One dispatch, weights in uniform memory.
    Uniform,
    /// One dispatch, weights fetched into workgroup memory.
    Workgroup,
}

impl Form {
    /// The form of a network that fits into one dispatch and has so many bytes of weights.
    fn choose(memory: WeightMemory, kind: AdapterKind, limits: &wgpu::Limits, bytes: u64) -> Self {
        let workgroup = match memory {
            WeightMemory::Auto => kind.is_hardware(),
            WeightMemory::Workgroup => true,
            WeightMemory::Uniform => false,
        };
        if workgroup && bytes <= u64::from(limits.max_compute_workgroup_storage_size) {
            Self::Workgroup
        } else if limits.max_uniform_buffer_binding_size >= NETWORK_SIZE {
            Self::Uniform
        } else {
            Self::Layers
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Layers => "a dispatch a layer, weights in storage",
            Self::Uniform => "one dispatch, weights in uniform memory",
            Self::Workgroup => "one dispatch, weights in workgroup memory",
        })
    }
}

/// A network that fits.
pub(super) struct Fused {
    pub(super) params: FusedParams,
    /// The one that follows some of the layers.
    pub(super) activation: Activation,
    pub(super) form: Form,
    /// Quadruples of words that its weights take.
    pub(super) fours: usize,
    half: bool,
    layers: Vec<FusedLayer>,
}

impl Fused {
    /// The fused form of `plan` if it has one: linear layers, few and narrow, with one kind of activation.
    pub(super) fn of(gpu: &Gpu, plan: &Plan) -> Option<Self> {
        let (activation, layers, tiles) = layers(plan)?;
        let (value, value_width) = (place(plan, Place::Value), usize::from(plan.value));
        let half = gpu.config().half;
        let fours = if half { tiles } else { tiles.saturating_mul(2) };
        let room = layers.len() <= LAYERS && fours <= FOURS && value + TILE * tiles_of(value_width) <= MEMORY;
        let bytes = fours.saturating_mul(16) as u64;
        let form = Form::choose(gpu.config().weights, gpu.adapter().kind, gpu.limits(), bytes);
        let params = FusedParams {
            rows: 0,
            layers: layers.len() as u32,
            inputs: plan.inputs as u32,
            params: place(plan, Place::Params) as u32,
            params_width: plan.head.params() as u32,
            value: value as u32,
            value_width: value_width as u32,
        };
        (room && form != Form::Layers).then_some(Self { params, activation, form, fours, half, layers })
    }

    /// The used part of the shader's `FusedNetwork` with a checked set of weights. Errors: [`Error::Tensor`] if one is
    /// too large for a half.
    pub(super) fn pack(&self, plan: &Plan, weights: &Weights) -> Result<Vec<u8>, Error> {
        let mut network = vec![0; LAYERS * size_of::<FusedLayer>() + self.fours * 16];
        let (table, words) = network.split_at_mut(LAYERS * size_of::<FusedLayer>());
        let entries = table.chunks_exact_mut(size_of::<FusedLayer>());
        for ((layer, operation), entry) in self.layers.iter().zip(&plan.layers).zip(entries) {
            entry.copy_from_slice(bytes_of(layer));
            let mut put = |row: usize, output: usize, x: f32| {
                let at = (layer.first as usize + row * layer.tiles as usize) * TILE + output;
                if self.half {
                    words[at * 2..][..2].copy_from_slice(&half::bits(x).to_ne_bytes());
                } else {
                    words[at * 4..][..4].copy_from_slice(bytes_of(&x));
                }
            };
            let data = |part: &str| -> Result<&[f32], Error> {
                let name = format!("{}.{part}", operation.name);
                let data = weights.get(&name).map_or(&[][..], |own| &own.data);
                if self.half { half::check(&name, data).map(|()| data) } else { Ok(data) }
            };
            for (output, x) in data("bias")?.iter().enumerate() {
                put(0, output, *x);
            }
            for (output, weight) in data("weight")?.chunks_exact(operation.inputs).enumerate() {
                weight.iter().enumerate().for_each(|(input, x)| put(input + 1, output, *x));
            }
        }
        Ok(network)
    }
}

/// The one activation, the table of layers, and the tiles of all weights; none if another kind of layer is there.
fn layers(plan: &Plan) -> Option<(Activation, Vec<FusedLayer>, usize)> {
    let (mut fused, mut first) = (Activation::Identity, 0_usize);
    let mut layers = Vec::new();
    for Operation { kind, from, start, inputs, to, outputs, .. } in &plan.layers {
        let Kind::Linear { activation } = *kind else { return None };
        let activated = activation != Activation::Identity;
        if activated && ![activation, Activation::Identity].contains(&fused) {
            return None;
        }
        fused = if activated { activation } else { fused };
        layers.push(FusedLayer {
            start: (place(plan, *from) + start) as u32,
            to_: place(plan, *to) as u32,
            inputs: *inputs as u32,
            tiles: tiles_of(*outputs) as u32,
            first: first as u32,
            activated: u32::from(activated),
            padding: [0; 2],
        });
        first = tiles_of(*outputs).saturating_mul(inputs + 1).saturating_add(first);
    }
    Some((fused, layers, first))
}

/// Where a matrix begins in a row's memory.
fn place(plan: &Plan, place: Place) -> usize {
    let hidden =
        |i: usize| tiles_of(plan.inputs) + plan.hidden[..i].iter().map(|width| tiles_of(*width)).sum::<usize>();
    let params = hidden(plan.hidden.len());
    TILE * match place {
        Place::Input => 0,
        Place::Hidden(i) => hidden(i),
        Place::Params => params,
        Place::Value => params + tiles_of(plan.head.params()),
    }
}

fn tiles_of(width: usize) -> usize {
    width.div_ceil(TILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_follows_from_adapter_and_size() {
        let limits = |workgroup, uniform| wgpu::Limits {
            max_compute_workgroup_storage_size: workgroup,
            max_uniform_buffer_binding_size: uniform,
            ..Default::default()
        };
        let (large, small, none) = (limits(32_768, 65_536), limits(16_384, 65_536), limits(16_384, 16_384));
        // 4-64-64-2.
        let form = |memory, kind, limits| Form::choose(memory, kind, limits, 20_000);
        for kind in [AdapterKind::Discrete, AdapterKind::Integrated, AdapterKind::Virtual, AdapterKind::Unknown] {
            assert_eq!(form(WeightMemory::Auto, kind, &large), Form::Workgroup);
            assert_eq!(form(WeightMemory::Auto, kind, &small), Form::Uniform);
            assert_eq!(form(WeightMemory::Uniform, kind, &large), Form::Uniform);
        }
        assert_eq!(form(WeightMemory::Auto, AdapterKind::Software, &large), Form::Uniform);
        assert_eq!(form(WeightMemory::Workgroup, AdapterKind::Software, &large), Form::Workgroup);
        assert_eq!(form(WeightMemory::Workgroup, AdapterKind::Software, &small), Form::Uniform);
        assert_eq!(form(WeightMemory::Auto, AdapterKind::Discrete, &none), Form::Layers);
    }
}
