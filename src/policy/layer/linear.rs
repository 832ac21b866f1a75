//! `to = activation(from · weightᵀ + bias)`: in a register tile of 6 rows × 16 outputs, inputs in order.
//!
//! With AVX2 the tile takes 12 of 16 registers, 2 more hold weights and 1 an input (the shape of BLIS's Haswell
//! kernel). With AVX-512 it takes 6 of 32, so four of them are computed side by side: fewer would wait for the sums of
//! the input before. Layers of few outputs, such as most heads, would be mostly padding: there each row is multiplied
//! with each output's weights. A block is padded to whole tiles, and a row's sums do not depend on its neighbours.

use std::marker::PhantomData;

use pulp::{Arch, Simd, WithSimd};

use super::{Block, Elementwise, ForActivation, Kernel, Tensors, with_activation};
use crate::policy::{
    floats::Floats,
    plan::{Activation, Operation},
};

/// Outputs of a panel of weights.
pub(crate) const PANEL: usize = 16;
/// Most outputs of a layer without panels.
const FEW: usize = 8;
/// Rows of a register tile.
pub(crate) const TILE: usize = 6;

/// `width` padded to whole panels, or to [`FEW`]: the distance of rows in a matrix.
pub(crate) fn padded(width: usize) -> usize {
    width.next_multiple_of(if width <= FEW { FEW } else { PANEL })
}

/// One layer's weights in the order in which the kernel reads them.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    inputs: usize,
    /// `[panels][inputs][PANEL]`, padded with zeros; of few outputs `[outputs][inputs]`.
    weights: Floats,
    /// `[panels][PANEL]`, or `[FEW]`, padded with zeros.
    bias: Floats,
}

impl Packed {
    /// Packs `[outputs, inputs]` weights and `[outputs]` biases.
    pub(crate) fn new(inputs: usize, weight: &[f32], bias: &[f32]) -> Self {
        let padded = padded(bias.len());
        let mut padded_bias = Floats::zeros(padded);
        padded_bias[..bias.len()].copy_from_slice(bias);
        if padded == FEW {
            let mut weights = Floats::zeros(weight.len());
            weights.copy_from_slice(weight);
            return Self { inputs, weights, bias: padded_bias };
        }
        let mut weights = Floats::zeros(padded * inputs);
        for (output, row) in weight.chunks_exact(inputs).enumerate() {
            let panel = &mut weights[output / PANEL * PANEL * inputs..][..PANEL * inputs];
            for (input, x) in row.iter().enumerate() {
                panel[input * PANEL + output % PANEL] = *x;
            }
        }
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
    fn run<A: Elementwise>(self) {
        let Self { arch, packed, from, stride, to } = self;
        // Called, so that its constants do not take the registers of the sums. The next tile's sums begin meanwhile.
        let width = packed.padded();
        let each = |tile: &mut [f32]| arch.dispatch(Each { tile, width, activation: PhantomData::<A> });
        let product = Product { packed, from, stride, to, each: &each };
        if packed.padded() == FEW {
            arch.dispatch(Dots(product));
        } else {
            arch.dispatch(Panels(product));
        }
    }
}

/// An activation of a tile, in place.
struct Each<'a, A> {
    tile: &'a mut [f32],
    /// Numbers of a row.
    width: usize,
    activation: PhantomData<A>,
}

impl<A: Elementwise> WithSimd for Each<'_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // No register is as wide as to leave a rest; some hold two narrow rows.
        let row = (self.width / S::F32_LANES).max(1);
        for row in S::as_mut_simd_f32s(self.tile).0.chunks_exact_mut(row) {
            let (twos, one) = row.as_chunks_mut();
            for two in twos {
                *two = A::apply_two(simd, *two);
            }
            for x in one {
                *x = A::apply(simd, *x);
            }
        }
    }
}

/// `to = from · weightᵀ + bias`.
struct Product<'a> {
    packed: &'a Packed,
    from: &'a [f32],
    stride: usize,
    to: &'a mut [f32],
    /// What happens to a tile once its sums are complete.
    each: &'a dyn Fn(&mut [f32]),
}

/// An output at a time.
struct Dots<'a>(Product<'a>);

