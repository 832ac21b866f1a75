//! PPO on CartPole-v1: collects with a network, learns from each batch, and publishes new weights to the collector.
//!
//! `cargo run --release --example cart_pole -- --help`; the loop itself is in `learner/train.rs`.

#[path = "learner/mod.rs"]
mod learner;

use std::{process::ExitCode, sync::atomic::AtomicBool};

use gleaner::{policy::plan::Activation, prelude::*};
use learner::{Experiment, Options, PpoConfig, Result};

fn main() -> ExitCode {
    learner::main("Trains a policy for CartPole-v1 by PPO, then evaluates it over 100 episodes.", "out/cart_pole", run)
}

/// Trains and evaluates. Returns the mean return, none if training was stopped.
fn run(options: &Options, stop: &AtomicBool) -> Result<Option<f32>> {
    let experiment = Experiment {
        title: "PPO on CartPole-v1",
        network: NetworkSpec::mlp(&[64, 64], Activation::Tanh),
        // As Stable-Baselines3 is tuned for CartPole.
        ppo: PpoConfig {
            epochs: 20,
            minibatch: 256,
            learning_rate: 1e-3,
            gamma: 0.98,
            lambda: 0.8,
            ..Default::default()
        },
        rows: 8,
        ticks: 32,
        reward: RewardTransform::default(),
        frames: 100_000,
        quick_frames: 8_192,
        trial_every: 5_000,
        good: 490.0,
        episodes: 100,
    };
    let mean = experiment.run::<CartPole>(options, stop)?;
    mean.inspect(|mean| println!("evaluation mean return: {mean:.1}"));
    Ok(mean)
}
