//! Randomness: counter-based, keyed by (seed, global row, purpose, episode, draw).
//!
//! The generator is Threefry2x32 with 20 rounds (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
//! 1, 2, 3", SC 2011, section 4.2): 32-bit additions, rotations and xors, so the WGSL twin in
//! `shaders/shared/threefry.wgsl` gives the same bits. Nothing in gleaner draws from anywhere else.
//!
//! ```text
//! row key  = threefry(key: seed,    counter: [row, purpose])
//! block    = threefry(key: row key, counter: [draw, episode])     two words a draw
//! ```
//!
//! No worker, thread or batch is in a key, so the data of a row do not depend on how rows are split.

use bevy_ecs::prelude::Component;
use serde::{Deserialize, Serialize};

/// Rotations of rounds 0 to 3, 8 to 11, 16 to 19 …
const EVEN: [u32; 4] = [13, 15, 26, 6];
/// … and of those between.
const ODD: [u32; 4] = [17, 29, 16, 24];
/// The key schedule's parity constant for 32-bit words, `SKEIN_KS_PARITY32` of the reference implementation.
const PARITY: u32 = 0x1BD1_1BDA;

/// One block of Threefry2x32-20: two words from a key and a counter.
#[inline(always)]
pub fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    let [[a], [b]] = threefry_lanes([[key[0]], [key[1]]], [[counter[0]], [counter[1]]]);
    [a, b]
}

/// `N` independent blocks at once, word-major so that the compiler keeps one word of all lanes in a register.
#[inline(always)]
pub fn threefry_lanes<const N: usize>(key: [[u32; N]; 2], counter: [[u32; N]; 2]) -> [[u32; N]; 2] {
    let mut x = counter;
    let mut parity = [PARITY; N];
    for i in 0..N {
        parity[i] ^= key[0][i] ^ key[1][i];
        x[0][i] = x[0][i].wrapping_add(key[0][i]);
        x[1][i] = x[1][i].wrapping_add(key[1][i]);
    }
    group(&mut x, EVEN, &key[1], &parity, 1);
    group(&mut x, ODD, &parity, &key[0], 2);
    group(&mut x, EVEN, &key[0], &key[1], 3);
    group(&mut x, ODD, &key[1], &parity, 4);
    group(&mut x, EVEN, &parity, &key[0], 5);
    x
}

/// Four rounds and an injection of the key. Written out, so that every rotation is a constant when it is compiled:
/// vector instructions have no other kind.
#[inline(always)]
fn group<const N: usize>(x: &mut [[u32; N]; 2], rotations: [u32; 4], a: &[u32; N], b: &[u32; N], number: u32) {
    round(x, rotations[0]);
    round(x, rotations[1]);
    round(x, rotations[2]);
    round(x, rotations[3]);
    for i in 0..N {
        x[0][i] = x[0][i].wrapping_add(a[i]);
        x[1][i] = x[1][i].wrapping_add(b[i]).wrapping_add(number);
    }
}

#[inline(always)]
fn round<const N: usize>(x: &mut [[u32; N]; 2], rotation: u32) {
    let [first, second] = x;
    for (a, b) in first.iter_mut().zip(second) {
        *a = a.wrapping_add(*b);
        *b = b.rotate_left(rotation) ^ *a;
    }
}

/// A word as a uniform number in `[0, 1)`, from its upper 24 bits, so every value is exact in `f32`.
#[inline(always)]
pub fn unit(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// What a row draws numbers for; each purpose has a stream of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// The environment's `reset` and `step`.
    Env = 0,
    /// The policy's actions, random warm-up included.
    Action = 1,
    /// The factory that builds the row's environment.
    Factory = 2,
    /// Shuffling of minibatches; keyed by the seed given there, not by a row.
    Shuffle = 3,
    /// The next seed of the chain.
    Chain = 4,
    /// Initial weights; keyed by the tensor's place in the network, not by a row.
    Init = 5,
    /// A replay sampler's draws; keyed by its seed, not by a row.
    Replay = 6,
}

