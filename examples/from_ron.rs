//! A whole run from one RON file. A host adds an environment of its own in one line, here `drift`.
//!
//! `cargo run --release --example from_ron -- assets/cart_pole.ron`

#[path = "learner/ctrl_c.rs"]
mod ctrl_c;

use std::{path::PathBuf, process::ExitCode, sync::atomic::Ordering::Relaxed};

use bevy_ecs::prelude::Component;
use clap::Parser;
use gleaner::{prelude::*, run::RunFile};

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let stop = ctrl_c::flag()?;
    let mut registry = Registry::builtin();
    registry.add::<Drift>("drift");

    let mut file = RunFile::read(&arguments.file)?;
    if arguments.quick {
        file.config.collector.total_frames = Some(5_000);
    }
    let mut collector = registry.build(&file)?;

    println!("{}: {collector:?}", file.config.env);
    for column in collector.columns() {
        println!("  column {} of {} bytes a frame", column.name, column.stride);
    }
    while let Some(batch) = collector.next() {
        let batch = batch?;
        let (reward, frames) = (batch.rewards().iter().sum::<f32>(), batch.frames());
        let ended = batch.trajectories().len();
        println!(
            "batch {}: {:?}, reward {reward:.1} over {frames} frames, {ended} ended",
            batch.index(),
            batch.layout()
        );
        if stop.load(Relaxed) {
            println!("stopped by Ctrl-C");
            collector.shutdown();
        }
    }
    println!("{:#?}", collector.stats());
    Ok(())
}

/// Collects what a RON file describes.
#[derive(Parser)]
struct Arguments {
    /// The file, such as assets/cart_pole.ron
    file: PathBuf,
    /// Stop after 5,000 frames
    #[arg(long)]
    quick: bool,
}

/// A point that drifts at random and is pushed left or right; it pays to stay near 0.
#[derive(Component, Clone, Copy, Default)]
struct Drift(f32);

impl Task for Drift {
    type Observation = f32;
    type Action = i32;
    type Mask = ();

    fn observation_space() -> Space {
        Space::unbounded(1)
    }

    fn action_space() -> Space {
        Space::discrete(2)
    }
}

impl Env for Drift {
    type Options = ();
    const TIME_LIMIT: Option<u32> = Some(50);

    fn reset(&mut self, (): &(), stream: &mut Stream) -> f32 {
        self.0 = stream.uniform(-1.0, 1.0);
        self.0
    }

    fn step(&mut self, action: &i32, stream: &mut Stream) -> Transition<f32> {
        self.0 += if *action == 0 { -0.1 } else { 0.1 } + 0.1 * stream.normal();
        Transition { observation: self.0, reward: -self.0.abs(), terminated: self.0.abs() > 3.0, truncated: false }
    }
}
