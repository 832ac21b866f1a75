//! A steady tick allocates nothing: with a network, episodes ending, batches yielded and dropped or written to a replay
//! buffer, in both modes, on one thread and on two. With two threads a rollout enters the pool once, whose queue allocates a
//! block in 63 entries.

mod counting;
#[path = "support/least.rs"]
mod least;

use std::sync::atomic::Ordering::Relaxed;

use counting::ALLOCATIONS;
use gleaner::{
    env::CartPoleOptions,
    policy::{Backend, NetworkSpec, Policy, plan::Activation},
    prelude::{CartPole, Collector, FaultPolicy, Pendulum, Replay, ReplayWriteMode, Rows},
};
use least::least_of;

const ROWS: usize = 64;
const TICKS: u64 = 50;

fn collector(trajectories: bool, threads: usize, policies: usize, replay: bool) -> Collector<CartPole> {
    // Small, so that the test ends before the test runner says, with allocations of its own, that it takes long.
    let network = || Policy::network(NetworkSpec::mlp(&[16, 16], Activation::Tanh)).backend(Backend::Cpu);
    let builder = Collector::<CartPole>::builder().rows(ROWS).frames_per_batch(ROWS * TICKS as usize);
    let builder = match policies {
        1 => builder.policy(network()),
        _ => builder.policies([(20..ROWS, network()), (0..20, network())]),
    };
    let builder = builder.reset_options(CartPoleOptions::default()).threads(threads);
    let builder = builder.step_rows_per_thread(8).infer_rows_per_thread(8);
    // Rows that may start anew cost nothing while none fails.
    let builder = if threads == 2 { builder.on_fault(FaultPolicy::RestartRow { retries: 1 }) } else { builder };
    let builder = match (replay, trajectories) {
        (false, false) => builder,
        (false, true) => builder.trajs_per_batch(40),
        (true, false) => builder.replay(&Replay::new(20_000).unwrap()),
        (true, true) => {
            let builder = builder.replay(&Replay::new(20_000).unwrap()).replay_write_mode(ReplayWriteMode::Trajectory);
            // The bound does its work too.
            builder.max_open_frames(ROWS * 15)
        }
    };
    builder.build().unwrap()
}

/// Takes one batch, or one receipt.
fn take(collector: &mut Collector<CartPole>) {
    match collector.replay() {
        Some(_) => drop(collector.next_receipt().expect("endless").expect("no fault")),
        None => drop(collector.next().expect("endless").expect("no fault")),
    }
}

/// Yields and drops batches until `frames` more were stepped; gives the number of batches.
fn run(collector: &mut Collector<CartPole>, frames: u64) -> u64 {
    let (start, batches) = (collector.stats().stepped_frames, collector.stats().batches);
    while collector.stats().stepped_frames < start + frames {
        take(collector);
    }
    collector.stats().batches - batches
}

/// Whether whole trajectories are collected, threads, policies, and whether a replay buffer gets them.
const STEADY: [(bool, usize, usize, bool); 9] = [
    (false, 1, 1, false),
    (true, 1, 1, false),
    (false, 2, 1, false),
    (true, 2, 1, false),
    (false, 1, 2, false),
    (true, 2, 2, false),
    (false, 1, 1, true),
    (true, 1, 1, true),
    (false, 2, 1, true),
];

/// One test, so that hardly any other thread of the test runner allocates meanwhile: its main thread may, once.
#[test]
fn a_thousand_steady_ticks_allocate_nothing() {
    for (trajectories, threads, policies, replay) in STEADY {
        let mut collector = collector(trajectories, threads, policies, replay);
        run(&mut collector, 4_000 * ROWS as u64);
        // `stats()` itself allocates a name, so the number of batches is taken beforehand.
        let batches = run(&mut collector, 1_000 * ROWS as u64) + 40;
        let excess = least_of(2, 0, || {
            let begin = collector.stats();
            let before = ALLOCATIONS.load(Relaxed);
            for _ in 0..batches {
                take(&mut collector);
            }
            let allocations = ALLOCATIONS.load(Relaxed) - before;
            let stats = collector.stats();
            let stepped = stats.stepped_frames - begin.stepped_frames;
            assert!(stepped >= 1_000 * ROWS as u64, "{batches} batches are too few");
            assert!(stats.completed_trajectories > begin.completed_trajectories + 100, "hardly an episode ended");
            assert_eq!(stats.early_pieces > Some(0), trajectories && replay);
            let rollouts = stepped / (ROWS as u64 * TICKS);
            let allowed = if threads == 1 { 0 } else { rollouts.div_ceil(63) };
            allocations.saturating_sub(allowed)
        });
        let what = format!("trajectories {trajectories}, {threads} threads, {policies} policies, replay {replay}");
        assert_eq!(excess, 0, "{what}: allocations");
    }
    assert_eq!(least_of(2, 0, episodes_that_go_on_under_weights_of_before), 0, "with two sets");
}

/// Allocations while half of the rows act by one set of weights, half by another.
fn episodes_that_go_on_under_weights_of_before() -> u64 {
    let network = Policy::network(NetworkSpec::mlp(&[16, 16], Activation::Tanh)).backend(Backend::Cpu);
    let builder = Collector::<Pendulum>::builder().rows(ROWS).frames_per_batch(10 * ROWS).policy(network);
    let mut collector = builder.one_version_per_trajectory(true).build().unwrap();
    let take = |collector: &mut Collector<Pendulum>, n: usize| {
        (0..n).map(|_| collector.next().expect("endless").expect("no fault")).last().expect("a batch")
    };
    take(&mut collector, 5);
    collector.weights().unwrap().increment_version().unwrap();
    let lower: Vec<u32> = (0..ROWS as u32 / 2).collect();
    collector.reset(Rows::Some(&lower)).unwrap();
    take(&mut collector, 2);
    let before = ALLOCATIONS.load(Relaxed);
    let last = take(&mut collector, 10);
    let allocations = ALLOCATIONS.load(Relaxed) - before;
    let (lower, upper) = last.versions()[..ROWS].split_at(ROWS / 2);
    assert!(lower.iter().all(|version| *version == 1) && upper.iter().all(|version| *version == 0));
    allocations
}