/// The master seed of a collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed(pub u64);

impl Seed {
    /// The key of the stream that `row` uses for `purpose`.
    #[inline]
    pub fn row_key(self, row: u32, purpose: Purpose) -> [u32; 2] {
        threefry(self.words(), [row, purpose as u32])
    }

    /// The seed that follows in the documented chain: the block at counter `[0, Purpose::Chain]` under this seed.
    pub fn next(self) -> Self {
        let [low, high] = self.row_key(0, Purpose::Chain);
        Self(u64::from(low) | u64::from(high) << 32)
    }

    fn words(self) -> [u32; 2] {
        [self.0 as u32, (self.0 >> 32) as u32]
    }
}

/// A stream of random numbers of one row, purpose and episode. The environment's own stream is a column.
#[derive(Component, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    key: [u32; 2],
    episode: u32,
    draw: u32,
}

impl Stream {
    /// The stream of `row` for `purpose` in `episode`, at its first draw.
    pub fn new(seed: Seed, row: u32, purpose: Purpose, episode: u32) -> Self {
        Self::from_key(seed.row_key(row, purpose), episode, 0)
    }

    /// The stream under `key` from [`Seed::row_key`], about to make draw number `draw` of `episode`.
    #[inline]
    pub fn from_key(key: [u32; 2], episode: u32, draw: u32) -> Self {
        Self { key, episode, draw }
    }

    /// The episode that the draws belong to.
    pub fn episode(&self) -> u32 {
        self.episode
    }

    /// Draws that were made in the episode, wrapping.
    pub fn draws(&self) -> u32 {
        self.draw
    }

    /// Starts a new episode of the same row and purpose at its first draw.
    #[inline]
    pub fn start_episode(&mut self, episode: u32) {
        self.episode = episode;
        self.draw = 0;
    }

    /// Two independent words: one draw.
    #[inline]
    pub fn pair(&mut self) -> [u32; 2] {
        let [pair] = self.pairs();
        pair
    }

    /// `N` draws at once: the words of as many calls of [`pair`](Self::pair), in less time.
    #[inline]
    pub fn pairs<const N: usize>(&mut self) -> [[u32; 2]; N] {
        let draws = std::array::from_fn(|i| self.draw.wrapping_add(i as u32));
        let [first, second] = threefry_lanes(self.key.map(|word| [word; N]), [draws, [self.episode; N]]);
        self.draw = self.draw.wrapping_add(N as u32);
        std::array::from_fn(|i| [first[i], second[i]])
    }

    /// The words of [`pairs`](Self::pairs) of the streams at `places`, side by side: the first word of every lane, then the
    /// second, of each draw. A place may come several times: its stream moves on once.
    #[inline(always)]
    pub(crate) fn pairs_of<const L: usize, const N: usize>(
        streams: &mut [Self],
        places: &[usize; L],
    ) -> [[[u32; L]; 2]; N] {
        let [mut keys, mut counters] = [[[0; L]; 2]; 2];
        for (lane, place) in places.iter().enumerate() {
            let Self { key, episode, draw } = streams[*place];
            (keys[0][lane], keys[1][lane]) = (key[0], key[1]);
            (counters[0][lane], counters[1][lane]) = (draw, episode);
        }
        for (place, draw) in places.iter().zip(counters[0]) {
            streams[*place].draw = draw.wrapping_add(N as u32);
        }
        let mut words = [[[0; L]; 2]; N];
        for (draw, words) in words.iter_mut().enumerate() {
            for lane in 0..L {
                let counter = [counters[0][lane].wrapping_add(draw as u32), counters[1][lane]];
                let [first, second] = threefry([keys[0][lane], keys[1][lane]], counter);
                (words[0][lane], words[1][lane]) = (first, second);
            }
        }
        words
    }

    /// One word: one draw.
    #[inline]
    pub fn word(&mut self) -> u32 {
        self.pair()[0]
    }

