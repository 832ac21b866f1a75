//! Layers. A new one is a file here, its twin in `shaders/`, and its lines in the tables below.

mod conv2d;
mod embedding;
mod gelu;
mod gelu_erf;
mod gru;
mod layer_norm;
pub(super) mod linear;
mod lstm;
mod recurrent;
mod relu;
mod silu;
mod tanh;

use std::fmt;

use pulp::{Arch, Simd};
use serde::{Deserialize, Serialize};

use super::plan::{Activation, Kind, Memory, Operation};
use crate::components::Weights;

/// An operation with its weights as the CPU reads them.
pub(crate) trait Kernel: Send + Sync + fmt::Debug {
    /// Computes a block of rows. What it computes of a row does not depend on the others.
    fn run(&self, arch: Arch, block: Block<'_>, scratch: &mut [f32]);

    /// Floats of scratch memory for blocks of up to `rows` rows, a multiple of [`linear::TILE`].
    fn scratch(&self, _rows: usize) -> usize {
        0
    }
}

/// A block of rows: matrices with a row a row.
pub(crate) struct Block<'a> {
    pub(crate) rows: usize,
    /// From the first column that is read. Behind the last row are more: a kernel may compute with them.
    pub(crate) from: &'a [f32],
    /// Distance of rows in `from`.
    pub(crate) stride: usize,
    /// Room for whole tiles of rows.
    pub(crate) to: &'a mut [f32],
    /// Distance of rows in `to`: [`linear::padded`] of their columns, which may be less than a register.
    pub(crate) to_stride: usize,
    /// What the block's rows remember.
    pub(crate) memory: Option<Memory<'a>>,
}

/// The tensors of one operation.
pub(crate) struct Tensors<'a> {
    weights: &'a Weights,
    name: &'a str,
}

impl<'a> Tensors<'a> {
    pub(crate) fn new(weights: &'a Weights, name: &'a str) -> Self {
        Self { weights, name }
    }

    /// The elements of `NAME.part`, which [`Weights::check`] has found.
    pub(crate) fn get(&self, part: &str) -> &'a [f32] {
        self.weights.get(&format!("{}.{part}", self.name)).map_or(&[], |tensor| &tensor.data)
    }
}

/// The kernel of an operation.
pub(crate) fn pack(operation: &Operation, tensors: &Tensors<'_>) -> Box<dyn Kernel> {
    match operation.kind {
        Kind::Linear { activation } => Box::new(linear::Linear::new(operation, activation, tensors)),
        Kind::LayerNorm { activation } => Box::new(layer_norm::LayerNorm::new(operation, activation, tensors)),
        Kind::Conv2d(shapes) => Box::new(conv2d::Conv2d::new(shapes, tensors)),
        Kind::Embedding { entries } => Box::new(embedding::Embedding::new(operation, entries, tensors)),
        Kind::Gru { state } => Box::new(gru::Gru::new(operation, state, tensors)),
        Kind::Lstm { state } => Box::new(lstm::Lstm::new(operation, state, tensors)),
        Kind::Copy { at } => Box::new(Copy { at, columns: operation.inputs }),
    }
}

/// Applied to each element of a linear layer's result. In vector operations: whether the compiler finds those itself
/// changes with the profile that a user builds with.
pub(crate) trait Elementwise {
    fn apply<S: Simd>(simd: S, x: S::f32s) -> S::f32s;

    /// Of two at once, where that is quicker. What they have in common may touch each other's last bit, so both are of one
    /// row.
    #[inline(always)]
    fn apply_two<S: Simd>(simd: S, x: [S::f32s; 2]) -> [S::f32s; 2] {
        [Self::apply(simd, x[0]), Self::apply(simd, x[1])]
    }
}

