//! Single frames of 128 bytes.

use gleaner::Error;

use crate::{
    bare::Bare,
    filled::{Numbers, columns, filled},
    runner::Runner,
};

const FRAMES: usize = 256;
const CAPACITY: usize = 10_000_000;

/// The bare gather gives what a sample gives: every column, and the observation that follows.
pub fn run(runner: &mut Runner) -> Result<(), Error> {
    let replay = filled::<Numbers<24>>(CAPACITY)?;
    let mut sampler = replay.sampler().batch_size(FRAMES).build()?;
    let mut sample = sampler.sample()?;
    let mut draw = || {
        sampler.sample_into(&mut sample).expect("frames");
        sample.len() as u64
    };
    let columns = columns::<Numbers<24>>();
    let observation = columns[0].stride;
    let mut bare = Bare::new(columns.iter().map(|spec| spec.stride).chain([observation]), CAPACITY, 2);
    let compared = runner.compare(&mut draw, || bare.gather(FRAMES, 1, 1));
    runner.at_most("256 of 10,000,000, over a bare gather", 1.0 / compared.ratio(), 1.3, &compared.speeds());
    Ok(())
}
