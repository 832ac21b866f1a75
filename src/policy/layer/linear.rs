//! `to = activation(from · weightᵀ + bias)`: a register tile of 6 rows × 16 outputs, inputs in order.
//!
//! With AVX2 the tile takes 12 of 16 registers, 2 more hold weights and 1 an input (the shape of BLIS's Haswell
//! kernel). There is one code path: a block is padded to whole tiles, so a row's sums do not depend on its neighbours.

use std::marker::PhantomData;

use pulp::{Arch, Simd, WithSimd};

use super::{Block, Elementwise, ForActivation, Kernel, Tensors, with_activation};
use crate::policy::{
    floats::Floats,
    plan::{Activation, Operation},
};

/// Outputs of a panel of weights.
pub(crate) const PANEL: usize = 16;
/// Outputs of the panel of a layer that has no more than these, such as most heads.
const NARROW: usize = 8;
/// Rows of a register tile.
pub(crate) const TILE: usize = 6;

/// Outputs of a panel of a layer with `outputs`.
const fn panel(outputs: usize) -> usize {
    if outputs <= NARROW { NARROW } else { PANEL }
}

/// `width` padded to whole panels: the distance of rows in a matrix.
pub(crate) fn padded(width: usize) -> usize {
    width.next_multiple_of(panel(width))
}

/// One layer's weights in the order in which the kernel reads them.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    inputs: usize,
    /// `[panels][inputs][panel]`, padded with zeros.
    weights: Floats,
    /// `[panels][panel]`, padded with zeros.
    bias: Floats,
}

impl Packed {
    /// Packs `[outputs, inputs]` weights and `[outputs]` biases.
    pub(crate) fn new(inputs: usize, weight: &[f32], bias: &[f32]) -> Self {
        let (width, padded) = (panel(bias.len()), padded(bias.len()));
        let mut weights = Floats::zeros(padded * inputs);
        for (output, row) in weight.chunks_exact(inputs).enumerate() {
            let panel = &mut weights[output / width * width * inputs..][..width * inputs];
            for (input, x) in row.iter().enumerate() {
                panel[input * width + output % width] = *x;
            }
        }
        let mut padded_bias = Floats::zeros(padded);
        padded_bias[..bias.len()].copy_from_slice(bias);
        Self { inputs, weights, bias: padded_bias }
    }

    /// Outputs with padding: the stride of `to` in [`run`].
    pub(crate) fn padded(&self) -> usize {
        self.bias.len()
    }
}

/// A linear layer.
#[derive(Debug)]
pub(crate) struct Linear {
    packed: Packed,
    activation: Activation,
}

impl Linear {
    pub(crate) fn new(operation: &Operation, activation: Activation, tensors: &Tensors<'_>) -> Self {
        let packed = Packed::new(operation.inputs, tensors.get("weight"), tensors.get("bias"));
        Self { packed, activation }
    }
}

impl Kernel for Linear {
    fn run(&self, arch: Arch, block: Block<'_>, _: &mut [f32]) {
        let rows = block.rows.next_multiple_of(TILE);
        let to = &mut block.to[..rows * self.packed.padded()];
        run(arch, self.activation, &self.packed, block.from, block.stride, to);
    }
}

/// Runs a layer over the `to.len() / packed.padded()` rows of `from`, a multiple of [`TILE`], that are `stride` apart.
pub(crate) fn run(arch: Arch, activation: Activation, packed: &Packed, from: &[f32], stride: usize, to: &mut [f32]) {
    with_activation(activation, Rows { arch, packed, from, stride, to });
}

struct Rows<'a> {
    arch: Arch,
    packed: &'a Packed,
    from: &'a [f32],
    stride: usize,
    to: &'a mut [f32],
}

impl ForActivation for Rows<'_> {
    // One dispatch a layer: compiled as one function, the kernels would compete for the optimiser's limits.
    fn run<A: Elementwise>(self) {
        let Self { arch, packed, from, stride, to } = self;
        arch.dispatch(Run { packed, from, stride, to, activation: PhantomData::<A> });
    }
}

struct Run<'a, A> {
    packed: &'a Packed,
    from: &'a [f32],
    stride: usize,
    to: &'a mut [f32],
    activation: PhantomData<A>,
}

impl<A: Elementwise> WithSimd for Run<'_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // A panel is as many registers as the instruction set needs for it; none has more than 8 lanes.
        match panel(self.packed.padded()) / S::F32_LANES {
            1 => self.panels::<S, 1>(simd),
            2 => self.panels::<S, 2>(simd),
            4 => self.panels::<S, 4>(simd),
            8 => self.panels::<S, 8>(simd),
            _ => self.panels::<S, 16>(simd),
        }
    }
}

impl<A: Elementwise> Run<'_, A> {
    #[inline(always)]
    fn panels<S: Simd, const V: usize>(self, simd: S) {
        let (inputs, padded) = (self.packed.inputs, self.packed.padded());
        let width = V * S::F32_LANES;
        let weights = self.packed.weights.chunks_exact(width * inputs);
        // Panels outermost: one stays in the first-level cache while the block's rows pass by.
        for (panel, (weights, bias)) in weights.zip(self.packed.bias.chunks_exact(width)).enumerate() {
            let (weights, bias) = (S::as_simd_f32s(weights).0.as_chunks().0, S::as_simd_f32s(bias).0.as_chunks().0);
            for (tile, to) in self.to.chunks_exact_mut(TILE * padded).enumerate() {
                let from = &self.from[tile * TILE * self.stride..];
                let sums = sums::<S, V>(simd, weights, bias[0], from, self.stride);
                for (row, sums) in sums.iter().enumerate() {
                    let to = S::as_mut_simd_f32s(&mut to[row * padded + panel * width..][..width]).0;
                    for (to, sum) in to.iter_mut().zip(sums) {
                        *to = A::apply(simd, *sum);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn sums<S: Simd, const V: usize>(
    simd: S,
    weights: &[[S::f32s; V]],
    bias: [S::f32s; V],
    from: &[f32],
    stride: usize,
) -> [[S::f32s; V]; TILE] {
    let mut sums = [bias; TILE];
    // Zipped, since an index into each row would be checked at each step.
    let (row_0, rest) = from.split_at(stride);
    let (row_1, rest) = rest.split_at(stride);
    let (row_2, rest) = rest.split_at(stride);
    let (row_3, rest) = rest.split_at(stride);
    let (row_4, row_5) = rest.split_at(stride);
    let rows = row_0.iter().zip(row_1).zip(row_2).zip(row_3).zip(row_4).zip(row_5);
    for (weights, (((((a, b), c), d), e), f)) in weights.iter().zip(rows) {
        let x = [*a, *b, *c, *d, *e, *f];
        for row in 0..TILE {
            let x = simd.splat_f32s(x[row]);
            for v in 0..V {
                sums[row][v] = simd.mul_add_e_f32s(x, weights[v], sums[row][v]);
            }
        }
    }
    sums
}
