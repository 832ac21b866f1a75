//! Layers. A new activation is a file here, its twin in `shaders/`, and its lines in the table below.

pub(super) mod linear;
mod relu;
mod tanh;

use std::marker::PhantomData;

use pulp::{Arch, Simd};
use serde::{Deserialize, Serialize};

use super::plan::Activation;

/// Applied to each element of a linear layer's result. In vector operations: whether the compiler finds those itself
/// changes with the profile that a user builds with.
pub(crate) trait Elementwise {
    fn apply<S: Simd>(simd: S, x: S::f32s) -> S::f32s;
}

/// An entry of a network's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layer {
    /// `x · weightᵀ + bias` with so many outputs, 1 to 65,536.
    Linear(usize),
    /// Hyperbolic tangent of each element; directly after a linear layer.
    Tanh,
    /// The positive part of each element; directly after a linear layer.
    Relu,
}

/// The table of activations: entry of a list, name in a plan, kernel.
macro_rules! activations {
    ($($layer:ident => $kernel:path),* $(,)?) => {
        impl Layer {
            /// What the entry fuses into the linear layer before it; none for a linear layer.
            pub fn activation(self) -> Option<Activation> {
                match self {
                    Self::Linear(_) => None,
                    $( Self::$layer => Some(Activation::$layer), )*
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

        /// Runs a linear layer with its activation; see [`linear::Run`]. One dispatch a layer: compiled as one function,
        /// the kernels would compete for the optimiser's limits.
        pub(crate) fn run(
            arch: Arch,
            activation: Activation,
            packed: &linear::Packed,
            from: &[f32],
            stride: usize,
            to: &mut [f32],
        ) {
            match activation {
                Activation::Identity => {
                    arch.dispatch(linear::Run { packed, from, stride, to, activation: PhantomData::<Identity> })
                }
                $( Activation::$layer => {
                    arch.dispatch(linear::Run { packed, from, stride, to, activation: PhantomData::<$kernel> })
                } )*
            }
        }
    };
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
}
