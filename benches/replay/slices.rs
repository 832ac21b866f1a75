//! Slices of 16 steps of CartPole-sized frames.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use gleaner::{Error, replay::sampler::Slices};

use crate::{
    bare::Bare,
    filled::{Numbers, columns, filled, trajectories},
    runner::{Runner, millions},
};

const STEPS: usize = 16;
const SLICES: usize = 64;
/// Frames of a block that is written meanwhile.
const WRITTEN: usize = 500;
const CAPACITIES: [usize; 4] = [10_000, 100_000, 1_000_000, 10_000_000];

pub fn run(runner: &mut Runner) -> Result<(), Error> {
    let (mut costs, mut beside) = (Vec::new(), Vec::new());
    for capacity in CAPACITIES {
        let replay = filled::<Numbers<4>>(capacity)?;
        let mut sampler = replay.sampler().sampling(Slices::of(STEPS as u32)).batch_size(SLICES).build()?;
        let mut sample = sampler.sample()?;
        let mut draw = || {
            sampler.sample_into(&mut sample).expect("slices");
            sample.len() as u64
        };
        let strides = columns::<Numbers<4>>().into_iter().map(|spec| spec.stride).chain([16]);
        let mut bare = Bare::new(strides, capacity, STEPS + 1);
        let compared = runner.compare(&mut draw, || bare.gather(SLICES, STEPS, 1));
        let name = format!("16 steps of {capacity} frames, M rows/s");
        let bound = if capacity == 1_000_000 { 100.0 } else { 0.0 };
        runner.at_least(&name, 1e-6 / compared.a, bound, &format!("(bare gather {})", millions(compared.b)));
        costs.push((compared.a, compared.b));
        let block = trajectories(columns::<Numbers<4>>(), &mut 0, WRITTEN);
        let written = while_it_runs(|| _ = replay.extend(&block).expect("room"), || runner.measure(&mut draw));
        runner.at_least("  while blocks are written, M rows/s", 1e-6 / written, 0.0, "");
        beside.push((written, compared.b));
    }
    for (costs, note) in [(costs, ""), (beside, " while blocks are written")] {
        let growth = |side: fn(&(f64, f64)) -> f64| side(&costs[costs.len() - 1]) / side(&costs[0]);
        let beyond = growth(|costs| costs.0) / growth(|costs| costs.1);
        runner.at_most(&format!("10^7 over 10^4 frames, over the bare gather's{note}"), beyond, 1.5, "");
    }
    Ok(())
}

/// What `f` gives while another thread does `again` and again.
fn while_it_runs<R>(mut again: impl FnMut() + Send, f: impl FnOnce() -> R) -> R {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                again();
            }
        });
        let result = f();
        done.store(true, Relaxed);
        result
    })
}
