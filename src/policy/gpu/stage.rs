//! The dispatches of a forward. A new layer is its shader, its uniform's mirror, and its entry in the table here.

use bytemuck::{Pod, bytes_of};

use super::{
    fused::{Form, Fused},
    inputs::Inputs,
    params::{Conv2dParams, CopyParams, EmbeddingParams, LayerNormParams, LinearParams, PARAMS_SIZE, RecurrentParams},
};
use crate::{
    error::Error,
    gpu::{GROUP, Gpu, Kernel},
    policy::plan::{Activation, Convolution, Kind, Operation, Place, Plan},
};

/// One dispatch.
pub(super) struct Stage {
    pub(super) kernel: Kernel,
    /// Its uniform, but for the number of rows, which comes first.
    pub(super) uniform: [u8; PARAMS_SIZE as usize],
    /// What is bound behind the uniform, in the order of the shader.
    pub(super) buffers: Vec<Bound>,
    tile: Tile,
}

/// A buffer that a stage reads or writes.
pub(super) enum Bound {
    /// A matrix.
    Place(Place),
    /// A tensor of the weights.
    Tensor(String),
    /// All weights of a fused network.
    Network,
    /// Places and beginnings of the rows.
    Memory,
    /// Recurrent states by place.
    States,
}

/// How a kernel divides the rows among its threads.
struct Tile {
    rows: usize,
    threads: usize,
}

/// What the table says of an operation.
pub(super) struct Entry<'a> {
    pub(super) shader: &'static str,
    uniform: [u8; PARAMS_SIZE as usize],
    /// Values of the shader's `override` constants.
    constants: Vec<(&'a str, f64)>,
    tile: Tile,
}

/// What takes the place of shaders that are imported: on an adapter with subgroups, and for weights as halves.
const SUBGROUPS: (&str, &str) = ("shared/reduce", "shared/reduce_subgroup");
const HALVES: (&str, &str) = ("shared/fours", "shared/fours_half");

impl Stage {
    /// What the stage of a fused network binds behind its uniform.
    pub(super) const FUSED: [Bound; 4] =
        [Bound::Network, Bound::Place(Place::Input), Bound::Place(Place::Params), Bound::Place(Place::Value)];

    /// The one stage of a network that fits into it.
    pub(super) fn fused(gpu: &Gpu, fused: &Fused) -> Result<Self, Error> {
        let mut constants = vec![("activation", constant(fused.activation)), half(gpu)];
        let mut swaps = &[][..];
        if fused.form == Form::Workgroup {
            constants.push(("fours", fused.fours as f64));
            swaps = &[("shared/network_uniform", "shared/network_workgroup")];
        }
        let kernel = Kernel::with_imports(gpu, "fused", swaps, &constants)?;
        Ok(Self {
            kernel,
            uniform: padded(&fused.params),
            buffers: Self::FUSED.into(),
            tile: Tile { rows: 1, threads: 1 },
        })
    }

    /// The stages of the plan's operations, one each; stages that run the same kernel share it.
    pub(super) fn all(gpu: &Gpu, plan: &Plan, inputs: &Inputs) -> Result<Vec<Self>, Error> {
        let mut swaps = Vec::new();
        swaps.extend(gpu.subgroups().then_some(SUBGROUPS));
        swaps.extend(gpu.config().half.then_some(HALVES));
        let mut kernels: Vec<(&str, Vec<(&str, f64)>, Kernel)> = Vec::new();
        let mut stages = Vec::new();
        for operation in &plan.layers {
            let Entry { shader, uniform, mut constants, tile } = entry(plan, inputs, operation);
            if !operation.tensors().is_empty() {
                constants.push(half(gpu));
            }
            let known = kernels.iter().find(|(name, own, _)| *name == shader && *own == constants);
            let kernel = match known {
                Some((.., kernel)) => kernel.clone(),
                None => {
                    let kernel = Kernel::with_imports(gpu, shader, &swaps, &constants)?;
                    kernels.push((shader, constants, kernel.clone()));
                    kernel
                }
            };
            stages.push(Self { kernel, uniform, buffers: buffers(operation), tile });
        }
        Ok(stages)
    }

    /// Threads for so many rows.
    pub(super) fn items(&self, rows: usize) -> u64 {
        rows.div_ceil(self.tile.rows) as u64 * self.tile.threads as u64
    }
}

