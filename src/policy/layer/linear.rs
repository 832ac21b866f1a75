//! `to = from · weightᵀ + bias`: a register tile of 6 rows × 16 outputs, inputs in order.
//!
//! With AVX2 the tile takes 12 of 16 registers, 2 more hold weights and 1 an input (the shape of BLIS's Haswell
//! kernel). There is one code path: a block is padded to whole tiles, so a row's sums do not depend on its neighbours.

use pulp::Simd;

use crate::policy::plan::Linear;

/// Outputs of a panel of weights.
pub(crate) const PANEL: usize = 16;
/// Rows of a register tile.
pub(crate) const TILE: usize = 6;

/// One layer's weights in the order in which the kernel reads them.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    inputs: usize,
    /// `[panels][inputs][PANEL]`, padded with zeros.
    weights: Vec<f32>,
    /// `[panels][PANEL]`, padded with zeros.
    bias: Vec<f32>,
}

impl Packed {
    /// Packs `[outputs, inputs]` weights and `[outputs]` biases.
    pub(crate) fn new(layer: &Linear, weight: &[f32], bias: &[f32]) -> Self {
        let padded = layer.outputs.next_multiple_of(PANEL);
        let mut weights = vec![0.0; padded * layer.inputs];
        for (output, row) in weight.chunks_exact(layer.inputs).enumerate() {
            let panel = &mut weights[output / PANEL * PANEL * layer.inputs..][..PANEL * layer.inputs];
            for (input, x) in row.iter().enumerate() {
                panel[input * PANEL + output % PANEL] = *x;
            }
        }
        let mut padded_bias = vec![0.0; padded];
        padded_bias[..bias.len()].copy_from_slice(bias);
        Self { inputs: layer.inputs, weights, bias: padded_bias }
    }

    /// Outputs with padding: the stride of `to` in [`run`].
    pub(crate) fn padded(&self) -> usize {
        self.bias.len()
    }
}

/// Runs a layer over `to.len() / packed.padded()` rows, a multiple of [`TILE`]. `stride` is the distance of rows in
/// `from`.
#[inline(always)]
pub(crate) fn run<S: Simd>(simd: S, packed: &Packed, from: &[f32], stride: usize, to: &mut [f32]) {
    // A panel is as many registers as the instruction set needs for 16 floats.
    match S::F32_LANES {
        16 => panels::<S, 1>(simd, packed, from, stride, to),
        8 => panels::<S, 2>(simd, packed, from, stride, to),
        4 => panels::<S, 4>(simd, packed, from, stride, to),
        2 => panels::<S, 8>(simd, packed, from, stride, to),
        _ => panels::<S, 16>(simd, packed, from, stride, to),
    }
}

#[inline(always)]
fn panels<S: Simd, const V: usize>(simd: S, packed: &Packed, from: &[f32], stride: usize, to: &mut [f32]) {
    let (inputs, padded) = (packed.inputs, packed.padded());
    let panels = packed.weights.chunks_exact(PANEL * inputs).zip(packed.bias.chunks_exact(PANEL));
    // Panels outermost: one stays in the first-level cache while the block's rows pass by.
    for (panel, (weights, bias)) in panels.enumerate() {
        let weights = S::as_simd_f32s(weights).0;
        let bias = S::as_simd_f32s(bias).0;
        for (from, to) in from.chunks_exact(TILE * stride).zip(to.chunks_exact_mut(TILE * padded)) {
            let sums = tile::<S, V>(simd, weights, bias, from, stride, inputs);
            for (row, sums) in sums.iter().enumerate() {
                let to = &mut to[row * padded + panel * PANEL..][..PANEL];
                S::as_mut_simd_f32s(to).0.copy_from_slice(sums);
            }
        }
    }
}

#[inline(always)]
fn tile<S: Simd, const V: usize>(
    simd: S,
    weights: &[S::f32s],
    bias: &[S::f32s],
    from: &[f32],
    stride: usize,
    inputs: usize,
) -> [[S::f32s; V]; TILE] {
    // Slices of one known length free the inner loop of bounds checks.
    let rows: [&[f32]; TILE] = std::array::from_fn(|row| &from[row * stride..][..inputs]);
    let start: [S::f32s; V] = std::array::from_fn(|v| bias[v]);
    let mut sums = [start; TILE];
    for (input, weights) in (0..inputs).zip(weights.chunks_exact(V)) {
        for row in 0..TILE {
            let x = simd.splat_f32s(rows[row][input]);
            for v in 0..V {
                sums[row][v] = simd.mul_add_e_f32s(x, weights[v], sums[row][v]);
            }
        }
    }
    sums
}
