//! Property: equal to the definitions, written out as sums over each episode in f64.

use gleaner::{
    components::{End, Flags, Truncation},
    rollout::{Chain, VTrace},
    seed::{Purpose, Seed, Stream},
};
use proptest::prelude::*;

/// Random columns with NaN wherever nothing may be read.
struct Columns {
    ends: Vec<End>,
    flags: Vec<Flags>,
    rewards: Vec<f32>,
    values: Vec<f32>,
    next: Vec<f32>,
    ratios: Vec<f32>,
    stride: usize,
    /// Slots of each episode, in order.
    episodes: Vec<Vec<usize>>,
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    TimeMajor,
    Flat,
    Padded,
}

fn columns(mode: Mode, rows: usize, ticks: usize, seed: u64) -> Columns {
    let mut stream = Stream::new(Seed(seed), 0, Purpose::Env, 0);
    let slots = rows * ticks;
    let stride = if matches!(mode, Mode::TimeMajor) { rows } else { 1 };
    let mut ends = vec![End::RUNNING; slots];
    let mut flags = vec![Flags::VALID; slots];
    for i in 0..slots {
        match stream.below(12) {
            0 => ends[i] = End::TERMINATED,
            1 => ends[i] = End::truncated_by(Truncation::StepLimit),
            2 => ends[i] = End::TERMINATED.or_truncated(Truncation::StepLimit),
            3 if matches!(mode, Mode::TimeMajor) => (ends[i], flags[i]) = (End::RUNNING, Flags::INVALID),
            _ => {}
        }
    }
    if matches!(mode, Mode::Padded) {
        for episode in 0..rows {
            let length = 1 + stream.below(ticks as u32) as usize;
            ends[episode * ticks..][..ticks].fill(End::RUNNING);
            ends[episode * ticks + length - 1] = End::from_env(stream.below(2) == 0, true);
            flags[episode * ticks + length..(episode + 1) * ticks].fill(Flags::INVALID);
        }
    }
    let mut number = |i: usize| if flags[i].valid() { 3.0 * stream.normal() } else { f32::NAN };
    let rewards = (0..slots).map(&mut number).collect();
    let values = (0..slots).map(&mut number).collect();
    let ratios = (0..slots).map(&mut number).collect();
    let next = (0..slots).map(|i| if ends[i].terminated() { f32::NAN } else { number(i) }).collect();
    let episodes = episodes(&ends, &flags, stride);
    Columns { ends, flags, rewards, values, next, ratios, stride, episodes }
}

fn episodes(ends: &[End], flags: &[Flags], stride: usize) -> Vec<Vec<usize>> {
    let mut episodes = Vec::new();
    for first in 0..stride {
        let mut episode = Vec::new();
        for i in (first..ends.len()).step_by(stride) {
            if flags[i].valid() {
                episode.push(i);
            }
            if !flags[i].valid() || ends[i].done() {
                episodes.push(std::mem::take(&mut episode));
            }
        }
        episodes.push(episode);
    }
    episodes.retain(|episode| !episode.is_empty());
    episodes
}

impl Columns {
    fn value_after(&self, i: usize) -> f64 {
        if self.ends[i].terminated() { 0.0 } else { f64::from(self.next[i]) }
    }

    fn delta(&self, i: usize, gamma: f64) -> f64 {
        f64::from(self.rewards[i]) + gamma * self.value_after(i) - f64::from(self.values[i])
    }

    /// Rewards of up to `n` frames from the first of `tail`, then a value if `bootstrap`.
    fn sum(&self, tail: &[usize], n: usize, gamma: f64, bootstrap: bool) -> f64 {
        let frames = tail.len().min(n);
        let rewards = (0..frames).map(|k| gamma.powi(k as i32) * f64::from(self.rewards[tail[k]])).sum::<f64>();
        let last = if bootstrap { self.value_after(tail[frames - 1]) } else { 0.0 };
        rewards + gamma.powi(frames as i32) * last
    }

    fn gae(&self, tail: &[usize], gamma: f64, lambda: f64) -> f64 {
        (0..tail.len()).map(|k| (gamma * lambda).powi(k as i32) * self.delta(tail[k], gamma)).sum()
    }

    /// Equation 1 of Espeholt et al. 2018: `v`.
    fn vtrace(&self, tail: &[usize], o: &VTrace) -> f64 {
        let gamma = f64::from(o.gamma);
        let ratio = |i: usize| f64::from(self.ratios[i]).exp();
        let term = |k: usize| {
            let traces = tail[..k].iter().map(|i| f64::from(o.lambda) * ratio(*i).min(f64::from(o.c_clip)));
            let rho = ratio(tail[k]).min(f64::from(o.rho_clip));
            gamma.powi(k as i32) * traces.product::<f64>() * rho * self.delta(tail[k], gamma)
        };
        f64::from(self.values[tail[0]]) + (0..tail.len()).map(term).sum::<f64>()
    }