/// An entry of a network's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layer {
    /// `x · weightᵀ + bias` with so many outputs, 1 to 65,536.
    Linear(usize),
    /// Normalisation over the elements of a row, with weight and bias (Ba, Kiros and Hinton 2016).
    LayerNorm,
    /// Convolution of an image `[channels, height, width]`. Reads an observation's image, divided by
    /// 255 if it is of bytes, or another convolution's.
    Conv2d {
        /// Output channels, 1 to 65,536.
        filters: usize,
        /// Side of the kernel, at least 1.
        kernel: usize,
        /// Step of the kernel, at least 1.
        stride: usize,
        /// Zeros beyond each edge, fewer than `kernel` and at most as many as the image is high and wide. Default: 0.
        #[serde(default)]
        padding: usize,
    },
    /// Makes an image a row of numbers; has a number of its own, as in PyTorch, and costs nothing.
    Flatten,
    /// A learned vector of so many numbers for each value of a discrete observation; first in a list.
    Embedding(usize),
    /// Gated recurrent unit with so many hidden numbers, 1 to 65,536: PyTorch's `GRU` of one layer.
    Gru(usize),
    /// Long short-term memory with so many hidden numbers, 1 to 65,536: PyTorch's `LSTM` of one layer.
    Lstm(usize),
    /// Hyperbolic tangent; an activation stands directly after a linear layer, a convolution or a normalisation.
    Tanh,
    /// The positive part.
    Relu,
    /// `x · σ(x)`.
    Silu,
    /// `x · Φ(x)` in its tanh form: PyTorch's `GELU(approximate="tanh")`. Without that option PyTorch's is
    /// [`GeluErf`](Self::GeluErf), which differs by up to 5e-4.
    Gelu,
    /// `x · Φ(x)` itself, by the error function: PyTorch's `GELU()`.
    GeluErf,
}

/// The table of activations: entry of a list, name in a plan, kernel.
macro_rules! activations {
    ($($layer:ident => $kernel:path),* $(,)?) => {
        impl Layer {
            /// What the entry fuses into the layer before it; none if it is no activation.
            pub fn activation(self) -> Option<Activation> {
                match self {
                    $( Self::$layer => Some(Activation::$layer), )*
                    _ => None,
                }
            }

            /// The entry for an activation; none for the identity.
            pub fn of(activation: Activation) -> Option<Self> {
                match activation {
                    Activation::Identity => None,
                    $( Activation::$layer => Some(Self::$layer), )*
                }
            }
        }

        /// Compiles `work` for each activation and runs the one that is asked for.
        pub(crate) fn with_activation(activation: Activation, work: impl ForActivation) {
            match activation {
                Activation::Identity => work.run::<Identity>(),
                $( Activation::$layer => work.run::<$kernel>(), )*
            }
        }
    };
}

/// Work with an activation in its inner loop.
pub(crate) trait ForActivation {
    fn run<A: Elementwise>(self);
}

struct Identity;

impl Elementwise for Identity {
    #[inline(always)]
    fn apply<S: Simd>(_: S, x: S::f32s) -> S::f32s {
        x
    }
}

activations! {
    Tanh => tanh::Tanh,
    Relu => relu::Relu,
    Silu => silu::Silu,
    Gelu => gelu::Gelu,
    GeluErf => gelu_erf::GeluErf,
}

/// Copies columns.
#[derive(Debug)]
struct Copy {
    at: usize,
    columns: usize,
}

impl Kernel for Copy {
    fn run(&self, _: Arch, block: Block<'_>, _: &mut [f32]) {
        let rows = block.to.chunks_exact_mut(block.to_stride).zip(block.from.chunks(block.stride)).take(block.rows);
        rows.for_each(|(to, from)| to[self.at..][..self.columns].copy_from_slice(&from[..self.columns]));
    }
}

/// `σ(x)`, the logistic function, by `tanh`: within 3e-7.
#[inline(always)]
fn sigmoid<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let half = simd.splat_f32s(0.5);
    simd.mul_add_e_f32s(half, tanh::Tanh::apply(simd, simd.mul_f32s(half, x)), half)
}
