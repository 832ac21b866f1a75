//! Small networks of linear layers in one dispatch: what fits, and how their weights lie in uniform memory.
//!
//! Uniform memory, since all threads read the same weight at the same time. On lavapipe the network 4-64-64-2 runs ten
//! times as fast as with its weights in workgroup memory, where each thread of a vector loads for itself.

use bytemuck::bytes_of;

use super::params::{FusedLayer, FusedParams};
use crate::{
    components::Weights,
    gpu::Gpu,
    policy::plan::{Activation, Kind, Operation, Place, Plan},
};

/// Layers, words of weights, and words of a row's memory that the shader has room for.
const LAYERS: usize = 16;
const WEIGHTS: usize = 4064 * 4;
const MEMORY: usize = 320;
/// Outputs that a thread computes together.
const TILE: usize = 8;

/// Bytes of the shader's `FusedNetwork`: what every adapter allows in one uniform binding.
pub(super) const NETWORK_SIZE: u64 = (LAYERS * size_of::<FusedLayer>() + WEIGHTS * 4) as u64;

/// A network that fits.
pub(super) struct Fused {
    pub(super) params: FusedParams,
    /// The one that follows some of the layers.
    pub(super) activation: Activation,
    layers: Vec<FusedLayer>,
}

impl Fused {
    /// The fused form of `plan` if it has one: linear layers, few and narrow, with one kind of activation.
    pub(super) fn of(gpu: &Gpu, plan: &Plan) -> Option<Self> {
        let place = |place: Place| -> usize {
            let hidden =
                |i: usize| tiles(plan.inputs) + plan.hidden[..i].iter().map(|width| tiles(*width)).sum::<usize>();
            let params = hidden(plan.hidden.len());
            TILE * match place {
                Place::Input => 0,
                Place::Hidden(i) => hidden(i),
                Place::Params => params,
                Place::Value => params + tiles(plan.head.params()),
            }
        };
        let (mut fused, mut first) = (Activation::Identity, 0);
        let mut layers = Vec::new();
        for Operation { kind, from, start, inputs, to, outputs, .. } in &plan.layers {
            let Kind::Linear { activation } = *kind else { return None };
            let activated = activation != Activation::Identity;
            if activated && ![activation, Activation::Identity].contains(&fused) {
                return None;
            }
            fused = if activated { activation } else { fused };
            layers.push(FusedLayer {
                start: (place(*from) + start) as u32,
                to_: place(*to) as u32,
                inputs: *inputs as u32,
                tiles: tiles(*outputs) as u32,
                first: (first / 4) as u32,
                activated: u32::from(activated),
                padding: [0; 2],
            });
            first = tiles(*outputs).saturating_mul(TILE).saturating_mul(inputs + 1).saturating_add(first);
        }
        let value_width = usize::from(plan.value);
        let memory = place(Place::Value) + TILE * tiles(value_width);
        let room = layers.len() <= LAYERS && first <= WEIGHTS && memory <= MEMORY;
        let params = FusedParams {
            rows: 0,
            layers: layers.len() as u32,
            inputs: plan.inputs as u32,
            params: place(Place::Params) as u32,
            params_width: plan.head.params() as u32,
            value: place(Place::Value) as u32,
            value_width: value_width as u32,
        };
        let allowed = gpu.limits().max_uniform_buffer_binding_size >= NETWORK_SIZE;
        (room && allowed).then_some(Self { params, activation: fused, layers })
    }

    /// The shader's `FusedNetwork` with a checked set of weights.
    pub(super) fn pack(&self, plan: &Plan, weights: &Weights) -> Vec<u8> {
        let mut network = vec![0; NETWORK_SIZE as usize];
        let (table, words) = network.split_at_mut(LAYERS * size_of::<FusedLayer>());
        let data = |layer: &str, part: &str| weights.get(&format!("{layer}.{part}")).map_or(&[][..], |own| &own.data);
        for ((layer, operation), entry) in
            self.layers.iter().zip(&plan.layers).zip(table.chunks_exact_mut(size_of::<FusedLayer>()))
        {
            entry.copy_from_slice(bytes_of(layer));
            let mut put = |row: usize, output: usize, x: f32| {
                let at = layer.first as usize * 4 + row * layer.tiles as usize * TILE + output;
                words[at * 4..][..4].copy_from_slice(bytes_of(&x));
            };
            for (output, x) in data(&operation.name, "bias").iter().enumerate() {
                put(0, output, *x);
            }
            for (output, weight) in data(&operation.name, "weight").chunks_exact(operation.inputs).enumerate() {
                weight.iter().enumerate().for_each(|(input, x)| put(input + 1, output, *x));
            }
        }
        network
    }
}

fn tiles(width: usize) -> usize {
    width.div_ceil(TILE)
}
