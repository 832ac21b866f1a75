//! Networks to test with, and the same forward in naive f64.

use std::sync::Arc;

use gleaner::{
    components::{Episode, EpisodeStep, Masks, Weights},
    gpu::Gpu,
    math,
    policy::{
        gpu::GpuNetwork,
        plan::{Activation, Exploration, Forward, Head, Kind, Memory, Network, Operation, Outcome, Place, Plan},
    },
    seed::{ActionKey, DRAWS_PER_FRAME, Purpose, Seed, Stream, threefry, unit},
};

/// Where a plan's value comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Critic {
    None,
    Shared,
    Separate,
}

/// A perceptron with `widths` between its inputs and its head.
pub fn mlp(inputs: usize, widths: &[usize], activation: Activation, head: Head, critic: Critic) -> Plan {
    let params = head.params();
    let mut plan = Plan { inputs, hidden: Vec::new(), layers: Vec::new(), head, value: critic != Critic::None };
    let trunk = |plan: &mut Plan, prefix: &str| {
        let mut from = (Place::Input, inputs);
        for (i, width) in widths.iter().enumerate() {
            let to = (Place::Hidden(plan.hidden.len()), *width);
            plan.hidden.push(*width);
            layer(plan, &format!("{prefix}.{i}"), activation, from, to);
            from = to;
        }
        from
    };
    let end = trunk(&mut plan, "trunk");
    layer(&mut plan, "head", Activation::Identity, end, (Place::Params, params));
    if critic != Critic::None {
        let end = if critic == Critic::Separate { trunk(&mut plan, "critic") } else { end };
        layer(&mut plan, "value", Activation::Identity, end, (Place::Value, 1));
    }
    plan
}

fn layer(plan: &mut Plan, name: &str, activation: Activation, from: (Place, usize), to: (Place, usize)) {
    let (name, inputs, outputs) = (name.into(), from.1, to.1);
    let kind = Kind::Linear { activation };
    plan.layers.push(Operation { name, kind, from: from.0, start: 0, inputs, to: to.0, outputs });
}

/// Random weights, scaled so that activations stay of order 1.
pub fn weights(plan: &Plan, seed: u64) -> Weights {
    let mut stream = Stream::new(Seed(seed), 0, Purpose::Factory, 0);
    let mut weights = Weights::new();
    for spec in plan.tensors() {
        let scale = 1.5 / (*spec.shape.last().unwrap() as f32).sqrt();
        let len = spec.shape.iter().product();
        let data: Vec<f32> = (0..len).map(|_| stream.uniform(-scale, scale)).collect();
        weights.insert(spec.name, spec.shape, data);
    }
    weights
}

/// Columns of some rows.
pub struct Rows {
    pub inputs: Vec<f32>,
    pub keys: Vec<ActionKey>,
    pub episodes: Vec<Episode>,
    pub steps: Vec<EpisodeStep>,
}

impl Rows {
    pub fn new(plan: &Plan, rows: usize, seed: u64) -> Self {
        let mut stream = Stream::new(Seed(seed), 0, Purpose::Env, 0);
        Self {
            inputs: (0..rows * plan.inputs).map(|_| stream.uniform(-2.0, 2.0)).collect(),
            keys: (0..rows as u32).map(|row| ActionKey(Seed(seed).row_key(row, Purpose::Action))).collect(),
            episodes: (0..rows as u32).map(|row| Episode(row % 7)).collect(),
            steps: (0..rows as u32).map(|row| EpisodeStep(row.wrapping_mul(0x1234_5677))).collect(),
        }
    }
}

/// What a forward gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Got {
    pub params: Vec<f32>,
    pub actions: Vec<u32>,
    pub log_probs: Vec<f32>,
    pub entropies: Vec<f32>,
    pub values: Vec<f32>,
}

pub const POISON: u32 = 0xffc0_dead;

/// Runs a forward into poisoned memory.
pub fn forward(
    network: &mut GpuNetwork,
    plan: &Plan,
    rows: &Rows,
    masks: Masks<'_>,
    exploration: Exploration,
) -> Result<Got, gleaner::Error> {
    forward_with(network, plan, rows, masks, exploration, None)
}

/// The same for rows that remember, on any backend.
pub fn forward_with(
    network: &mut dyn Network,
    plan: &Plan,
    rows: &Rows,
    masks: Masks<'_>,
    exploration: Exploration,
    memory: Option<Memory<'_>>,
) -> Result<Got, gleaner::Error> {
    let n = rows.keys.len();
    let poison = f32::from_bits(POISON);
    let mut got = Got {
        params: vec![poison; n * plan.head.params()],
        actions: vec![POISON; n * plan.head.action_bytes().div_ceil(4)],
        log_probs: vec![poison; n],
        entropies: vec![poison; n],
        values: vec![poison; n],
    };
    let Rows { inputs, keys, episodes, steps } = rows;
    let input = Forward { inputs, masks, keys, episodes, steps, exploration, frames: 0, memory };
    let Got { params, actions, log_probs, entropies, values } = &mut got;
    let actions = bytemuck::cast_slice_mut(actions);
    network.forward(&input, &mut Outcome { params, actions, log_probs, entropies, values })?;
    Ok(got)
}

/// A network on the shared device, with weights.
pub fn network(plan: &Plan, weights: &Weights) -> GpuNetwork {
    on(&Gpu::shared().unwrap(), plan, weights)
}

/// A network with weights.
pub fn on(gpu: &Arc<Gpu>, plan: &Plan, weights: &Weights) -> GpuNetwork {
    let mut network = GpuNetwork::new(gpu.clone(), plan.clone()).unwrap();
    network.load(weights).unwrap();
    network
}

