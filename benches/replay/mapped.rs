//! Drawing from a memory-mapped file that the page cache holds, against drawing from memory.

use gleaner::{
    Error,
    replay::{Capacity, Replay, ReplayConfig, Sample, Storage},
};

use crate::{
    filled::{Numbers, fill},
    runner::Runner,
};

const FRAMES: usize = 256;
const CAPACITY: usize = 1_000_000;

pub fn run(runner: &mut Runner) -> Result<(), Error> {
    let file = format!("replay-bench-{}", std::process::id());
    let file = Storage::File(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(file));
    let (mut mapped, mut memory) = (draw(file)?, draw(Storage::Memory)?);
    let compared = runner.compare(&mut mapped, &mut memory);
    runner.at_most("mapped, over in memory", 1.0 / compared.ratio(), 1.2, &compared.speeds());
    Ok(())
}

fn draw(storage: Storage) -> Result<impl FnMut() -> u64, Error> {
    let capacity = Capacity::Frames(CAPACITY as u64);
    let replay = Replay::<Numbers<24>>::with_config(ReplayConfig { capacity, storage, ..ReplayConfig::default() })?;
    fill(&replay, 2 * CAPACITY)?;
    let mut sampler = replay.sampler().batch_size(FRAMES).build()?;
    let mut sample = Sample::default();
    Ok(move || {
        sampler.sample_into(&mut sample).expect("frames");
        sample.len() as u64
    })
}
