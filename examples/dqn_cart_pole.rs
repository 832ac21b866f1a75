//! Double Q-learning on CartPole-v1 from prioritized replay with n-step returns.
//!
//! `cargo run --release --example dqn_cart_pole -- --help`; the loop itself is in `learner/off_policy.rs`.

#[path = "learner/mod.rs"]
mod learner;

use std::{process::ExitCode, sync::atomic::AtomicBool};

use gleaner::{
    policy::{
        Layer,
        head::{Annealed, HeadSpec},
    },
    prelude::*,
    replay::sampler::{Prioritized, Schedule},
};
use learner::{Dqn, DqnConfig, OffPolicy, Options, Result};

fn main() -> ExitCode {
    learner::main(
        "Learns action values for CartPole-v1, then evaluates them over 100 episodes.",
        "out/dqn_cart_pole",
        run,
    )
}

/// Trains and evaluates. Returns the mean return, none if training was stopped.
fn run(options: &Options, stop: &AtomicBool) -> Result<Option<f32>> {
    let experiment = OffPolicy {
        title: "Double DQN on CartPole-v1",
        network: NetworkSpec {
            actor: vec![Layer::Linear(128), Layer::Relu, Layer::Linear(128), Layer::Relu],
            critic: None,
            head: HeadSpec::Q { epsilon: Annealed { from: 1.0, to: 0.05, frames: 10_000 } },
            ..NetworkSpec::default()
        },
        rows: 8,
        ticks: 8,
        random_frames: 1_000,
        capacity: 50_000,
        // The weights of a sample are relative to the rarest frame there is. A difference of almost 0, whose frame is
        // almost never drawn, would make all others' next to 0, and the steps with them: `eps` bounds that.
        sampling: Prioritized {
            beta: Schedule::Linear { from: 0.4, to: 1.0, samples: 20_000 },
            eps: 0.01,
            ..Default::default()
        }
        .into(),
        n_step: (3, 0.99),
        batch: 128,
        steps_per_frame: 0.5,
        collects_on: false,
        frames: 60_000,
        quick_frames: 4_000,
        trial_every: 2_500,
        good: 490.0,
        episodes: 100,
    };
    let names = ["actor.0", "actor.2", "action"];
    let mean =
        experiment.run::<CartPole, _>(options, stop, |weights| Dqn::new(weights, &names, DqnConfig::default()))?;
    mean.inspect(|mean| println!("evaluation mean return: {mean:.1}"));
    Ok(mean)
}
