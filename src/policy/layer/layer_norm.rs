//! Normalisation over a row.

use std::marker::PhantomData;

use pulp::{Arch, Simd, WithSimd};

use super::{Block, Elementwise, ForActivation, Kernel, Tensors, linear::PANEL, with_activation};
use crate::policy::plan::{Activation, Operation};

/// PyTorch's `eps`.
pub(crate) const EPSILON: f32 = 1e-5;

/// `(x - mean) / √(variance + 1e-5) · weight + bias` over the elements of a row, the variance being the biased one.
#[derive(Debug)]
pub(crate) struct LayerNorm {
    width: usize,
    /// Padded with zeros to whole panels, as is `bias`.
    weight: Vec<f32>,
    bias: Vec<f32>,
    activation: Activation,
}

impl LayerNorm {
    pub(crate) fn new(operation: &Operation, activation: Activation, tensors: &Tensors<'_>) -> Self {
        let width = operation.outputs;
        let padded = |part: &str| {
            let mut values = tensors.get(part).to_vec();
            values.resize(width.next_multiple_of(PANEL), 0.0);
            values
        };
        Self { width, weight: padded("weight"), bias: padded("bias"), activation }
    }
}

impl Kernel for LayerNorm {
    fn run(&self, arch: Arch, block: Block<'_>, scratch: &mut [f32]) {
        with_activation(self.activation, Rows { arch, layer: self, block, scratch });
    }

    fn scratch(&self, _: usize) -> usize {
        self.weight.len()
    }
}

struct Rows<'a, 'b> {
    arch: Arch,
    layer: &'a LayerNorm,
    block: Block<'b>,
    scratch: &'a mut [f32],
}

impl ForActivation for Rows<'_, '_> {
    fn run<A: Elementwise>(self) {
        let Self { arch, layer, block, scratch } = self;
        arch.dispatch(Run { layer, block, scratch, activation: PhantomData::<A> });
    }
}

struct Run<'a, 'b, A> {
    layer: &'a LayerNorm,
    block: Block<'b>,
    /// A row, padded.
    scratch: &'a mut [f32],
    activation: PhantomData<A>,
}

impl<A: Elementwise> WithSimd for Run<'_, '_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let LayerNorm { width, weight, bias, .. } = self.layer;
        let scratch = &mut self.scratch[..weight.len()];
        let (weight, bias) = (S::as_simd_f32s(weight).0, S::as_simd_f32s(bias).0);
        let inverse = 1.0 / *width as f32;
        let rows = self.block.to.chunks_exact_mut(self.block.to_stride);
        for (to, from) in rows.zip(self.block.from.chunks(self.block.stride)).take(self.block.rows) {
            scratch[..*width].copy_from_slice(&from[..*width]);
            scratch[*width..].fill(0.0);
            let mean = inverse * total(simd, scratch, |x| x);
            S::as_mut_simd_f32s(scratch).0.iter_mut().for_each(|x| *x = simd.sub_f32s(*x, simd.splat_f32s(mean)));
            scratch[*width..].fill(0.0);
            let variance = inverse * total(simd, scratch, |x| simd.mul_f32s(x, x));
            let scale = simd.splat_f32s(1.0 / (variance + EPSILON).sqrt());
            for (x, (weight, bias)) in S::as_mut_simd_f32s(scratch).0.iter_mut().zip(weight.iter().zip(bias)) {
                *x = A::apply(simd, simd.mul_add_e_f32s(simd.mul_f32s(*x, scale), *weight, *bias));
            }
            to[..*width].copy_from_slice(&scratch[..*width]);
        }
    }
}

#[inline(always)]
fn total<S: Simd>(simd: S, values: &[f32], f: impl Fn(S::f32s) -> S::f32s) -> f32 {
    let sums = S::as_simd_f32s(values).0.iter().fold(simd.splat_f32s(0.0), |sums, x| simd.add_f32s(sums, f(*x)));
    simd.reduce_sum_f32s(sums)
}
