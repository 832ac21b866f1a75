//! Environments that do almost nothing: what is left is the engine. And its memory.

use bevy_ecs::prelude::Component;
use gleaner::{Error, components::Trajectory, prelude::*};

use super::{
    collectors::{random, side},
    equal::next,
    runner::Runner,
};

/// An environment of `N` dependent multiplications that never ends.
#[derive(Component, Clone, Copy, Default)]
pub struct Spin<const N: u32>(u32);

impl<const N: u32> Task for Spin<N> {
    type Observation = f32;
    type Action = i32;
    type Mask = ();

    fn observation_space() -> Space {
        Space::unbounded(1)
    }

    fn action_space() -> Space {
        Space::discrete(2)
    }
}

impl<const N: u32> Env for Spin<N> {
    type Options = ();

    fn reset(&mut self, _: &(), _: &mut Stream) -> f32 {
        0.0
    }

    fn step(&mut self, action: &i32, _: &mut Stream) -> Transition<f32> {
        for _ in 0..N {
            self.0 = std::hint::black_box(self.0.wrapping_mul(0x915F_77F5).wrapping_add(*action as u32));
        }
        Transition { observation: 0.0, reward: 0.0, terminated: false, truncated: false }
    }
}

fn spin<const N: u32>(rows: usize, frames: usize) -> Result<Collector<Spin<N>>, Error> {
    Collector::<Spin<N>>::builder().rows(rows).frames_per_batch(frames).build()
}

/// Cost of the engine a step, and of small batches.
pub fn light_environments(runner: &mut Runner) -> Result<(), Error> {
    for rows in [1, 8, 64] {
        let step = runner.measure(side(spin::<0>(rows, rows * 1_024)?));
        runner.at_most(&format!("{rows} rows of an empty environment: microseconds a step"), step * 1e6, 1.0, "");
    }
    let compared = runner.compare(side(spin::<0>(8, 2_000)?), side(spin::<0>(8, 80)?));
    runner.at_most("8 rows: batches of 2,000 frames over those of 80", compared.ratio(), 1.2, &compared.speeds());
    Ok(())
}

/// Bytes recorded a frame over the sum of the columns' widths: the columns, and with each episode that ended its last
/// observation and its entry.
pub fn memory(runner: &mut Runner) -> Result<(), Error> {
    for (rows, ticks) in [(1, 64), (1_024, 64), (16_384, 64), (1_024, 100)] {
        let mut collector = random(rows, ticks, 1)?;
        let known = collector.memory().rollout;
        let mut ends = 0;
        for _ in 0..3 {
            let batch = next(&mut collector)?;
            ends = batch.trajectories().len() * (size_of::<Trajectory>() + size_of::<usize>() + size_of::<[f32; 4]>());
        }
        let memory = collector.memory();
        assert_eq!(memory.arenas, 1, "one batch at a time needs one arena");
        let width: usize = collector.columns().iter().map(|column| column.stride).sum();
        let frames = rows * ticks;
        let share = |bytes: usize| bytes as f64 / (frames * width) as f64;
        for (what, bytes) in [("columns, known at build", known), ("with ends of episodes", known + ends)] {
            let name = format!("{rows} rows, {ticks} ticks: bytes over widths, {what}");
            let note = format!("({:.2} of {width} a frame)", bytes as f64 / frames as f64);
            runner.at_most(&name, share(bytes), 1.1, &note);
        }
        println!("    with what the lists of ends have to spare: {:.3}", share(memory.free_arenas));
    }
    Ok(())
}
