//! A sampler's random numbers: a stream whose place is part of its state.

use crate::seed::{Purpose, Seed, threefry};

/// Numbers by counter: the block at counter `[draw, draw >> 32]` under the key of (seed, 0, [`Purpose::Replay`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Draws {
    key: [u32; 2],
    next: u64,
}

impl Draws {
    pub(super) fn new(seed: u64) -> Self {
        Self::stream(seed, 0)
    }

    /// One of several streams of a seed: 0 is that of samplers, 1 of mixtures, 2 of hindsight.
    pub(super) fn stream(seed: u64, stream: u32) -> Self {
        Self { key: Seed(seed).row_key(stream, Purpose::Replay), next: 0 }
    }

    /// 64 random bits.
    #[inline]
    pub(super) fn bits(&mut self) -> u64 {
        let [low, high] = threefry(self.key, [self.next as u32, (self.next >> 32) as u32]);
        self.next = self.next.wrapping_add(1);
        u64::from(low) | u64::from(high) << 32
    }

    /// A whole number in `0..n`, by Lemire's multiplication; 0 when `n` is 0. The bias is at most `n / 2⁶⁴`.
    #[inline]
    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// The stream from `n` blocks on.
    #[inline]
    pub(super) fn ahead(&self, n: u64) -> Self {
        Self { next: self.next.wrapping_add(n), ..*self }
    }

    /// A number in `[0, 1)`, from 53 bits.
    #[inline]
    pub(super) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
