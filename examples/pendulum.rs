//! PPO with continuous actions on Pendulum-v1: a Gaussian head, scaled rewards, and episodes that end only by being cut.
//!
//! `cargo run --release --example pendulum -- --help`; the loop itself is in `learner/train.rs`.

#[path = "learner/mod.rs"]
mod learner;

use std::{process::ExitCode, sync::atomic::AtomicBool};

use gleaner::{policy::plan::Activation, prelude::*};
use learner::{Experiment, Options, PpoConfig, Result};

fn main() -> ExitCode {
    learner::main("Trains a policy for Pendulum-v1 by PPO, then evaluates it over 100 episodes.", "out/pendulum", run)
}

/// Trains and evaluates. Returns the mean return, none if training was stopped.
fn run(options: &Options, stop: &AtomicBool) -> Result<Option<f32>> {
    let experiment = Experiment {
        title: "PPO on Pendulum-v1",
        network: NetworkSpec::mlp(&[64, 64], Activation::Tanh),
        // As Stable-Baselines3 is tuned for Pendulum.
        ppo: PpoConfig {
            epochs: 10,
            minibatch: 64,
            learning_rate: 1e-3,
            gamma: 0.9,
            lambda: 0.95,
            ..Default::default()
        },
        rows: 4,
        ticks: 1_024,
        // The critic learns sooner from returns of a magnitude near 1; those in the statistics stay as they are.
        reward: RewardTransform { scale: 0.1, clip: None },
        frames: 200_000,
        quick_frames: 32_768,
        trial_every: 16_384,
        good: -180.0,
        episodes: 100,
    };
    let mean = experiment.run::<Pendulum>(options, stop)?;
    mean.inspect(|mean| println!("evaluation mean return: {mean:.1}"));
    Ok(mean)
}
