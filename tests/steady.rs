//! A steady tick allocates nothing: with a network, episodes ending, batches yielded and dropped, in both modes, on one
//! thread and on two. With two threads a rollout enters the pool once, whose queue allocates a block in 63 entries.

mod counting;

use std::sync::atomic::Ordering::Relaxed;

use counting::ALLOCATIONS;
use gleaner::{
    env::CartPoleOptions,
    policy::{Backend, NetworkSpec, Policy, plan::Activation},
    prelude::{CartPole, Collector},
};

const ROWS: usize = 64;
const TICKS: u64 = 50;

fn collector(trajectories: bool, threads: usize, policies: usize) -> Collector<CartPole> {
    let network = || Policy::network(NetworkSpec::mlp(&[64, 64], Activation::Tanh)).backend(Backend::Cpu);
    let builder = Collector::<CartPole>::builder().rows(ROWS).frames_per_batch(ROWS * TICKS as usize);
    let builder = match policies {
        1 => builder.policy(network()),
        _ => builder.policies([(20..ROWS, network()), (0..20, network())]),
    };
    let builder = builder.reset_options(CartPoleOptions::default()).threads(threads);
    let builder = builder.step_rows_per_thread(8).infer_rows_per_thread(8);
    if trajectories { builder.trajs_per_batch(40).build().unwrap() } else { builder.build().unwrap() }
}

/// Yields and drops batches until `frames` more were stepped; gives the number of batches.
fn run(collector: &mut Collector<CartPole>, frames: u64) -> u64 {
    let (start, batches) = (collector.stats().stepped_frames, collector.stats().batches);
    while collector.stats().stepped_frames < start + frames {
        collector.next().expect("endless").expect("no fault");
    }
    collector.stats().batches - batches
}

/// Whether whole trajectories are collected, threads, and policies.
const STEADY: [(bool, usize, usize); 6] =
    [(false, 1, 1), (true, 1, 1), (false, 2, 1), (true, 2, 1), (false, 1, 2), (true, 2, 2)];

/// One test, so that no other thread of the test runner allocates meanwhile.
#[test]
fn a_thousand_steady_ticks_allocate_nothing() {
    for (trajectories, threads, policies) in STEADY {
        let mut collector = collector(trajectories, threads, policies);
        run(&mut collector, 4_000 * ROWS as u64);
        let episodes = collector.stats().completed_trajectories;
        // `stats()` itself allocates a name, so the number of batches is taken beforehand.
        let batches = run(&mut collector, 1_000 * ROWS as u64) + 40;
        let stepped = collector.stats().stepped_frames;
        let before = ALLOCATIONS.load(Relaxed);
        for _ in 0..batches {
            collector.next().expect("endless").expect("no fault");
        }
        let allocations = ALLOCATIONS.load(Relaxed) - before;
        let stats = collector.stats();
        assert!(stats.stepped_frames - stepped >= 1_000 * ROWS as u64, "{batches} batches are too few");
        assert!(stats.completed_trajectories > episodes + 100, "hardly an episode ended");
        let rollouts = (stats.stepped_frames - stepped) / (ROWS as u64 * TICKS);
        let allowed = if threads == 1 { 0 } else { rollouts.div_ceil(63) };
        let what = format!("trajectories {trajectories}, {threads} threads, {policies} policies, {rollouts} rollouts");
        assert!(allocations <= allowed, "{what}: {allocations} allocations");
    }
}
