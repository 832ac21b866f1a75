//! Slices of 16 steps of CartPole-sized frames.

use gleaner::{Error, replay::sampler::Slices};

use crate::{
    bare::Bare,
    filled::{Numbers, columns, filled},
    runner::{Runner, millions},
};

const STEPS: usize = 16;
const SLICES: usize = 64;
const CAPACITIES: [usize; 4] = [10_000, 100_000, 1_000_000, 10_000_000];

pub fn run(runner: &mut Runner) -> Result<(), Error> {
    let mut costs = Vec::new();
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
        let bound = if capacity == 1_000_000 && runner.absolute { 100.0 } else { 0.0 };
        runner.at_least(&name, 1e-6 / compared.a, bound, &format!("(bare gather {})", millions(compared.b)));
        costs.push((compared.a, compared.b));
    }
    let growth = |side: fn(&(f64, f64)) -> f64| side(&costs[costs.len() - 1]) / side(&costs[0]);
    let beyond = growth(|costs| costs.0) / growth(|costs| costs.1);
    runner.at_most("10,000,000 over 10,000 frames, over the bare gather's", beyond, 1.5, "");
    Ok(())
}
