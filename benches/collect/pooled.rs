//! Environments that wait, stepped by a pool of threads.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use bevy_ecs::prelude::Component;
use gleaner::{Error, policy::Layer, prelude::*};

use super::{equal::next, runner::Runner};

/// Rows.
const ROWS: usize = 64;
/// Step times in milliseconds, uniform: their mean is what a row needs for a frame.
const STEP: [f32; 2] = [1.0, 20.0];

/// An environment that waits in every step, for another time each.
#[derive(Component, Clone, Copy, Default)]
struct Waits;

impl Task for Waits {
    type Observation = [f32; 4];
    type Action = i32;
    type Mask = ();

    fn observation_space() -> Space {
        Space::unbounded(4)
    }

    fn action_space() -> Space {
        Space::discrete(2)
    }
}

impl Env for Waits {
    type Options = ();

    fn reset(&mut self, _: &(), _: &mut Stream) -> [f32; 4] {
        [0.0; 4]
    }

    fn step(&mut self, _: &i32, stream: &mut Stream) -> Transition<[f32; 4]> {
        sleep(Duration::from_secs_f32(1e-3 * stream.uniform(STEP[0], STEP[1])));
        Transition { observation: [stream.unit(); 4], reward: 0.0, terminated: false, truncated: false }
    }
}

/// Frames a second over rows / mean step time, with a network of 64 × 64.
pub fn waiting_environments(runner: &mut Runner) -> Result<(), Error> {
    let trunk = vec![Layer::Linear(64), Layer::Tanh, Layer::Linear(64), Layer::Tanh];
    let spec = NetworkSpec { trunk, actor: vec![], critic: Some(vec![]), ..NetworkSpec::default() };
    let policy = Policy::network(spec).backend(Backend::Cpu);
    let builder = Collector::<Waits>::builder().rows(ROWS).frames_per_batch(512).policy(policy);
    let mut collector = builder.async_batched(AsyncBatched::default()).build()?;
    // The first batch has the first resets and the threads' first steps, all at once.
    next(&mut collector)?;
    let ideal = ROWS as f64 / (0.5e-3 * f64::from(STEP[0] + STEP[1]));
    let mut shares: Vec<f64> = Vec::new();
    for _ in 0..runner.repetitions {
        let (begun, mut frames) = (Instant::now(), 0);
        while frames == 0 || begun.elapsed() < 8 * runner.span {
            frames += next(&mut collector)?.frames();
        }
        shares.push(frames as f64 / begun.elapsed().as_secs_f64() / ideal);
    }
    shares.sort_by(f64::total_cmp);
    let share = shares[shares.len() / 2];
    let note = format!("({:.0} of {ideal:.0} frames/s)", share * ideal);
    runner.at_least("64 rows of 1 to 20 ms a step: rate over the ideal one", share, 0.9, &note);
    Ok(())
}
