//! Soft actor-critic on Pendulum-v1 from uniform replay, while the collector runs on.
//!
//! `cargo run --release --example sac_pendulum -- --help`; the loop itself is in `learner/off_policy.rs`.

#[path = "learner/mod.rs"]
mod learner;

use std::{process::ExitCode, sync::atomic::AtomicBool};

use gleaner::{
    policy::{Layer, head::HeadSpec, plan::LogStd},
    prelude::*,
    replay::sampler::Uniform,
};
use learner::{OffPolicy, Options, Result, Sac, SacConfig};

fn main() -> ExitCode {
    learner::main(
        "Trains a policy for Pendulum-v1 by SAC, then evaluates it over 100 episodes.",
        "out/sac_pendulum",
        run,
    )
}

/// Trains and evaluates. Returns the mean return, none if training was stopped.
fn run(options: &Options, stop: &AtomicBool) -> Result<Option<f32>> {
    let (min, max) = (-20.0, 2.0);
    let experiment = OffPolicy {
        title: "SAC on Pendulum-v1",
        network: NetworkSpec {
            actor: vec![Layer::Linear(64), Layer::Relu, Layer::Linear(64), Layer::Relu],
            critic: None,
            head: HeadSpec::TanhGaussian { log_std: LogStd::Network { min, max } },
            ..NetworkSpec::default()
        },
        rows: 4,
        ticks: 4,
        random_frames: 1_000,
        capacity: 50_000,
        sampling: Uniform.into(),
        n_step: (1, 0.99),
        batch: 128,
        steps_per_frame: 0.5,
        collects_on: true,
        frames: 30_000,
        quick_frames: 8_000,
        trial_every: 2_000,
        good: -170.0,
        episodes: 100,
    };
    let names = ["actor.0", "actor.2", "action"];
    let config = SacConfig { learning_rate: 1e-3, tau: 0.005, critic: vec![64, 64], log_std: (min, max), scale: 2.0 };
    let mean = experiment
        .run::<Pendulum, _>(options, stop, |weights| Sac::new::<Pendulum>(weights, &names, config, options.seed))?;
    mean.inspect(|mean| println!("evaluation mean return: {mean:.1}"));
    Ok(mean)
}
