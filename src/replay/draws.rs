//! A sampler's random numbers: a stream whose place is part of its state.

use crate::seed::{Purpose, Seed, threefry_lanes};

/// Numbers that are made at a time: vector instructions make several in the time of one.
pub(super) const MADE: usize = 32;
const LANES: usize = 16;

/// Numbers by counter: the block at counter `[draw, draw >> 32]` under the key of (seed, 0, [`Purpose::Replay`]).
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Draws {
    key: [u32; 2],
    next: u64,
    #[serde(skip)]
    made: Made,
}

/// The numbers of some counters in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Made {
    first: u64,
    /// How many there are; none before any was needed.
    len: u64,
    bits: [u64; MADE],
}

impl Draws {
    pub(super) fn new(seed: u64) -> Self {
        Self::stream(seed, 0)
    }

    /// One of several streams of a seed: 0 is that of samplers, 1 of mixtures, 2 of hindsight.
    pub(super) fn stream(seed: u64, stream: u32) -> Self {
        Self { key: Seed(seed).row_key(stream, Purpose::Replay), next: 0, made: Made::default() }
    }

    /// 64 random bits.
    #[inline]
    pub(super) fn bits(&mut self) -> u64 {
        if self.next.wrapping_sub(self.made.first) >= self.made.len {
            self.make();
        }
        let at = self.next.wrapping_sub(self.made.first);
        self.next = self.next.wrapping_add(1);
        self.made.bits[at as usize]
    }

    /// The numbers that come next, without taking them.
    pub(super) fn ahead(&mut self) -> &[u64; MADE] {
        if self.next != self.made.first || self.made.len == 0 {
            self.make();
        }
        &self.made.bits
    }

    /// Makes numbers from the next one on.
    #[inline(never)]
    fn make(&mut self) {
        self.made.first = self.next;
        self.made.len = MADE as u64;
        let (key, next) = (self.key.map(|word| [word; LANES]), self.next);
        pulp::Arch::new().dispatch(Make { key, next, bits: &mut self.made.bits });
    }

    /// A whole number in `0..n`; 0 when `n` is 0.
    #[inline]
    pub(super) fn below(&mut self, n: u64) -> u64 {
        below(self.bits(), n)
    }

    /// A number in `[0, 1)`, from 53 bits.
    #[inline]
    pub(super) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Makes the numbers from counter `next` on, with the widest instructions that there are.
struct Make<'a> {
    key: [[u32; LANES]; 2],
    next: u64,
    bits: &'a mut [u64; MADE],
}

impl pulp::NullaryFnOnce for Make<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (i, bits) in self.bits.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let at: [u64; LANES] = std::array::from_fn(|lane| self.next.wrapping_add((i * LANES + lane) as u64));
            let [low, high] = threefry_lanes(self.key, [at.map(|at| at as u32), at.map(|at| (at >> 32) as u32)]);
            *bits = std::array::from_fn(|lane| u64::from(low[lane]) | u64::from(high[lane]) << 32);
        }
    }
}

/// Random bits as a whole number in `0..n`, by Lemire's multiplication; 0 when `n` is 0. The bias is at most `n / 2⁶⁴`.
#[inline]
pub(super) fn below(bits: u64, n: u64) -> u64 {
    ((u128::from(bits) * u128::from(n)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::threefry;

    #[test]
    fn numbers_are_those_of_their_counters() {
        for begin in [0, 5, u64::from(u32::MAX) - 20, u64::MAX - 40] {
            let mut draws = Draws { next: begin, ..Draws::new(3) };
            for i in 0..100 {
                let at = begin.wrapping_add(i);
                let [low, high] = threefry(draws.key, [at as u32, (at >> 32) as u32]);
                let wanted = u64::from(low) | u64::from(high) << 32;
                if i % 7 == 0 {
                    assert_eq!(draws.ahead()[0], wanted, "ahead, counter {at}");
                }
                assert_eq!(draws.bits(), wanted, "counter {at}");
            }
        }
    }
}