impl WithSimd for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Product { packed: Packed { inputs, weights, bias }, from, stride, to, each } = self.0;
        for (tile, to) in to.chunks_exact_mut(TILE * FEW).enumerate() {
            let from = &from[tile * TILE * stride..];
            // What is beyond the last inputs is loaded as zeros.
            let (mut rows, mut lasts) = ([&[][..]; TILE], [simd.splat_f32s(0.0); TILE]);
            for row in 0..TILE {
                let (values, rest) = S::as_simd_f32s(&from[row * stride..][..*inputs]);
                rows[row] = values;
                if !rest.is_empty() {
                    lasts[row] = simd.partial_load_f32s(rest);
                }
            }
            for (output, weights) in weights.chunks_exact(*inputs).enumerate() {
                let (weights, rest) = S::as_simd_f32s(weights);
                let last = simd.partial_load_f32s(rest);
                let mut sums = [last; TILE];
                for row in 0..TILE {
                    // All of one length: an index is checked once.
                    rows[row] = &rows[row][..weights.len()];
                    sums[row] = simd.mul_f32s(lasts[row], last);
                }
                for (i, weight) in weights.iter().enumerate() {
                    for row in 0..TILE {
                        sums[row] = simd.mul_add_e_f32s(rows[row][i], *weight, sums[row]);
                    }
                }
                for (row, sum) in sums.into_iter().enumerate() {
                    to[row * FEW + output] = bias[output] + simd.reduce_sum_f32s(sum);
                }
            }
            each(to);
        }
    }
}

/// Panels of outputs at a time.
struct Panels<'a>(Product<'a>);

impl WithSimd for Panels<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // A panel is as many registers as the instruction set needs for it.
        match PANEL / S::F32_LANES {
            1 => self.panels::<S, 1>(simd),
            2 => self.panels::<S, 2>(simd),
            4 => self.panels::<S, 4>(simd),
            _ => self.panels::<S, 16>(simd),
        }
    }
}

impl Panels<'_> {
    #[inline(always)]
    fn panels<S: Simd, const V: usize>(mut self, simd: S) {
        let panels = self.0.packed.padded() / (V * S::F32_LANES);
        let mut first = 0;
        while V == 1 && panels - first >= 4 {
            self.side_by_side::<S, V, 4>(simd, first);
            first += 4;
        }
        // Panels outermost: one stays in the first-level cache while the block's rows pass by.
        for panel in first..panels {
            self.side_by_side::<S, V, 1>(simd, panel);
        }
    }

    /// Computes `P` panels of `V` registers, from the panel `first` on.
    #[inline(always)]
    fn side_by_side<S: Simd, const V: usize, const P: usize>(&mut self, simd: S, first: usize) {
        let (inputs, padded) = (self.0.packed.inputs, self.0.packed.padded());
        let width = V * S::F32_LANES;
        let (mut weights, mut bias) = ([&[][..]; P], [[simd.splat_f32s(0.0); V]; P]);
        for panel in 0..P {
            let from = &self.0.packed.weights[(first + panel) * width * inputs..][..width * inputs];
            weights[panel] = S::as_simd_f32s(from).0.as_chunks().0;
            bias[panel] = S::as_simd_f32s(&self.0.packed.bias[(first + panel) * width..]).0.as_chunks().0[0];
        }
        for (tile, to) in self.0.to.chunks_exact_mut(TILE * padded).enumerate() {
            let from = &self.0.from[tile * TILE * self.0.stride..];
            let sums = sums::<S, V, P>(simd, weights, bias, from, self.0.stride);
            for (row, sums) in sums.iter().enumerate() {
                let to = S::as_mut_simd_f32s(&mut to[row * padded + first * width..][..P * width]).0;
                to.copy_from_slice(sums.as_flattened());
            }
            if (first + P) * width == padded {
                (self.0.each)(to);
            }
        }
    }
}

#[inline(always)]
fn sums<S: Simd, const V: usize, const P: usize>(
    simd: S,
    weights: [&[[S::f32s; V]]; P],
    bias: [[S::f32s; V]; P],
    from: &[f32],
    stride: usize,
) -> [[[S::f32s; V]; P]; TILE] {
    let mut sums = [bias; TILE];
    // All of one length: an index is checked once.
    let inputs = weights[0].len();
    let mut rows = [&from[..inputs]; TILE];
    for (row, values) in rows.iter_mut().enumerate() {
        *values = &from[row * stride..][..inputs];
    }
    for input in 0..inputs {
        for row in 0..TILE {
            let x = simd.splat_f32s(rows[row][input]);
            for panel in 0..P {
                for v in 0..V {
                    sums[row][panel][v] = simd.mul_add_e_f32s(x, weights[panel][input][v], sums[row][panel][v]);
                }
            }
        }
    }
    sums
}
