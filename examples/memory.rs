//! A task that needs memory: what was shown first is asked for 20 frames later. A recurrent policy, and the same one
//! without recurrence.
//!
//! `cargo run --release --example memory -- --help`; the loop itself is in `learner/train.rs`.

#[path = "learner/mod.rs"]
mod learner;

use std::{process::ExitCode, sync::atomic::AtomicBool};

use bevy_ecs::prelude::Component;
use gleaner::{policy::Layer, prelude::*};
use learner::{Experiment, Options, PpoConfig, Result};

fn main() -> ExitCode {
    learner::main("Trains a recurrent policy to remember over 20 frames, and one without memory.", "out/memory", run)
}

/// Trains and evaluates both. Returns which parts of the answers were right, none if training was stopped.
fn run(options: &Options, stop: &AtomicBool) -> Result<Option<[f32; 2]>> {
    check_env::<Recall>()?;
    let with_memory = vec![Layer::Gru(32)];
    let without = vec![Layer::Linear(32), Layer::Tanh];
    let recall = |name: &str, title, trunk| {
        let out = options.out.join(name);
        // The only reward is 1 for the right answer: the mean return is the part of the answers that were right.
        experiment(title, trunk).run::<Recall>(&Options { out, ..options.clone() }, stop)
    };
    let Some(recurrent) = recall("recurrent", "PPO with a GRU", with_memory)? else { return Ok(None) };
    println!("recall: {recurrent:.3}");
    let Some(plain) = recall("plain", "PPO without memory", without)? else { return Ok(None) };
    println!("recall of the same network without memory: {plain:.3}");
    Ok(Some([recurrent, plain]))
}

fn experiment(title: &'static str, trunk: Vec<Layer>) -> Experiment {
    Experiment {
        title,
        network: NetworkSpec { trunk, actor: vec![], critic: Some(vec![]), ..Default::default() },
        // The reward comes last, so nothing is discounted.
        ppo: PpoConfig {
            epochs: 4,
            minibatch: 16 * FRAMES,
            learning_rate: 3e-3,
            gamma: 1.0,
            lambda: 1.0,
            ..Default::default()
        },
        rows: 64,
        ticks: FRAMES,
        reward: RewardTransform::default(),
        frames: 200_000,
        quick_frames: 20_000,
        trial_every: 20_000,
        good: 0.99,
        episodes: 1_000,
    }
}

/// Frames of an episode, so that 20 frames after the first one the answer is due.
const FRAMES: usize = 21;

/// Shows one of two symbols, then others at random, and last asks for the first one.
#[derive(Component, Default)]
struct Recall {
    cue: u32,
    frame: usize,
}

impl Recall {
    /// A symbol, whether it is the one to keep, and whether an answer is due.
    fn observe(&self, symbol: u32) -> [f32; 3] {
        let flag = |frame| f32::from(u8::from(self.frame == frame));
        [2.0 * symbol as f32 - 1.0, flag(0), flag(FRAMES - 1)]
    }
}

impl Task for Recall {
    type Observation = [f32; 3];
    type Action = i32;
    type Mask = ();

    fn observation_space() -> Space {
        Space::bounded([-1.0, 0.0, 0.0], [1.0; 3])
    }

    fn action_space() -> Space {
        Space::discrete(2)
    }
}

impl Env for Recall {
    type Options = ();

    fn reset(&mut self, (): &(), stream: &mut Stream) -> [f32; 3] {
        *self = Self { cue: stream.below(2), frame: 0 };
        self.observe(self.cue)
    }

    fn step(&mut self, answer: &i32, stream: &mut Stream) -> Transition<[f32; 3]> {
        self.frame += 1;
        let terminated = self.frame == FRAMES;
        let right = terminated && *answer as u32 == self.cue;
        let reward = f32::from(u8::from(right));
        Transition { observation: self.observe(stream.below(2)), reward, terminated, truncated: false }
    }
}
