//! The most multiplications and additions that one core does.

use std::hint::black_box;

use pulp::{Arch, Simd, WithSimd};

/// Chains of multiply-adds that do not wait for each other: more than any processor has in flight.
const CHAINS: usize = 12;

struct Chains {
    steps: usize,
}

impl WithSimd for Chains {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let (factor, term) = (simd.splat_f32s(black_box(0.5)), simd.splat_f32s(black_box(1.0)));
        let mut sums = [term; CHAINS];
        for _ in 0..self.steps {
            for sum in &mut sums {
                *sum = simd.mul_add_e_f32s(*sum, factor, term);
            }
        }
        sums.into_iter().map(|sum| simd.reduce_sum_f32s(sum)).sum()
    }
}

struct Lanes;

impl WithSimd for Lanes {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        S::F32_LANES
    }
}

/// Does `operations` multiplications and additions for each of `rows` rows.
pub fn multiply_adds(rows: usize, operations: usize) -> u64 {
    let arch = Arch::new();
    let steps = rows * operations / (2 * CHAINS * arch.dispatch(Lanes));
    black_box(arch.dispatch(Chains { steps }));
    rows as u64
}