pub fn no_masks() -> Masks<'static> {
    Masks::new::<()>(&[])
}

pub fn close(got: f32, want: f64, what: impl std::fmt::Display) {
    let error = (f64::from(got) - want).abs();
    assert!(error <= 1e-4 * want.abs().max(1.0), "{what}: {got} is not {want}, off by {error:e}");
}

/// The error function by its series of positive terms, `2/√π · e^-x² · Σ 2ⁿ x²ⁿ⁺¹ / (2n+1)!!`.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, 0.0);
    for n in 1..400 {
        sum += term;
        term *= 2.0 * x * x / f64::from(2 * n + 1);
    }
    2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp() * sum
}

/// Parameters and value of one row, in f64.
fn layers(plan: &Plan, weights: &Weights, input: &[f32]) -> (Vec<f64>, f64) {
    let mut hidden = vec![Vec::new(); plan.hidden.len()];
    let (mut params, mut value) = (Vec::new(), 0.0);
    let input: Vec<f64> = input.iter().map(|x| f64::from(*x)).collect();
    for layer in &plan.layers {
        let from = match layer.from {
            Place::Input => &input,
            Place::Hidden(i) => &hidden[i],
            Place::Params | Place::Value => panic!("no layer reads an output"),
        };
        let weight = &weights.get(&format!("{}.weight", layer.name)).unwrap().data;
        let bias = &weights.get(&format!("{}.bias", layer.name)).unwrap().data;
        let output = |o: usize| {
            let terms = from.iter().zip(&weight[o * layer.inputs..]).map(|(x, w)| x * f64::from(*w));
            let sum = f64::from(bias[o]) + terms.sum::<f64>();
            let Kind::Linear { activation } = layer.kind else { panic!("the reference has linear layers only") };
            match activation {
                Activation::Identity => sum,
                Activation::Tanh => sum.tanh(),
                Activation::Relu => sum.max(0.0),
                Activation::Silu => sum / (1.0 + (-sum).exp()),
                Activation::GeluErf => 0.5 * sum * (1.0 + erf(sum * std::f64::consts::FRAC_1_SQRT_2)),
                Activation::Gelu => 0.5 * sum * (1.0 + (0.797_884_560_8 * (sum + 0.044_715 * sum.powi(3))).tanh()),
            }
        };
        let to: Vec<f64> = (0..layer.outputs).map(output).collect();
        match layer.to {
            Place::Hidden(i) => hidden[i] = to,
            Place::Params => params = to,
            Place::Value => value = to[0],
            Place::Input => panic!("no layer writes the input"),
        }
    }
    (params, value)
}

/// Compares row `i` of `got` with the reference.
pub fn check_row(
    (plan, weights): (&Plan, &Weights),
    rows: &Rows,
    masks: Masks<'_>,
    exploration: Exploration,
    got: &Got,
    i: usize,
) {
    let (params, value) = layers(plan, weights, &rows.inputs[i * plan.inputs..(i + 1) * plan.inputs]);
    let width = plan.head.params();
    for (k, want) in params.iter().enumerate() {
        close(got.params[i * width + k], *want, format_args!("row {i}, parameter {k}"));
    }
    close(got.values[i], value, format_args!("row {i}, value"));
    let block = |d: u32| {
        let counter = rows.steps[i].0.wrapping_mul(DRAWS_PER_FRAME).wrapping_add(d);
        threefry(rows.keys[i].0, [counter, rows.episodes[i].0])
    };
    let sample = exploration == Exploration::Sample;
    let log_prob = match plan.head {
        Head::Categorical { .. } => {
            let unit = sample.then(|| f64::from(unit(block(0)[0])));
            categorical(&params, |a| masks.legal(i, a), unit, got.actions[i] as usize, i)
        }
        Head::Gaussian { n, .. } => {
            let log_std = &weights.get("log_std").unwrap().data;
            let mut log_prob = 0.0;
            for k in 0..n {
                let [a, b] = block(k as u32 / 2);
                let z = if sample { f64::from(math::box_muller(a, b)[k % 2]) } else { 0.0 };
                let want = params[k] + f64::from(log_std[k]).exp() * z;
                close(f32::from_bits(got.actions[i * n + k]), want, format_args!("row {i}, action {k}"));
                log_prob -= 0.5 * z * z + f64::from(log_std[k]) + 0.5 * std::f64::consts::TAU.ln();
            }
            log_prob
        }
        _ => panic!("heads.rs compares the others"),
    };
    close(got.log_probs[i], log_prob, format_args!("row {i}, log-prob"));
}

/// Whether `action` is what the rule gives, up to rounding; its log-probability.
fn categorical(logits: &[f64], legal: impl Fn(usize) -> bool, unit: Option<f64>, action: usize, row: usize) -> f64 {
    assert!(action < logits.len() && legal(action), "row {row}: illegal action {action}");
    let total: f64 = (0..logits.len()).filter(|a| legal(*a)).map(|a| logits[a].exp()).sum();
    let upto = |end: usize| (0..end).filter(|a| legal(*a)).map(|a| logits[a].exp() / total).sum::<f64>();
    match unit {
        Some(u) => {
            let (low, high) = (upto(action), upto(action + 1));
            assert!(low - 1e-5 <= u && u <= high + 1e-5, "row {row}: {u} is not in {low}..{high} of action {action}");
        }
        None => {
            let best = (0..logits.len()).filter(|a| legal(*a)).map(|a| logits[a]).fold(f64::MIN, f64::max);
            assert!(logits[action] >= best - 1e-5, "row {row}: action {action} is not the mode");
        }
    }
    (logits[action].exp() / total).ln()
}
