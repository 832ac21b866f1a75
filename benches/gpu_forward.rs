//! Time of one forward of a 4-64-64-2 tanh network on the GPU, upload, head and readback included, and of a naive
//! kernel for its layers alone: `cargo bench --bench gpu_forward`. The best of several turns; the first, which
//! allocates, is not counted. With `-- --check` a network that is not [`DEMANDED`] times as fast as the naive kernel is
//! a failure.

use std::time::{Duration, Instant};

use gleaner::{
    Error,
    components::{Episode, EpisodeStep, Masks, Weights},
    gpu::{Gpu, Kernel, Upload},
    policy::{
        gpu::GpuNetwork,
        plan::{Activation, Exploration, Forward, Head, Kind, Network, Operation, Outcome, Place, Plan},
    },
    seed::ActionKey,
};

/// How many times as fast as the naive kernel the network must be at [`MANY`] rows.
const DEMANDED: f64 = 3.0;
const MANY: usize = 1024;

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
    let mut network = GpuNetwork::new(gpu.clone(), plan)?;
    network.load(&weights)?;
    println!("{:>8} {:>14} {:>14} {:>14} {:>8}", "rows", "µs a forward", "rows/s", "µs naive", "ratio");
    let mut ratios = Vec::new();
    for rows in [1, 64, MANY, 4 * MANY] {
        let (time, naive) = (measure(&mut network, rows)?, naive(&gpu, rows)?);
        let (per_second, ratio) = (rows as f64 / time.as_secs_f64(), naive.as_secs_f64() / time.as_secs_f64());
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        println!("{rows:>8} {:>14.1} {per_second:>14.0} {:>14.1} {ratio:>8.1}", micros(time), micros(naive));
        ratios.extend((rows >= MANY).then_some(ratio));
    }
    let worst = ratios.into_iter().fold(f64::INFINITY, f64::min);
    if std::env::args().any(|argument| argument == "--check") && worst < DEMANDED {
        return Err(Error::Gpu(format!("{worst:.1} times as fast as the naive kernel; legal: {DEMANDED}")));
    }
    Ok(())
}

/// The best of some turns, after one that warms up.
fn best(turns: usize, mut turn: impl FnMut() -> Result<(), Error>) -> Result<Duration, Error> {
    turn()?;
    let mut best = Duration::MAX;
    for _ in 0..turns {
        let start = Instant::now();
        turn()?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}

/// The naive kernel's dispatch with its submit: nothing is sent or brought.
fn naive(gpu: &Gpu, rows: usize) -> Result<Duration, Error> {
    use wgpu::BufferUsages as Usage;
    let kernel = Kernel::from_text(gpu, "naive", include_str!("naive.wgsl"), &[])?;
    let storage = |name: &str, words: usize| gpu.buffer(name, words as u64 * 4, Usage::STORAGE | Usage::COPY_DST);
    let params = gpu.buffer("params", 4, Usage::UNIFORM | Usage::COPY_DST)?;
    let (from, to, weights) = (storage("from", rows * 4)?, storage("to", rows * 2)?, storage("weights", 4610)?);
    let all = [&params, &from, &weights, &to].map(|buffer| buffer.as_entire_buffer_binding());
    let bindings = kernel.bind(gpu, &all)?;
    let mut upload = Upload::default();
    let sent = upload.fill(gpu, "rows", &[&(rows as u32).to_ne_bytes()])?;
    let mut encoder = gpu.device().create_command_encoder(&Default::default());
    encoder.copy_buffer_to_buffer(&sent, 0, &params, 0, 4);
    gpu.run(encoder.finish(), 0, &mut [&mut upload], None)?;
    best(10, || {
        let mut encoder = gpu.device().create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        kernel.dispatch(&mut pass, &bindings, rows as u64)?;
        drop(pass);
        gpu.run(encoder.finish(), 1, &mut [], None)
    })
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
    best(50, || {
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
        network.forward(&input, &mut out)
    })
}
