//! The gated recurrent unit.

use pulp::{Arch, Simd, WithSimd};

use super::{
    Block, Elementwise, Kernel, Tensors,
    linear::{self, Packed, TILE},
    recurrent::{give, load_states, pack_gates, store_states},
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
