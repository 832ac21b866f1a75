//! Time of one forward of a 4-64-64-2 tanh network on the GPU, upload, head and readback included, and of a naive
//! kernel for its layers alone: `cargo bench --bench gpu_forward`. The best of several turns. The first is told apart:
//! it allocates, and software adapters compile the kernels in it, which alone takes long on a busy machine. With
//! `-- --check` only [`MANY`] rows are measured, and a network that is not [`DEMANDED`] times as fast as the naive
//! kernel is a failure.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gleaner::{
    Error,
    components::{Episode, EpisodeStep, Masks, Weights},
    gpu::{Gpu, GpuConfig, Kernel, Upload, WeightMemory},
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
    let gpu = match open(GpuConfig::default()) {
        Ok(gpu) => gpu,
        // Nothing to measure; a machine that must have an adapter says so.
        Err(error) if std::env::var_os("GLEANER_REQUIRE_GPU").is_none() => {
            println!("no figures: {error}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    println!("{}", gpu.adapter());
    if !std::env::args().any(|argument| argument == "--check") {
        small(&gpu, &[1, 64, MANY, 4 * MANY])?;
        return forms();
    }
    match small(&gpu, &[MANY])? {
        ratio if ratio < DEMANDED => {
            Err(Error::Gpu(format!("{ratio:.1} times as fast as the naive kernel; legal: {DEMANDED}")))
        }
        _ => Ok(()),
    }
}

/// A device of its own, with time for a machine that is busy with other things.
fn open(config: GpuConfig) -> Result<Arc<Gpu>, Error> {
    Gpu::open(&GpuConfig { deadline: Duration::from_secs(120), ..config })
}

/// The small network against the naive kernel; the ratio at the last number of rows.
fn small(gpu: &Arc<Gpu>, counts: &[usize]) -> Result<f64, Error> {
    let mut network = network(gpu, &perceptron(4, &[64, 64], Activation::Tanh))?;
    println!("4-64-64-2 tanh: {}", network.form());
    println!(
        "{:>8} {:>12} {:>12} {:>12} {:>12} {:>6}",
        "rows", "µs the first", "µs a forward", "rows/s", "µs naive", "ratio"
    );
    let mut ratio = 0.0;
    for rows in counts {
        let ((first, time), (_, naive)) = (measure(&mut network, 4, *rows)?, naive(gpu, *rows)?);
        let per_second = *rows as f64 / time.as_secs_f64();
        ratio = naive.as_secs_f64() / time.as_secs_f64();
        let [first, time, naive] = [first, time, naive].map(micros);
        println!("{rows:>8} {first:>12.0} {time:>12.1} {per_second:>12.0} {naive:>12.1} {ratio:>6.1}");
    }
    Ok(ratio)
}

/// What the forms that depend on the adapter cost here.
fn forms() -> Result<(), Error> {
    let (tanh, relu) = (Activation::Tanh, Activation::Relu);
    let (small, wide) = (perceptron(4, &[64, 64], tanh), perceptron(17, &[256, 256], relu));
    let default = GpuConfig::default;
    let workgroup = GpuConfig { weights: WeightMemory::Workgroup, ..default() };
    let uniform = GpuConfig { weights: WeightMemory::Uniform, ..default() };
    let without = GpuConfig { subgroups: false, ..default() };
    let cases = [
        ("4-64-64-2 tanh, uniform memory", &small, uniform.clone()),
        ("4-64-64-2 tanh, workgroup memory", &small, workgroup.clone()),
        ("4-64-64-2 tanh, uniform memory, halves", &small, GpuConfig { half: true, ..uniform }),
        ("4-64-64-2 tanh, workgroup memory, halves", &small, GpuConfig { half: true, ..workgroup }),
        ("17-256-256-2 relu", &wide, default()),
        ("17-256-256-2 relu, halves", &wide, GpuConfig { half: true, ..default() }),
        ("17-256-256-2 relu, layer norm", &normed(&wide), default()),
        ("17-256-256-2 relu, layer norm without subgroups", &normed(&wide), without),
    ];
    println!("{:>50} {:>14} {:>14}", format!("{MANY} rows"), "µs the first", "µs a forward");
    for (name, plan, config) in cases {
        let (first, time) = measure(&mut network(&open(config)?, plan)?, plan.inputs, MANY)?;
        println!("{name:>50} {:>14.0} {:>14.1}", micros(first), micros(time));
    }
    Ok(())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn network(gpu: &Arc<Gpu>, plan: &Plan) -> Result<GpuNetwork, Error> {
    let mut weights = Weights::new();
    for spec in plan.tensors() {
        let data = vec![0.01; spec.shape.iter().product()];
        weights.insert(spec.name, spec.shape, data);
    }
    let mut network = GpuNetwork::new(gpu.clone(), plan.clone())?;
    network.load(&weights)?;
    Ok(network)
}

/// The first turn, and the best of some more.
fn best(turns: usize, mut turn: impl FnMut() -> Result<(), Error>) -> Result<(Duration, Duration), Error> {
    let mut time = || {
        let start = Instant::now();
        turn().map(|()| start.elapsed())
    };
    let (first, mut best) = (time()?, Duration::MAX);
    for _ in 0..turns {
        best = best.min(time()?);
    }
    Ok((first, best))
}

/// The naive kernel's dispatch with its submit: nothing is sent or brought.
fn naive(gpu: &Gpu, rows: usize) -> Result<(Duration, Duration), Error> {
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

/// Hidden layers of these widths, and two actions.
fn perceptron(inputs: usize, widths: &[usize], activation: Activation) -> Plan {
    let mut plan =
        Plan { inputs, hidden: widths.to_vec(), layers: vec![], head: Head::Categorical { n: 2 }, value: false };
    let mut from = (Place::Input, inputs);
    let hidden = widths.iter().enumerate().map(|(i, width)| (Place::Hidden(i), *width, activation));
    for (i, (to, outputs, activation)) in
        hidden.chain([(Place::Params, 2, Activation::Identity)]).enumerate().collect::<Vec<_>>()
    {
        let kind = Kind::Linear { activation };
        let (from_, inputs) = from;
        plan.layers.push(Operation { name: i.to_string(), kind, from: from_, start: 0, inputs, to, outputs });
        from = (to, outputs);
    }
    plan
}

/// The same with a layer norm behind each hidden layer.
fn normed(plan: &Plan) -> Plan {
    let mut normed = Plan { layers: vec![], ..plan.clone() };
    for layer in &plan.layers {
        let from = match layer.from {
            Place::Hidden(i) => Place::Hidden(i + plan.hidden.len()),
            place => place,
        };
        normed.layers.push(Operation { from, ..layer.clone() });
        if let Place::Hidden(i) = layer.to {
            let kind = Kind::LayerNorm { activation: Activation::Identity };
            let (name, to) = (format!("norm {i}"), Place::Hidden(normed.hidden.len()));
            let (from, inputs, outputs) = (layer.to, layer.outputs, layer.outputs);
            normed.hidden.push(outputs);
            normed.layers.push(Operation { name, kind, from, start: 0, inputs, to, outputs });
        }
    }
    normed
}

fn measure(network: &mut GpuNetwork, inputs: usize, rows: usize) -> Result<(Duration, Duration), Error> {
    let inputs = vec![0.1; rows * inputs];
    let (keys, episodes, steps) =
        (vec![ActionKey::default(); rows], vec![Episode::default(); rows], vec![EpisodeStep::default(); rows]);
    let (mut params, mut actions) = (vec![0.0; rows * 2], vec![0; rows * 4]);
    let (mut log_probs, mut values) = (vec![0.0; rows], vec![0.0; rows]);
    best(20, || {
        let input = Forward {
            inputs: &inputs,
            masks: Masks::new::<()>(&[]),
            keys: &keys,
            episodes: &episodes,
            steps: &steps,
            exploration: Exploration::Sample,
            frames: 0,
            memory: None,
        };
        let mut out = Outcome {
            params: &mut params,
            actions: &mut actions,
            log_probs: &mut log_probs,
            entropies: &mut [],
            values: &mut values,
        };
        network.forward(&input, &mut out)
    })
}