    /// A uniform number in `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f32 {
        unit(self.word())
    }

    /// A uniform number in `[low, high)`.
    #[inline]
    pub fn uniform(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// A uniform whole number in `0..n`, by Lemire's multiplication; `0` when `n` is 0. The bias is at most `n / 2³²`.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        below(self.word(), n)
    }

    /// A standard normal number (Box and Muller 1958).
    pub fn normal(&mut self) -> f32 {
        let [a, b] = self.pair();
        crate::math::box_muller(a, b)[0]
    }
}

/// Maps a word to `0..n` by multiplication.
#[inline(always)]
pub fn below(word: u32, n: u32) -> u32 {
    ((u64::from(word) * u64::from(n)) >> 32) as u32
}

/// The policy's streams of a run of rows: what a function policy draws its actions from.
///
/// A frame has `draws` draws of its own, so the numbers of a row depend on its episode and step alone.
pub struct Streams<'a> {
    keys: &'a [ActionKey],
    episodes: &'a [crate::components::Episode],
    steps: &'a [crate::components::EpisodeStep],
}

/// Draws a function policy may make for one frame of a row; the next frame's start behind them.
pub const DRAWS_PER_FRAME: u32 = 64;

/// The key of a row's action stream: a column.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct ActionKey(pub [u32; 2]);

impl<'a> Streams<'a> {
    /// Streams over columns of equal length.
    pub fn new(
        keys: &'a [ActionKey],
        episodes: &'a [crate::components::Episode],
        steps: &'a [crate::components::EpisodeStep],
    ) -> Self {
        Self { keys, episodes, steps }
    }

    /// Rows in this run.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The columns: keys, episodes, steps.
    #[inline(always)]
    pub(crate) fn columns(
        &self,
    ) -> (&'a [ActionKey], &'a [crate::components::Episode], &'a [crate::components::EpisodeStep]) {
        (self.keys, self.episodes, self.steps)
    }

    /// The stream of the `i`-th row of the run for the coming frame; [`DRAWS_PER_FRAME`] draws are its own.
    #[inline]
    pub fn row(&self, i: usize) -> Stream {
        Stream::from_key(self.keys[i].0, self.episodes[i].0, self.steps[i].0.wrapping_mul(DRAWS_PER_FRAME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the Random123 distribution, `kat_vectors`: threefry2x32 20.
    #[test]
    fn published_vectors() {
        assert_eq!(threefry([0, 0], [0, 0]), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(threefry([u32::MAX; 2], [u32::MAX; 2]), [0x1cb9_96fc, 0xbb00_2be7]);
        assert_eq!(threefry([0x1319_8a2e, 0x0370_7344], [0x243f_6a88, 0x85a3_08d3]), [0xc492_3a9c, 0x483d_f7a0]);
    }

    #[test]
    fn lanes_equal_single_blocks() {
        let key = [[1, 2, 3, 4], [5, 6, 7, 8]];
        let counter = [[9, 10, 11, 12], [13, 14, 15, 16]];
        let lanes = threefry_lanes(key, counter);
        for i in 0..4 {
            let block = threefry([key[0][i], key[1][i]], [counter[0][i], counter[1][i]]);
            assert_eq!([lanes[0][i], lanes[1][i]], block, "lane {i}");
        }
    }

    #[test]
    fn draws_at_once_are_draws_one_by_one() {
        let [mut one, mut many] = [Stream::new(Seed(3), 5, Purpose::Env, 2); 2];
        assert_eq!((many.pairs::<3>(), many), ([one.pair(), one.pair(), one.pair()], one));
    }

    #[test]
    fn the_chain_has_no_short_cycle() {
        let mut seen = std::collections::HashSet::new();
        let mut seed = Seed(7);
        for _ in 0..10_000 {
            assert!(seen.insert(seed.0), "{seed:?} came twice");
            seed = seed.next();
        }
    }

    #[test]
    fn below_reaches_every_value_and_none_beyond() {
        assert_eq!(below(u32::MAX, 5), 4);
        assert_eq!(below(0, 5), 0);
        assert_eq!(below(u32::MAX, 0), 0);
    }
}
