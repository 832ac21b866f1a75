//! PPO on CartPole-v1: collects with a network, learns from each batch, and publishes new weights to the collector.
//!
//! `cargo run --release --example cart_pole -- --help`

#[path = "learner/mod.rs"]
mod learner;

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::Parser;
use gleaner::{policy::plan::Activation, prelude::*};
use learner::{Curve, Ppo, PpoConfig, Progress, Result};

fn main() -> ExitCode {
    let args = Args::parse();
    learner::exit_code(learner::stop_on_ctrl_c().and_then(|stop| run(&args, &stop)))
}

/// Trains a policy for CartPole-v1 by PPO, then evaluates it over 100 episodes.
///
/// Training ends when the policy was good in two trials in a row, or when the frames are used up. The learning curve
/// and the policy are left in a folder. Ctrl-C stops training and keeps what there is so far.
#[derive(Parser)]
struct Args {
    /// Where the collector's policy runs
    #[arg(long, default_value = "auto", value_parser = learner::backend())]
    backend: Backend,
    /// Seed of environments, initial weights, actions and minibatches
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Environments that are stepped together
    #[arg(long, default_value_t = 8, value_parser = learner::positive::<usize>())]
    rows: usize,
    /// Frames to train for at most
    #[arg(long, default_value_t = 100_000, value_parser = learner::positive::<u64>())]
    frames: u64,
    /// Train for a few seconds only
    #[arg(long, conflicts_with = "frames")]
    quick: bool,
    /// Folder for the learning curve and the policy
    #[arg(long, default_value = "out/cart_pole")]
    out: PathBuf,
}

/// Ticks of a batch.
const TICKS: usize = 32;
/// Episodes of a trial and of the evaluation.
const EPISODES: usize = 100;
/// Frames between two trials.
const TRIAL_EVERY: u64 = 5_000;
/// Mean return of a good trial.
const GOOD: f32 = 490.0;

/// Trains and evaluates. Returns the mean return, none if training was stopped.
fn run(args: &Args, stop: &AtomicBool) -> Result<Option<f32>> {
    let out = args.out.display();
    std::fs::create_dir_all(&args.out).map_err(|error| format!("--out {out}: {error}; legal: a folder"))?;
    let frames = train(args, stop)?;
    println!("{frames} frames; learning curve and policy are in {}", args.out.display());
    if stop.load(Ordering::Relaxed) {
        println!("stopped by Ctrl-C: the policy was not evaluated");
        return Ok(None);
    }
    let saved = Weights::load(args.out.join("policy.safetensors"))?;
    let mean = learner::evaluate::<CartPole>(args.policy().weights(saved), EPISODES, args.seed.wrapping_add(1))?;
    println!("evaluation mean return: {mean:.1}");
    Ok(Some(mean))
}

/// Trains, writes learning curve and policy, and returns the frames that it took.
fn train(args: &Args, stop: &AtomicBool) -> Result<u64> {
    let total = if args.quick { 8_192 } else { args.frames };
    let mut collector = Collector::<CartPole>::builder()
        .policy(args.policy())
        .rows(args.rows)
        .frames_per_batch(args.rows * TICKS)
        .total_frames(total)
        .seed(args.seed)
        .build()?;
    let published = collector.weights().ok_or("the policy is no network")?;
    let monitor = collector.monitor();
    let config = PpoConfig { seed: args.seed, ..Default::default() };
    let mut ppo = Ppo::new::<CartPole>(args.network(), &published.latest().1, config)?;
    let mut curve = Curve::new("PPO on CartPole-v1");
    let progress = Progress::new(total);
    progress.print(&format!("the policy runs on {}", monitor.stats().backend));
    let (mut next_trial, mut good_trials) = (TRIAL_EVERY, 0);

    for batch in &mut collector {
        let weights = ppo.update(&batch?, 1.0 - progress.done())?;
        let version = published.publish(weights.clone())?;
        let stats = monitor.stats();
        progress.show(&stats, version);
        curve.train(&stats);
        if stats.frames >= next_trial {
            next_trial += TRIAL_EVERY;
            let seed = args.seed.wrapping_add(version << 32);
            let mean = learner::evaluate::<CartPole>(args.policy().weights(weights), EPISODES, seed)?;
            progress.print(&format!("{} frames: mean return {mean:.1} in a trial", stats.frames));
            curve.trial(&stats, mean);
            good_trials = if mean >= GOOD { good_trials + 1 } else { 0 };
        }
        if good_trials == 2 {
            progress.print("good in two trials in a row: done");
            break;
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    curve.draw(args.out.join("learning_curve.png"))?;
    published.latest().1.save(args.out.join("policy.safetensors"))?;
    Ok(collector.stats().frames)
}

impl Args {
    fn network(&self) -> NetworkSpec {
        NetworkSpec::mlp(&[64, 64], Activation::Tanh)
    }

    fn policy(&self) -> Policy<CartPole> {
        Policy::network(self.network()).backend(self.backend).seed(self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(name: &str) -> Args {
        let out = std::env::temp_dir().join(format!("gleaner-cart-pole-{name}-{}", std::process::id()));
        Args { backend: Backend::Cpu, seed: 1, rows: 8, frames: 100_000, quick: true, out }
    }

    #[test]
    fn a_quick_run_beats_chance_and_leaves_its_files() {
        let args = args("quick");
        let mean = run(&args, &AtomicBool::new(false)).unwrap().unwrap();
        // Random actions give 20 to 25.
        assert!(mean.is_finite() && mean > 50.0, "{mean}");
        let picture = std::fs::read(args.out.join("learning_curve.png")).unwrap();
        assert!(picture.starts_with(b"\x89PNG"));
        assert!(args.out.join("policy.safetensors").exists());
        std::fs::remove_dir_all(args.out).unwrap();
    }

    #[test]
    fn a_stopped_run_keeps_what_there_is() {
        let args = args("stopped");
        assert_eq!(run(&args, &AtomicBool::new(true)).unwrap(), None);
        assert!(args.out.join("learning_curve.png").exists());
        Weights::load(args.out.join("policy.safetensors")).unwrap();
        std::fs::remove_dir_all(args.out).unwrap();
    }
}
