//! Collecting, learning and evaluating as three processes that share nothing but files: a trained actor's episodes go to
//! disk, another policy learns from them without any environment, a third process evaluates it.
//!
//! `cargo run --release --example offline -- --help`

#[path = "learner/mod.rs"]
mod learner;

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use candle_core::{DType, Device, Tensor};
use candle_nn::loss::cross_entropy;
use clap::{Parser, ValueEnum};
use gleaner::{
    policy::Layer,
    prelude::*,
    replay::{Capacity, Replay, ReplayConfig, Sample, Sampler, sampler::WithoutReplacement},
};
use learner::{Adam, Mlp, Result, ctrl_c, evaluate, matrix};

fn main() -> ExitCode {
    learner::exit_code(Args::parse().run())
}

/// Collects episodes of a trained actor to disk, clones its behaviour from there, and evaluates the clone over 100
/// episodes of CartPole-v1: each in a process of its own.
#[derive(Parser)]
struct Args {
    /// One of the three only; without it this process starts one after the other
    #[arg(long, value_enum)]
    phase: Option<Phase>,
    /// Seed of environments, initial weights and the order of frames
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Collect and learn less
    #[arg(long)]
    quick: bool,
    /// Folder for the buffer and the policy
    #[arg(long, default_value = "out/offline")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Phase {
    Collect,
    Train,
    Evaluate,
}

/// The layers that are learnt.
const NAMES: [&str; 3] = ["actor.0", "actor.2", "action"];

impl Args {
    fn run(&self) -> Result<()> {
        // Ctrl-C reaches all processes: the running phase keeps what it has, and no other one begins.
        let stop = ctrl_c::flag()?;
        match self.phase {
            Some(Phase::Collect) => self.collect(&stop),
            Some(Phase::Train) => self.train(&stop),
            Some(Phase::Evaluate) => self.evaluate().map(|mean| println!("evaluation mean return: {mean:.1}")),
            None => [Phase::Collect, Phase::Train, Phase::Evaluate]
                .into_iter()
                .take_while(|_| !stop.load(Relaxed))
                .try_for_each(|phase| self.start(phase)),
        }
    }

    /// Runs a phase in a process of its own.
    fn start(&self, phase: Phase) -> Result<()> {
        let mut process = std::process::Command::new(std::env::current_exe()?);
        let name = format!("{phase:?}").to_lowercase();
        process.args(["--phase", &name, "--seed", &self.seed.to_string()]).arg("--out").arg(&self.out);
        if self.quick {
            process.arg("--quick");
        }
        if process.status()?.success() { Ok(()) } else { Err(format!("phase {name} failed").into()) }
    }

    /// Whole episodes of a policy that Stable-Baselines3 trained, into a file.
    fn collect(&self, stop: &AtomicBool) -> Result<()> {
        std::fs::create_dir_all(&self.out)?;
        let assets = concat!(env!("CARGO_MANIFEST_DIR"), "/assets");
        let names = NameMap::from_ron_file(format!("{assets}/names/stable_baselines3.ron"))?;
        let weights = WeightsFile::new(format!("{assets}/sb3_ppo_cart_pole.safetensors")).names(names).load()?;
        let policy = Policy::network(NetworkSpec::default()).weights(weights).backend(Backend::Cpu);
        let replay = self.buffer()?;
        let mut collector = Collector::<CartPole>::builder()
            .policy(policy)
            .rows(16)
            .total_frames(if self.quick { 16_000 } else { 50_000 })
            .replay(&replay)
            .replay_write_mode(ReplayWriteMode::Trajectory)
            .seed(self.seed)
            .build()?;
        for receipt in collector.receipts().take_while(|_| !stop.load(Relaxed)) {
            receipt?;
        }
        replay.save(self.file(), &[])?;
        println!(
            "{} frames of {} episodes are in {}",
            replay.len(),
            replay.trajectories().len(),
            self.file().display()
        );
        Ok(())
    }

    /// Clones what the file's episodes did.
    fn train(&self, stop: &AtomicBool) -> Result<()> {
        let replay = self.buffer()?;
        replay.load(self.file(), &mut [])?;
        let clone = Mlp::new(&[4, 64, 64, 2], self.seed)?.named(&NAMES);
        let mut optimizer = Adam::new(clone.vars(), 1.0)?;
        let mut sampler =
            replay.sampler().sampling(WithoutReplacement::default()).batch_size(256).seed(self.seed).build()?;
        for epoch in (1..=if self.quick { 2 } else { 5 }).take_while(|_| !stop.load(Relaxed)) {
            let loss = train_epoch(&mut sampler, &clone, &mut optimizer)?;
            println!("epoch {epoch}: mean loss {loss:.3}");
        }
        clone.weights()?.save(self.policy())?;
        Ok(())
    }

    fn evaluate(&self) -> Result<f32> {
        let spec = NetworkSpec {
            actor: vec![Layer::Linear(64), Layer::Relu, Layer::Linear(64), Layer::Relu],
            critic: None,
            ..NetworkSpec::default()
        };
        let policy = Policy::<CartPole>::network(spec).weights(Weights::load(self.policy())?).backend(Backend::Cpu);
        evaluate(policy, if self.quick { 20 } else { 100 }, self.seed.wrapping_add(1))
    }

    fn buffer(&self) -> Result<Replay<CartPole>> {
        Ok(Replay::with_config(ReplayConfig { capacity: Capacity::Frames(50_000), ..ReplayConfig::default() })?)
    }

    fn file(&self) -> PathBuf {
        self.out.join("episodes.replay")
    }

    fn policy(&self) -> PathBuf {
        self.out.join("policy.safetensors")
    }
}

/// Sees every frame once; returns the mean loss.
fn train_epoch(sampler: &mut Sampler<CartPole>, clone: &Mlp, optimizer: &mut Adam) -> Result<f32> {
    let (mut sum, mut samples) = (0.0, 0);
    for sample in sampler {
        let sample: Sample<CartPole> = sample?;
        let slots: Vec<usize> = (0..sample.len()).collect();
        let logits = clone.forward(&matrix(sample.observations(), &slots)?)?;
        let actions: Vec<u32> = sample.actions().iter().map(|action| *action as u32).collect();
        let loss = cross_entropy(&logits, &Tensor::from_vec(actions, slots.len(), &Device::Cpu)?)?;
        optimizer.step(&loss, 1e-3)?;
        sum += loss.to_dtype(DType::F32)?.to_scalar::<f32>()?;
        samples += 1;
    }
    Ok(sum / samples.max(1) as f32)
}