    fn vtrace_advantage(&self, tail: &[usize], o: &VTrace) -> f64 {
        let rho = f64::from(self.ratios[tail[0]]).exp().min(f64::from(o.rho_clip));
        let after = if tail.len() > 1 { self.vtrace(&tail[1..], o) } else { self.value_after(tail[0]) };
        rho * (f64::from(self.rewards[tail[0]]) + f64::from(o.gamma) * after - f64::from(self.values[tail[0]]))
    }
}

/// The first slot where `got` differs from `want`, which is given the frames from a slot to the end of its episode.
fn difference(c: &Columns, got: &[f32], want: impl Fn(&[usize]) -> f64) -> Option<String> {
    let mut all = vec![0.0; got.len()];
    for episode in &c.episodes {
        for k in 0..episode.len() {
            all[episode[k]] = want(&episode[k..]);
        }
    }
    let close = |got: f32, want: f64| (f64::from(got) - want).abs() <= 1e-5 * want.abs().max(1.0);
    let wrong = (0..got.len()).find(|i| !close(got[*i], all[*i]))?;
    Some(format!("slot {wrong} is {}, not {}", got[wrong], all[wrong]))
}

/// Every estimator of `chain` against its definition.
fn first_error(c: &Columns, chain: &Chain, n: usize, o: &VTrace) -> Option<String> {
    let (gamma, lambda) = (f64::from(o.gamma), f64::from(o.lambda));
    let gae = chain.gae(&c.rewards, &c.values, &c.next, o.gamma, o.lambda).unwrap();
    let vtrace = chain.vtrace(&c.rewards, &c.values, &c.next, &c.ratios, o).unwrap();
    let sums = chain.rewards_to_go(&c.rewards, o.gamma).unwrap();
    let returns = chain.returns_to_go(&c.rewards, &c.next, o.gamma).unwrap();
    let steps = chain.n_step(&c.rewards, &c.next, n, o.gamma).unwrap();
    let differences = [
        difference(c, &sums, |tail| c.sum(tail, usize::MAX, gamma, false)).map(|at| format!("rewards_to_go: {at}")),
        difference(c, &returns, |tail| c.sum(tail, usize::MAX, gamma, true)).map(|at| format!("returns_to_go: {at}")),
        difference(c, &steps, |tail| c.sum(tail, n, gamma, true)).map(|at| format!("n_step: {at}")),
        difference(c, &gae.advantages, |tail| c.gae(tail, gamma, lambda)).map(|at| format!("gae: {at}")),
        difference(c, &gae.targets, |tail| c.gae(tail, gamma, lambda) + f64::from(c.values[tail[0]]))
            .map(|at| format!("gae targets: {at}")),
        difference(c, &vtrace.targets, |tail| c.vtrace(tail, o)).map(|at| format!("vtrace: {at}")),
        difference(c, &vtrace.advantages, |tail| c.vtrace_advantage(tail, o)).map(|at| format!("vtrace adv.: {at}")),
    ];
    differences.into_iter().flatten().next()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn estimators_are_their_definitions(
        mode in prop::sample::select(vec![Mode::TimeMajor, Mode::Flat, Mode::Padded]),
        (rows, ticks, seed, n) in (1_usize..=67, 1_usize..=33, any::<u64>(), 1_usize..=40),
        (gamma, lambda, rho_clip, c_clip) in (0.0_f32..=1.0, 0.0_f32..=1.0, 0.1_f32..4.0, 0.1_f32..1.0),
    ) {
        let c = columns(mode, rows, ticks, seed);
        let chain = Chain::new(&c.ends, &c.flags, c.stride).unwrap();
        prop_assert_eq!(first_error(&c, &chain, n, &VTrace { gamma, lambda, rho_clip, c_clip }), None);
    }
}

#[test]
fn the_property_finds_a_recursion_that_is_not_cut() {
    let c = columns(Mode::TimeMajor, 5, 20, 1);
    let o = VTrace { gamma: 0.9, lambda: 0.8, ..VTrace::default() };
    let right = Chain::new(&c.ends, &c.flags, c.stride).unwrap();
    assert_eq!(first_error(&c, &right, 3, &o), None);
    // The same columns, but time limits are not seen.
    let blind: Vec<End> = c.ends.iter().map(|end| if end.terminated() { *end } else { End::RUNNING }).collect();
    let wrong = Chain::new(&blind, &c.flags, c.stride).unwrap();
    assert!(first_error(&c, &wrong, 3, &o).is_some());
}
