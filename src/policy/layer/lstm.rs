//! Long short-term memory.

use pulp::{Arch, Simd, WithSimd};

use super::{
    Block, Elementwise, Kernel, Tensors,
    linear::{self, Packed, TILE},
    recurrent::{give, load_states, pack_gates, store_states},
    sigmoid,
    tanh::Tanh,
};
use crate::policy::plan::{Activation, Operation};

/// PyTorch's `LSTM` of one layer (Hochreiter and Schmidhuber 1997; Gers, Schmidhuber and Cummins 2000): gates `i`, `f`,
/// `g`, `o` of `W_i x + b_i + W_h h + b_h`; `c' = σ(f) · c + σ(i) · tanh(g)`, `h' = σ(o) · tanh(c')`.
#[derive(Debug)]
pub(crate) struct Lstm {
    hidden: usize,
    state: usize,
    /// Four gates, each padded to whole panels.
    input: Packed,
    recurrent: Packed,
}

impl Lstm {
    pub(crate) fn new(operation: &Operation, state: usize, tensors: &Tensors<'_>) -> Self {
        let (input, recurrent) = pack_gates(operation, tensors);
        Self { hidden: operation.outputs, state, input, recurrent }
    }
}

impl Kernel for Lstm {
    fn run(&self, arch: Arch, block: Block<'_>, scratch: &mut [f32]) {
        let (rows, padded) = (block.rows.next_multiple_of(TILE), self.input.padded() / 4);
        let (x, rest) = scratch.split_at_mut(rows * 4 * padded);
        let (h_gates, rest) = rest.split_at_mut(rows * 4 * padded);
        let (h, rest) = rest.split_at_mut(rows * padded);
        let c = &mut rest[..rows * padded];
        load_states(&block, self.state, self.hidden, padded, h);
        load_states(&block, self.state + self.hidden, self.hidden, padded, c);
        linear::run(arch, Activation::Identity, &self.input, block.from, block.stride, x);
        linear::run(arch, Activation::Identity, &self.recurrent, h, padded, h_gates);
        arch.dispatch(Gates { x, h_gates, h, c, padded });
        store_states(&block, self.state, self.hidden, padded, h);
        store_states(&block, self.state + self.hidden, self.hidden, padded, c);
        give(block, self.hidden, padded, h);
    }

    fn scratch(&self, rows: usize) -> usize {
        rows * 10 * (self.input.padded() / 4)
    }
}

struct Gates<'a> {
    /// `[rows, 4 · padded]`.
    x: &'a [f32],
    h_gates: &'a [f32],
    /// `[rows, padded]`, new.
    h: &'a mut [f32],
    /// `[rows, padded]`, old and new.
    c: &'a mut [f32],
    padded: usize,
}

impl WithSimd for Gates<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let n = self.padded;
        let gates = self.x.chunks_exact(4 * n).zip(self.h_gates.chunks_exact(4 * n));
        let states = self.h.chunks_exact_mut(n).zip(self.c.chunks_exact_mut(n));
        for ((h, c), (x, h_gates)) in states.zip(gates) {
            let x = [0, 1, 2, 3].map(|gate| S::as_simd_f32s(&x[gate * n..][..n]).0);
            let h_gates = [0, 1, 2, 3].map(|gate| S::as_simd_f32s(&h_gates[gate * n..][..n]).0);
            let states = S::as_mut_simd_f32s(h).0.iter_mut().zip(S::as_mut_simd_f32s(c).0);
            for (k, (h, c)) in states.enumerate() {
                let gate = |gate: usize| simd.add_f32s(x[gate][k], h_gates[gate][k]);
                let kept = simd.mul_f32s(sigmoid(simd, gate(1)), *c);
                *c = simd.mul_add_e_f32s(sigmoid(simd, gate(0)), Tanh::apply(simd, gate(2)), kept);
                *h = simd.mul_f32s(sigmoid(simd, gate(3)), Tanh::apply(simd, *c));
            }
        }
    }
}
