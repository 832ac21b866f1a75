//! The gated recurrent unit.

use pulp::{Arch, Simd, WithSimd};

use super::{
    Block, Elementwise, Kernel, Tensors,
    linear::{self, PANEL, Packed, TILE},
    sigmoid,
    tanh::Tanh,
};
use crate::policy::plan::{Activation, Operation};

/// PyTorch's `GRU` of one layer (Cho et al. 2014, with the reset gate behind the recurrent product):
/// `r = σ(W_ir x + b_ir + W_hr h + b_hr)`, `z` alike, `n = tanh(W_in x + b_in + r · (W_hn h + b_hn))`,
/// `h' = (1 - z) · n + z · h`.
#[derive(Debug)]
pub(crate) struct Gru {
    hidden: usize,
    state: usize,
    /// Three gates, each padded to whole panels.
    input: Packed,
    recurrent: Packed,
}

impl Gru {
    pub(crate) fn new(operation: &Operation, state: usize, tensors: &Tensors<'_>) -> Self {
        let (input, recurrent) = pack_gates(operation, tensors);
        Self { hidden: operation.outputs, state, input, recurrent }
    }
}

/// Input and recurrent weights of a recurrent layer, each gate padded to whole panels.
pub(super) fn pack_gates(operation: &Operation, tensors: &Tensors<'_>) -> (Packed, Packed) {
    let (hidden, padded) = (operation.outputs, operation.outputs.next_multiple_of(PANEL));
    let pad = |values: &[f32], width: usize| -> Vec<f32> {
        let gates = values.chunks_exact(hidden * width);
        gates.flat_map(|gate| gate.iter().copied().chain(std::iter::repeat_n(0.0, (padded - hidden) * width))).collect()
    };
    let pack = |inputs: usize, weight: &str, bias: &str| {
        Packed::new(inputs, &pad(tensors.get(weight), inputs), &pad(tensors.get(bias), 1))
    };
    (pack(operation.inputs, "weight_ih_l0", "bias_ih_l0"), pack(hidden, "weight_hh_l0", "bias_hh_l0"))
}

/// Loads columns `first..first + width` of the rows' states, zeros where an episode begins, with rows `padded` apart.
pub(super) fn load_states(block: &Block<'_>, first: usize, width: usize, padded: usize, to: &mut [f32]) {
    let Some(memory) = &block.memory else { return };
    for ((to, place), fresh) in to.chunks_exact_mut(padded).zip(memory.places).zip(memory.fresh) {
        match fresh {
            0 => memory.states.read(*place as usize, first, &mut to[..width]),
            _ => to.fill(0.0),
        }
    }
}

/// Stores what [`load_states`] loads.
pub(super) fn store_states(block: &Block<'_>, first: usize, width: usize, padded: usize, from: &[f32]) {
    let Some(memory) = &block.memory else { return };
    for (from, place) in from.chunks_exact(padded).zip(memory.places) {
        memory.states.write(*place as usize, first, &from[..width]);
    }
}

/// Writes hidden states, `padded` apart, as the layer's result.
pub(super) fn give(block: Block<'_>, hidden: usize, padded: usize, from: &[f32]) {
    let rows = block.to.chunks_exact_mut(block.to_stride).zip(from.chunks_exact(padded)).take(block.rows);
    rows.for_each(|(to, from)| to[..hidden].copy_from_slice(&from[..hidden]));
}

impl Kernel for Gru {
    fn run(&self, arch: Arch, block: Block<'_>, scratch: &mut [f32]) {
        let (rows, padded) = (block.rows.next_multiple_of(TILE), self.input.padded() / 3);
        let (x, rest) = scratch.split_at_mut(rows * 3 * padded);
        let (h_gates, rest) = rest.split_at_mut(rows * 3 * padded);
        let h = &mut rest[..rows * padded];
        load_states(&block, self.state, self.hidden, padded, h);
        linear::run(arch, Activation::Identity, &self.input, block.from, block.stride, x);
        linear::run(arch, Activation::Identity, &self.recurrent, h, padded, h_gates);
        arch.dispatch(Gates { x, h_gates, h, padded });
        store_states(&block, self.state, self.hidden, padded, h);
        give(block, self.hidden, padded, h);
    }

    fn scratch(&self, rows: usize) -> usize {
        rows * 7 * (self.input.padded() / 3)
    }
}

struct Gates<'a> {
    /// `[rows, 3 · padded]`.
    x: &'a [f32],
    h_gates: &'a [f32],
    /// `[rows, padded]`, old and new.
    h: &'a mut [f32],
    padded: usize,
}

impl WithSimd for Gates<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let n = self.padded;
        let gates = self.x.chunks_exact(3 * n).zip(self.h_gates.chunks_exact(3 * n));
        for (h, (x, h_gates)) in self.h.chunks_exact_mut(n).zip(gates) {
            let [xr, xz, xn] = [0, 1, 2].map(|i| S::as_simd_f32s(&x[i * n..][..n]).0);
            let [hr, hz, hn] = [0, 1, 2].map(|i| S::as_simd_f32s(&h_gates[i * n..][..n]).0);
            for (i, h) in S::as_mut_simd_f32s(h).0.iter_mut().enumerate() {
                let r = sigmoid(simd, simd.add_f32s(xr[i], hr[i]));
                let z = sigmoid(simd, simd.add_f32s(xz[i], hz[i]));
                let new = Tanh::apply(simd, simd.mul_add_e_f32s(r, hn[i], xn[i]));
                *h = simd.mul_add_e_f32s(z, simd.sub_f32s(*h, new), new);
            }
        }
    }
}
