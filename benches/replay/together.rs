//! A writer and a sampler on two threads, against each alone.

use std::{
    thread,
    time::{Duration, Instant},
};

use gleaner::{Error, replay::Sample};

use crate::{
    bare::Bare,
    extend::Copy,
    filled::{Numbers, columns, filled, rollout},
    runner::Runner,
};

const FRAMES: usize = 256;
const CAPACITY: usize = 1_000_000;

/// The memory answers two threads slower than one: what a copy and a bare gather lose is printed beside.
pub fn run(runner: &mut Runner) -> Result<(), Error> {
    let block = rollout(columns::<Numbers<24>>(), 1_024, 16);
    let replay = filled::<Numbers<24>>(CAPACITY)?;
    let mut sampler = replay.sampler().batch_size(FRAMES).build()?;
    let mut sample = Sample::default();
    let write = || replay.extend(&block).expect("room").frames;
    let draw = || {
        sampler.sample_into(&mut sample).expect("frames");
        sample.len() as u64
    };
    let ours = kept(runner, write, draw);
    let specs = columns::<Numbers<24>>();
    let mut bare = Bare::new(specs.iter().map(|spec| spec.stride).chain([specs[0].stride]), CAPACITY, 2);
    let mut copy = Copy::new(&block);
    let bares = kept(runner, || copy.write(&block), || bare.gather(FRAMES, 1, 1));
    runner.at_least("of a writer's speed, beside a sampler", ours.0, 0.8, &format!("(a copy: {:.3})", bares.0));
    runner.at_least("of a sampler's speed, beside a writer", ours.1, 0.8, &format!("(a bare gather: {:.3})", bares.1));
    Ok(())
}

/// What each of two sides keeps of its own speed when both run at the same time: of the best repetition alone and that
/// together, because what else the machine does can only make one slower.
fn kept(runner: &Runner, mut a: impl FnMut() -> u64 + Send, mut b: impl FnMut() -> u64) -> (f64, f64) {
    let (mut alone, mut both) = ((0.0_f64, 0.0_f64), (0.0_f64, 0.0_f64));
    for _ in 0..runner.repetitions {
        alone = (alone.0.max(speed(runner.span, &mut a)), alone.1.max(speed(runner.span, &mut b)));
        let now = thread::scope(|scope| {
            let a = scope.spawn(|| speed(runner.span, &mut a));
            let b = speed(runner.span, &mut b);
            (a.join().expect("no panic"), b)
        });
        both = (both.0.max(now.0), both.1.max(now.1));
    }
    (both.0 / alone.0, both.1 / alone.1)
}

/// Frames a second.
fn speed(span: Duration, side: &mut impl FnMut() -> u64) -> f64 {
    let (start, mut frames) = (Instant::now(), 0);
    while frames == 0 || start.elapsed() < span {
        frames += side();
    }
    frames as f64 / start.elapsed().as_secs_f64()
}
