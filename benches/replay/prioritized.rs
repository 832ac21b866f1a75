//! Prioritized draws and updates, as learners do them: a sample, then a priority for each of its frames.

use gleaner::{
    Error,
    replay::{Replay, Sample, Sampler, sampler::Prioritized},
};

use crate::{
    filled::{Numbers, filled},
    runner::Runner,
};

const PICKS: usize = 256;

/// The bound is on this machine's absolute speed: a microsecond a row, gathering of 46 bytes included.
pub fn run(runner: &mut Runner) -> Result<(), Error> {
    for rows in [10_000, 10_000_000] {
        let replay = filled::<Numbers<4>>(rows)?;
        let mut sampler = sampler(&replay)?;
        let mut sample = Sample::default();
        let mut priorities = vec![0.0; PICKS];
        let mut seed = 1_u32;
        let seconds = runner.measure(|| {
            sampler.sample_into(&mut sample).expect("frames");
            for priority in &mut priorities {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *priority = (seed >> 8) as f32 * 1e-6;
            }
            sampler.update_priorities(sample.frames(), &priorities).expect("there");
            PICKS as u64
        });
        let mut uniform = replay.sampler().batch_size(PICKS).build()?;
        let alone = runner.measure(|| {
            uniform.sample_into(&mut sample).expect("frames");
            PICKS as u64
        });
        let note = format!("({:.3} for a uniform draw alone)", alone * 1e6);
        runner.at_most(&format!("draw and update of {rows} rows: microseconds a row"), seconds * 1e6, 1.0, &note);
    }
    Ok(())
}

/// A sampler with a priority for every frame: none of the tree's chances are alike.
fn sampler(replay: &Replay<Numbers<4>>) -> Result<Sampler<Numbers<4>>, Error> {
    let mut sampler = replay.sampler().sampling(Prioritized::default()).batch_size(PICKS).build()?;
    let frames: Vec<u64> = replay.frames().collect();
    for frames in frames.chunks(100_000) {
        let priorities: Vec<f32> = frames.iter().map(|frame| 0.1 + (frame % 1_009) as f32).collect();
        sampler.update_priorities(frames, &priorities)?;
    }
    Ok(sampler)
}
