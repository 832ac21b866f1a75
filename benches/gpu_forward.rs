//! Time of one forward of a 4-64-64-2 tanh network on the GPU, upload and readback included: `cargo bench --bench
//! gpu_forward`. The median of 15 runs; the first forwards, which allocate, are not counted.

use std::time::{Duration, Instant};

use gleaner::{
    Error,
    components::{Episode, EpisodeStep, Masks, Weights},
    gpu::Gpu,
    policy::{
        gpu::GpuNetwork,
        plan::{Activation, Exploration, Forward, Head, Kind, Network, Operation, Outcome, Place, Plan},
    },
    seed::ActionKey,
};

fn main() -> Result<(), Error> {
    let gpu = match Gpu::shared() {
        Ok(gpu) => gpu,
        // Nothing to measure; a machine that must have an adapter says so.
        Err(error) if std::env::var_os("GLEANER_REQUIRE_GPU").is_none() => {
            println!("no figures: {error}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    println!("{}", gpu.adapter());
    let plan = plan();
    let mut weights = Weights::new();
    for spec in plan.tensors() {
        let data = vec![0.01; spec.shape.iter().product()];
        weights.insert(spec.name, spec.shape, data);
    }
    let mut network = GpuNetwork::new(gpu, plan)?;
    network.load(&weights)?;
    println!("{:>8} {:>14} {:>14}", "rows", "µs a forward", "rows/s");
    for rows in [1, 64, 1024] {
        let time = measure(&mut network, rows)?;
        println!("{rows:>8} {:>14.1} {:>14.0}", time.as_secs_f64() * 1e6, rows as f64 / time.as_secs_f64());
    }
    Ok(())
}

fn plan() -> Plan {
    let layer = |name: &str, inputs, outputs, activation, from, to| {
        let name = name.into();
        let kind = Kind::Linear { activation };
        Operation { name, kind, from, start: 0, inputs, to, outputs }
    };
    let layers = vec![
        layer("0", 4, 64, Activation::Tanh, Place::Input, Place::Hidden(0)),
        layer("1", 64, 64, Activation::Tanh, Place::Hidden(0), Place::Hidden(1)),
        layer("2", 64, 2, Activation::Identity, Place::Hidden(1), Place::Params),
    ];
    Plan { inputs: 4, hidden: vec![64, 64], layers, head: Head::Categorical { n: 2 }, value: false }
}

fn measure(network: &mut GpuNetwork, rows: usize) -> Result<Duration, Error> {
    let inputs = vec![0.1; rows * 4];
    let (keys, episodes, steps) =
        (vec![ActionKey::default(); rows], vec![Episode::default(); rows], vec![EpisodeStep::default(); rows]);
    let (mut params, mut actions) = (vec![0.0; rows * 2], vec![0; rows]);
    let (mut log_probs, mut values) = (vec![0.0; rows], vec![0.0; rows]);
    let mut times = Vec::new();
    for _ in 0..16 {
        let start = Instant::now();
        for _ in 0..50 {
            let input = Forward {
                inputs: &inputs,
                masks: Masks::new::<()>(&[]),
                keys: &keys,
                episodes: &episodes,
                steps: &steps,
                exploration: Exploration::Sample,
                memory: None,
            };
            let mut out =
                Outcome { params: &mut params, actions: &mut actions, log_probs: &mut log_probs, values: &mut values };
            network.forward(&input, &mut out)?;
        }
        times.push(start.elapsed() / 50);
    }
    times.remove(0);
    times.sort();
    Ok(times[times.len() / 2])
}
