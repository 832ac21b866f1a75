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
    #[arg(long, default_value_t = 8)]
    rows: usize,
    /// Frames to train for at most
    #[arg(long, default_value_t = 100_000)]
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
/// Batches between two trials.
const TRIAL_EVERY: u64 = 20;
/// Mean return of a good trial.
const GOOD: f32 = 490.0;

/// Trains and evaluates. Returns the mean return, none if training was stopped.
fn run(args: &Args, stop: &AtomicBool) -> Result<Option<f32>> {
    std::fs::create_dir_all(&args.out)?;
    let frames = train(args, stop)?;
    println!("{frames} frames; learning curve and policy are in {}", args.out.display());
    if stop.load(Ordering::Relaxed) {
        println!("stopped by Ctrl-C: the policy was not evaluated");
        return Ok(None);
    }
    let saved = Weights::load(args.out.join("policy.safetensors"))?;
    let mean = learner::evaluate::<CartPole>(args.policy().weights(saved), EPISODES, args.seed + 1)?;
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
    let mut good_trials = 0;

    for batch in &mut collector {
        let weights = ppo.update(&batch?, 1.0 - progress.done())?;
        let version = published.publish(weights.clone())?;
        let stats = monitor.stats();
        progress.show(&stats, version);
        curve.train(&stats);
        if stats.batches % TRIAL_EVERY == 0 {
            let seed = args.seed + (stats.batches << 32);
            let mean = learner::evaluate::<CartPole>(args.policy().weights(weights), EPISODES, seed)?;
            progress.print(&format!("{} frames: mean return {mean:.1} in a trial", stats.frames));
            curve.trial(&stats, mean);
            good_trials = if mean >= GOOD { good_trials + 1 } else { 0 };
        }
        if good_trials == 2 || stop.load(Ordering::Relaxed) {
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
