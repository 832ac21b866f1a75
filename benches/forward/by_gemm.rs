//! The logits of 4-64-64-2 by a matrix-multiply crate, with a pass over each layer's result for its activation, both by the
//! widest instructions that the machine has.

use std::hint::black_box;

use gemm::{Parallelism, gemm};
use gleaner::math;
use pulp::Arch;

pub struct Perceptron {
    arch: Arch,
    rows: usize,
    /// By layer: `[outputs, inputs]` and biases.
    layers: Vec<(Vec<f32>, Vec<f32>)>,
    /// Input and results, `[rows, width]`.
    matrices: Vec<Vec<f32>>,
}

const WIDTHS: [usize; 4] = [4, 64, 64, 2];

impl Perceptron {
    pub fn new(rows: usize) -> Self {
        let layers = WIDTHS.windows(2).map(|pair| (vec![0.01; pair[0] * pair[1]], vec![0.1; pair[1]])).collect();
        let matrices = WIDTHS.iter().map(|width| vec![0.5; rows * width]).collect();
        Self { arch: Arch::new(), rows, layers, matrices }
    }

    #[expect(unsafe_code, reason = "the crate's only entry takes pointers")]
    pub fn forward(&mut self) -> u64 {
        for (i, (weight, bias)) in self.layers.iter().enumerate() {
            let (inputs, outputs) = (WIDTHS[i], WIDTHS[i + 1]);
            let (before, behind) = self.matrices.split_at_mut(i + 1);
            let (from, to) = (&before[i], &mut behind[0]);
            // SAFETY: the matrices have `rows · inputs`, `inputs · outputs` and `rows · outputs` elements, and strides
            // to match.
            unsafe {
                let (m, n, k) = (self.rows, outputs, inputs);
                let (weights, read) = (weight.as_ptr(), from.as_ptr());
                let strides = |row: usize| (1, row as isize);
                let ((to_c, to_r), (from_c, from_r)) = (strides(outputs), strides(inputs));
                // The transposed weights have rows of one element's distance.
                let (weight_c, weight_r) = (inputs as isize, 1);
                let none = Parallelism::None;
                gemm(
                    m,
                    n,
                    k,
                    to.as_mut_ptr(),
                    to_c,
                    to_r,
                    false,
                    read,
                    from_c,
                    from_r,
                    weights,
                    weight_c,
                    weight_r,
                    0.0,
                    1.0,
                    false,
                    false,
                    false,
                    none,
                );
            }
            let last = i + 2 == WIDTHS.len();
            self.arch.dispatch(|| {
                for row in to.chunks_exact_mut(outputs) {
                    for (x, bias) in row.iter_mut().zip(bias) {
                        *x = if last { *x + bias } else { math::tanh(*x + bias) };
                    }
                }
            });
        }
        black_box(&self.matrices);
        self.rows as u64
    }
}
