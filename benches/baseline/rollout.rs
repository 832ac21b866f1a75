//! Rollouts of fixed length: one pass over the rows a tick.

use pulp::{Arch, Simd, WithSimd};

use super::{
    cart_pole,
    columns::{Columns, Episode},
    threefry,
};

/// Rows that all passes of a tick go over before the next ones: their state and their frame stay in the first-level
/// cache.
const STRIP: usize = 128;
/// Blocks of the generator side by side.
const LANES: usize = 32;
const DRAWS_PER_FRAME: u32 = 64;
const VALID: u8 = 1;

/// Steps rows and records everything, time-major.
pub struct Rollouts {
    arch: Arch,
    rows: usize,
    ticks: usize,
    version: u64,
    serial: u64,
    env_keys: Vec<[u32; 2]>,
    action_keys: [Vec<u32>; 2],
    state: [Vec<f32>; 4],
    episodes: Vec<u32>,
    steps: Vec<u32>,
    totals: Vec<f32>,
    ids: Vec<u64>,
    first_versions: Vec<u64>,
    started: Vec<u32>,
    columns: Columns,
}

impl Rollouts {
    pub fn new(rows: usize, ticks: usize, seed: u64) -> Self {
        let seed = [seed as u32, (seed >> 32) as u32];
        let key = |row: usize, purpose| threefry::block(seed, [row as u32, purpose]);
        let env_keys: Vec<_> = (0..rows).map(|row| key(row, 0)).collect();
        let start: Vec<_> = env_keys.iter().map(|key| cart_pole::reset(*key, 0)).collect();
        Self {
            arch: Arch::new(),
            rows,
            ticks,
            version: 0,
            serial: rows as u64,
            action_keys: [0, 1].map(|word| (0..rows).map(|row| key(row, 1)[word]).collect()),
            state: [0, 1, 2, 3].map(|i| start.iter().map(|state| state[i]).collect()),
            env_keys,
            episodes: vec![0; rows],
            steps: vec![0; rows],
            totals: vec![0.0; rows],
            ids: (1..=rows as u64).collect(),
            first_versions: vec![0; rows],
            started: (0..rows as u32).collect(),
            columns: Columns::new(rows * ticks, rows),
        }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The next rollout; its columns are overwritten by the one after.
    pub fn roll(&mut self) -> &Columns {
        self.columns.finals.clear();
        self.columns.episodes.clear();
        for (i, slot) in self.columns.observations[..self.rows].iter_mut().enumerate() {
            *slot = [0, 1, 2, 3].map(|word| self.state[word][i]);
        }
        let arch = self.arch;
        for tick in 0..self.ticks {
            for slot in self.started.drain(..) {
                self.first_versions[slot as usize] = self.version;
            }
            for first in (0..self.rows).step_by(STRIP) {
                let rows = first..(first + STRIP).min(self.rows);
                arch.dispatch(Strip { all: self, tick, rows });
            }
        }
        &self.columns
    }

    /// Opens the next episode of a row whose end is set.
    #[inline(always)]
    fn finish(&mut self, tick: usize, row: usize) {
        let frame = tick * self.rows + row;
        let observation = &mut self.columns.observations[frame + self.rows];
        self.columns.finals.push((frame, *observation));
        self.columns.episodes.push(Episode {
            id: self.ids[row],
            row: row as u32,
            tick: tick as u32,
            length: self.steps[row],
            total: self.totals[row],
            first_version: self.first_versions[row],
            last_version: self.version,
            end: self.columns.ends[frame],
        });
        self.started.push(row as u32);
        self.serial += 1;
        self.ids[row] = self.serial;
        (self.steps[row], self.totals[row]) = (0, 0.0);
        self.episodes[row] += 1;
        *observation = cart_pole::reset(self.env_keys[row], self.episodes[row]);
        for (column, value) in self.state.iter_mut().zip(*observation) {
            column[row] = value;
        }
    }
}

/// One tick of a few rows.
struct Strip<'a> {
    all: &'a mut Rollouts,
    tick: usize,
    rows: std::ops::Range<usize>,
}

impl WithSimd for Strip<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { all, tick, rows } = self;
        let frames = tick * all.rows + rows.start..tick * all.rows + rows.end;
        let columns = &mut all.columns;
        let actions = &mut columns.actions[frames.clone()];
        let keys = all.action_keys.each_ref().map(|words| &words[rows.clone()]);
        act(keys, &all.episodes[rows.clone()], &all.steps[rows.clone()], actions);

        let next = &mut columns.observations[frames.start + all.rows..frames.end + all.rows];
        let ends = &mut columns.ends[frames.clone()];
        let state = all.state.each_mut().map(|column| &mut column[rows.clone()]);
        cart_pole::step(actions, &all.steps[rows.clone()], state, next, ends);

        columns.rewards[frames.clone()].fill(1.0);
        columns.steps[frames.clone()].copy_from_slice(&all.steps[rows.clone()]);
        columns.ids[frames.clone()].copy_from_slice(&all.ids[rows.clone()]);
        columns.flags[frames.clone()].fill(VALID);
        columns.versions[frames.clone()].fill(all.version);
        for (step, total) in all.steps[rows.clone()].iter_mut().zip(&mut all.totals[rows.clone()]) {
            *step += 1;
            *total += 1.0;
        }
        for (i, row) in rows.enumerate() {
            if all.columns.ends[frames.start + i] != 0 {
                all.finish(tick, row);
            }
        }
    }
}

/// A uniform action for each row.
#[inline(always)]
fn act(keys: [&[u32]; 2], episodes: &[u32], steps: &[u32], actions: &mut [i32]) {
    let n = actions.len();
    let whole = n - n % LANES;
    for at in (0..whole).step_by(LANES) {
        draw::<LANES>(keys, episodes, steps, actions, at);
    }
    for at in whole..n {
        draw::<1>(keys, episodes, steps, actions, at);
    }
}

#[inline(always)]
fn draw<const N: usize>(keys: [&[u32]; 2], episodes: &[u32], steps: &[u32], actions: &mut [i32], at: usize) {
    let lanes = |column: &[u32]| -> [u32; N] { std::array::from_fn(|i| column[at..at + N][i]) };
    let counter = [lanes(steps).map(|step| step.wrapping_mul(DRAWS_PER_FRAME)), lanes(episodes)];
    let [words, _] = threefry::blocks(keys.map(lanes), counter);
    for (action, word) in actions[at..at + N].iter_mut().zip(words) {
        // A uniform choice among two by multiplication is the upper bit.
        *action = (word >> 31) as i32;
    }
}
