//! What publishing weights costs: the publisher, over one copy of the same bytes, and the ticks that go on meanwhile.
//!
//! `cargo bench --bench publish` prints the figures; `-- --check` fails if one misses its bound.

#[allow(dead_code, reason = "other benches use the rest")]
#[path = "../collect/runner.rs"]
mod runner;

mod ticks;

use std::{hint::black_box, process::ExitCode, time::Instant};

use gleaner::{
    Error,
    components::Weights,
    policy::{NetworkSpec, plan::Activation},
    prelude::{CartPole, WeightsHandle},
    seed::Seed,
};

use runner::Runner;

fn main() -> Result<ExitCode, Error> {
    let mut runner = Runner::from_args();
    publisher(&mut runner)?;
    ticks::with_a_publisher(&mut runner, &small(), 1_024, true)?;
    ticks::with_a_publisher(&mut runner, &large(), 16, false)?;
    Ok(if runner.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn small() -> NetworkSpec {
    NetworkSpec { critic: None, ..NetworkSpec::mlp(&[64, 64], Activation::Tanh) }
}

/// 50 MB of weights.
fn large() -> NetworkSpec {
    NetworkSpec { critic: None, ..NetworkSpec::mlp(&[2_048; 4], Activation::Relu) }
}

fn bytes(weights: &Weights) -> usize {
    weights.0.values().map(|tensor| 4 * tensor.data.len()).sum()
}

/// Time of one publication over that of a copy of the same bytes to memory that was used before.
fn publisher(runner: &mut Runner) -> Result<(), Error> {
    let plan = large().plan::<CartPole>()?;
    let own = large().initial_weights(&plan, Seed(1));
    let mut to: Vec<Vec<f32>> = own.0.values().map(|tensor| tensor.data.clone()).collect();
    let mut copy = || {
        to.iter_mut().zip(own.0.values()).for_each(|(to, from)| to.copy_from_slice(&from.data));
        black_box(&to);
        1
    };
    let handle = WeightsHandle::new(plan.tensors(), own.clone())?;
    let publish = || handle.publish_copy(&own).map_or(0, |_| 1);
    let compared = runner.compare(publish, &mut copy);
    let note =
        format!("({:.1} against {:.1} ms for {:.1} MB)", 1e3 * compared.a, 1e3 * compared.b, 1e-6 * bytes(&own) as f64);
    runner.at_most("a copy is published: time over memcpy", 1.0 / compared.ratio(), 1.3, &note);
    // A set that is given away is checked, and an old one freed. Making it is the giver's.
    let mut times = Vec::new();
    for _ in 0..7 {
        let set = own.clone();
        let start = Instant::now();
        handle.publish(set)?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let note = format!("({:.1} ms)", 1e3 * times[3]);
    runner.at_most("a set is given away: time over memcpy", times[3] / compared.b, 1.3, &note);
    Ok(())
}
