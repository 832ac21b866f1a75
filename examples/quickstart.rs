//! A random policy on CartPole: batches, and what the collector counts.
//!
//! `cargo run --release --example quickstart`

#[path = "learner/ctrl_c.rs"]
mod ctrl_c;

use std::sync::atomic::Ordering::Relaxed;

use gleaner::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stop = ctrl_c::flag()?;
    let mut collector =
        Collector::<CartPole>::builder().rows(64).frames_per_batch(64 * 32).total_frames(20_000).seed(1).build()?;

    for batch in &mut collector {
        let batch = batch?;
        let longest = batch.trajectories().iter().map(|trajectory| trajectory.length).max();
        println!(
            "batch {}: {} frames, {} episodes ended, the longest after {} frames",
            batch.index(),
            batch.frames(),
            batch.trajectories().len(),
            longest.unwrap_or(0),
        );
        if stop.load(Relaxed) {
            break;
        }
    }

    println!("{:#?}", collector.stats());
    Ok(())
}
