//! Policies that Stable-Baselines3 trained, in PyTorch's file format and under PyTorch's names, act here.
//!
//! `cargo run --release --example from_pytorch -- --help`

#[path = "learner/command_line.rs"]
#[allow(dead_code, reason = "nothing is trained here, so there are no numbers of frames to parse")]
mod command_line;
#[path = "learner/ctrl_c.rs"]
mod ctrl_c;
#[path = "learner/evaluate.rs"]
mod evaluate;

use std::{process::ExitCode, sync::atomic::Ordering::Relaxed};

use clap::Parser;
use gleaner::prelude::*;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    command_line::exit_code(run(&Args::parse()))
}

/// Evaluates two policies that Stable-Baselines3 trained, for CartPole-v1 and for Pendulum-v1, by their most likely
/// actions over 100 episodes each. In Gymnasium their mean returns were 500.0 and -181.0.
#[derive(Parser)]
struct Args {
    /// Where the policies run
    #[arg(long, default_value = "auto", value_parser = command_line::backend())]
    backend: Backend,
    /// Seed of the environments
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Evaluate 10 episodes only
    #[arg(long)]
    quick: bool,
}

fn run(args: &Args) -> Result<()> {
    let stop = ctrl_c::flag()?;
    args.evaluate::<CartPole>("sb3_ppo_cart_pole.safetensors")?;
    if stop.load(Relaxed) {
        println!("stopped by Ctrl-C");
        return Ok(());
    }
    args.evaluate::<Pendulum>("sb3_ppo_pendulum.safetensors")
}

impl Args {
    fn evaluate<E: Env + Default>(&self, file: &str) -> Result<()> {
        println!("{file}");
        let assets = concat!(env!("CARGO_MANIFEST_DIR"), "/assets");
        let names = NameMap::from_ron_file(format!("{assets}/names/stable_baselines3.ron"))?;
        let weights = WeightsFile::new(format!("{assets}/{file}")).names(names).load()?;
        // Two hidden layers of 64 with tanh, for actor and critic apart, are the default of both libraries.
        let policy = Policy::<E>::network(NetworkSpec::default()).weights(weights).backend(self.backend);
        let mean = evaluate::evaluate(policy, if self.quick { 10 } else { 100 }, self.seed)?;
        println!("evaluation mean return: {mean:.1}");
        Ok(())
    }
}
