//! Workers against one world, and how soon they act by what is published.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use gleaner::{Error, policy::plan::Activation, prelude::*};

use super::{
    collectors::{SEED, side},
    runner::Runner,
};

/// Ticks of a rollout that takes about 100 ms.
const TICKS: usize = 256;
const ROWS: usize = 1_024;

/// CartPole with actor and critic of two hidden layers of 64; no workers: inline.
fn network(
    rows: usize,
    ticks: usize,
    workers: usize,
) -> CollectorBuilder<CartPole, impl gleaner::env::Stepper<CartPole>> {
    let policy = Policy::network(NetworkSpec::mlp(&[64, 64], Activation::Tanh)).backend(Backend::Cpu);
    let builder = Collector::<CartPole>::builder().policy(policy).rows(rows).frames_per_batch(rows * ticks);
    builder.workers(workers).seed(SEED)
}

/// What delivery in step costs, and what a second worker brings.
pub fn delivery(runner: &mut Runner) -> Result<(), Error> {
    let compared = runner.compare(side(network(ROWS, TICKS, 1).build()?), side(network(ROWS, TICKS, 0).build()?));
    runner.at_most("one worker in step: time over inline", 1.0 / compared.ratio(), 1.03, &compared.speeds());
    let own = network(ROWS, TICKS, 1).delivery(Delivery::Async).build()?;
    let compared = runner.compare(steadily(own), side(network(ROWS, TICKS, 0).build()?));
    runner.at_least("one worker on its own, over inline", compared.ratio(), 0.97, &compared.speeds());
    let compared = runner.compare(side(network(2 * ROWS, TICKS, 2).build()?), side(network(ROWS, TICKS, 1).build()?));
    runner.at_least("two workers of 1024 rows over one", compared.ratio(), 1.85, &compared.speeds());
    let sizes = |ticks| network(64, ticks, 1).build();
    let compared = runner.compare(side(sizes(2)?), side(sizes(32)?));
    runner.at_most(
        "R2: batches of 128 frames: time a frame over those of 2048",
        1.0 / compared.ratio(),
        1.2,
        &compared.speeds(),
    );
    Ok(())
}

/// Takes batches for as long as some of them take, and says how many frames were stepped meanwhile: of one that was
/// waiting the frames were stepped before.
fn steadily(mut collector: Collector<CartPole>) -> impl FnMut() -> u64 {
    let monitor = collector.monitor();
    move || {
        let before = monitor.stats().stepped_frames;
        for _ in 0..6 {
            drop(collector.next().expect("endless").unwrap_or_else(|error| panic!("{error}")));
        }
        monitor.stats().stepped_frames - before
    }
}

/// From when weights are published to when a worker acts by them, and what a hundred sets a second cost.
pub fn publishing(runner: &mut Runner) -> Result<(), Error> {
    let replay = Replay::<CartPole>::new((4 * ROWS * TICKS) as u64)?;
    let mut running = network(ROWS, TICKS, 1).replay(&replay).build()?.start()?;
    let long = Duration::from_secs(60);
    running.wait_written((ROWS * TICKS) as u64, long)?;
    let weights = running.weights().expect("a network");
    let set = weights.latest().1;
    let mut waited = Vec::new();
    let (begin, before) = (Instant::now(), running.stats().stepped_frames);
    for _ in 0..if runner.repetitions > 1 { 200 } else { 3 } {
        thread::sleep(Duration::from_millis(3));
        let now = Instant::now();
        let version = weights.publish_copy(&set)?;
        weights.wait_adopted(version, long)?;
        waited.push(now.elapsed().as_secs_f64() * 1e6);
    }
    let ticks = (running.stats().stepped_frames - before) as f64 / ROWS as f64;
    let tick = begin.elapsed().as_secs_f64() * 1e6 / ticks;
    waited.sort_by(f64::total_cmp);
    let (median, late) = (waited[waited.len() / 2], waited[waited.len() * 9 / 10]);
    let note = format!("median {median:.0}, of ten one over {late:.0}, a tick {tick:.0}");
    runner.at_most("publish to adopt: microseconds beyond a tick", median - tick, 50.0, &note);
    drop(running.shutdown(long)?);

    let publishes = AtomicBool::new(false);
    let over = AtomicBool::new(false);
    let mut collector = network(ROWS, TICKS, 1).build()?;
    let weights = collector.weights().expect("a network");
    let (set, monitor) = (weights.latest().1, collector.monitor());
    let mut collect = |publishing: bool| {
        publishes.store(publishing, Relaxed);
        let before = monitor.stats().stepped_frames;
        drop(collector.next());
        publishes.store(false, Relaxed);
        monitor.stats().stepped_frames - before
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                thread::sleep(Duration::from_millis(10));
                if publishes.load(Relaxed) {
                    weights.publish_copy(&set).expect("the network's own tensors");
                }
            }
        });
        let cell = std::cell::RefCell::new(&mut collect);
        let compared = runner.compare(|| (cell.borrow_mut())(true), || (cell.borrow_mut())(false));
        let note = compared.speeds();
        runner.at_most("a hundred sets a second: time over none", 1.0 / compared.ratio(), 1.02, &note);
        over.store(true, Relaxed);
    });
    Ok(())
}