/// The table.
pub(super) fn entry<'a>(plan: &Plan, observation: &Inputs, operation: &Operation) -> Entry<'a> {
    let word = |x: usize| x as u32;
    let (inputs, outputs) = (operation.inputs, operation.outputs);
    let (start, stride) = match operation.from {
        Place::Input => (observation.word(operation.start), observation.words()),
        from => (operation.start, plan.width(from).unwrap_or(0)),
    };
    let (rows, start, stride) = (0, word(start), word(stride));
    let layer = |shader, uniform, activation: Option<Activation>, tile: (usize, usize)| {
        let constants = activation.map(|activation| ("activation", constant(activation))).into_iter().collect();
        Entry { shader, uniform, constants, tile: Tile { rows: tile.0, threads: tile.1 } }
    };
    let recurrent = |shader, state| {
        let (inputs, outputs, state, width) = (word(inputs), word(outputs), word(state), word(plan.state()));
        let params = RecurrentParams { rows, start, stride, inputs, outputs, state, width };
        // A workgroup for as many tiles of 4 rows as their units fill.
        let group = GROUP as usize;
        layer(shader, padded(&params), None, (4 * (group / operation.outputs).max(1), group))
    };
    match operation.kind {
        Kind::Linear { activation } => {
            let params = LinearParams { rows, start, stride, inputs: word(inputs), outputs: word(outputs) };
            layer("linear", padded(&params), Some(activation), (4, outputs.div_ceil(4)))
        }
        Kind::LayerNorm { activation } => {
            let params = LayerNormParams { rows, start, stride, columns: word(outputs) };
            layer("layer_norm", padded(&params), Some(activation), (1, GROUP as usize))
        }
        Kind::Conv2d(conv) => {
            let params = conv2d(&conv, start, stride);
            let tiles = conv.output[0].div_ceil(4) * conv.places().div_ceil(4);
            let mut entry = layer("conv2d", padded(&params), Some(conv.activation), (1, tiles));
            let bytes = operation.from == Place::Input && observation.is_bytes(operation.start);
            entry.constants.extend([("bytes", f64::from(u8::from(bytes))), ("padding", conv.padding as f64)]);
            entry
        }
        Kind::Embedding { entries } => {
            let params = EmbeddingParams { rows, start, stride, outputs: word(outputs), entries: word(entries) };
            layer("embedding", padded(&params), None, (1, outputs))
        }
        Kind::Gru { state } => recurrent("gru", state),
        Kind::Lstm { state } => recurrent("lstm", state),
        Kind::Copy { at } => {
            let width = word(plan.width(operation.to).unwrap_or(0));
            let params = CopyParams { rows, start, stride, columns: word(outputs), at: word(at), width };
            layer("copy", padded(&params), None, (1, outputs))
        }
    }
}

fn conv2d(conv: &Convolution, start: u32, stride: u32) -> Conv2dParams {
    let ([channels, height, width], [filters, _, columns]) =
        (conv.input.map(|x| x as u32), conv.output.map(|x| x as u32));
    Conv2dParams {
        rows: 0,
        start,
        stride,
        channels,
        height,
        width,
        filters,
        places: conv.places() as u32,
        columns,
        side: conv.kernel as u32,
        step: conv.stride as u32,
        scale: conv.scale,
    }
}

/// The same order in every shader: what is read, the tensors, what is remembered, what is written.
pub(super) fn buffers(operation: &Operation) -> Vec<Bound> {
    let mut buffers = vec![Bound::Place(operation.from)];
    let tensors = operation.tensors().into_iter();
    buffers.extend(tensors.map(|(part, _)| Bound::Tensor(format!("{}.{part}", operation.name))));
    if operation.state() > 0 {
        buffers.extend([Bound::Memory, Bound::States]);
    }
    buffers.push(Bound::Place(operation.to));
    buffers
}

fn padded(params: &impl Pod) -> [u8; PARAMS_SIZE as usize] {
    let mut bytes = [0; PARAMS_SIZE as usize];
    bytes[..size_of_val(params)].copy_from_slice(bytes_of(params));
    bytes
}

/// The value of `half` in `shaders/shared/weights.wgsl`.
fn half(gpu: &Gpu) -> (&'static str, f64) {
    ("half", f64::from(u8::from(gpu.config().half)))
}

/// The value of `activation` in `shaders/shared/activation.wgsl`.
fn constant(activation: Activation) -> f64 {
    match activation {
        Activation::Identity => 0.0,
        Activation::Tanh => 1.0,
        Activation::Relu => 2.0,
        Activation::Silu => 3.0,
        Activation::Gelu => 4.0,
        Activation::GeluErf => 5.0,
    }
}
