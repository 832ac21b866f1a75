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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_beats_chance_and_leaves_its_files() {
        let options = Options::quick("cart_pole");
        let mean = run(&options, &AtomicBool::new(false)).unwrap().unwrap();
        // Random actions give 20 to 25.
        assert!(mean.is_finite() && mean > 50.0, "{mean}");
        let picture = std::fs::read(options.out.join("learning_curve.png")).unwrap();
        assert!(picture.starts_with(b"\x89PNG"));
        assert!(options.out.join("policy.safetensors").exists());
        std::fs::remove_dir_all(options.out).unwrap();
    }

    #[test]
    fn a_stopped_run_keeps_what_there_is() {
        let options = Options::quick("cart_pole_stopped");
        assert_eq!(run(&options, &AtomicBool::new(true)).unwrap(), None);
        assert!(options.out.join("learning_curve.png").exists());
        Weights::load(options.out.join("policy.safetensors")).unwrap();
        std::fs::remove_dir_all(options.out).unwrap();
    }
}
