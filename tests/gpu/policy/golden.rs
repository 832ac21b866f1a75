//! Numbers that PyTorch computed in f64: `tests/data/forward.safetensors`.

use gleaner::{
    components::{Masks, Weights},
    data::{Dtype, Field},
    policy::{
        Layer, NetworkSpec,
        plan::{Activation, Exploration, Head, Kind, LogStd, Memory, Operation, Place, Plan, States},
    },
    seed::ActionKey,
    space::Space,
};
use safetensors::SafeTensors;

use super::{
    forms::forms,
    kernels::map,
    reference::{Rows, close, forward, forward_with, network, no_masks, on},
};

const ROWS: usize = 37;

fn file() -> Vec<u8> {
    std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/forward.safetensors")).unwrap()
}

fn tensor(file: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    file.tensor(name).unwrap().data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn columns(inputs: Vec<f32>, rows: usize) -> Rows {
    let keys = (0..rows as u32).map(|i| ActionKey([i, i ^ 0x5555])).collect();
    Rows { inputs, keys, episodes: vec![Default::default(); rows], steps: vec![Default::default(); rows] }
}

/// A network whose trunk is `layers` and whose head is its last linear layer, with PyTorch's weights. The names of a
/// file's tensors count entries; ours have the list's name before them. Without a last layer the trunk's own output
/// comes out, `outputs` wide.
fn pytorch(name: &str, layers: Vec<Layer>, last: Option<&str>, shape: &[usize], outputs: usize) -> (Plan, Weights) {
    let bytes = file();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let spec = NetworkSpec { trunk: layers, actor: vec![], critic: None, ..NetworkSpec::default() };
    let dtype = if shape.len() == 3 { Dtype::U8 } else { Dtype::F32 };
    let observation = Field { name: "".into(), dtype, shape: shape.to_vec() };
    let space = Space::uniform(0.0, 255.0, observation.len());
    let actions = Field { name: "".into(), dtype: Dtype::I32, shape: vec![] };
    let plan = spec.plan_for((&space, &[observation]), (&Space::discrete(outputs as u32), &[actions])).unwrap();
    let mut weights = Weights::new();
    for spec in plan.tensors() {
        let (layer, part) = spec.name.rsplit_once('.').unwrap();
        let data = match (layer.strip_prefix("trunk."), last) {
            (Some("0"), None) => tensor(&file, &format!("{name}/weights/{part}")),
            (Some(number), _) => tensor(&file, &format!("{name}/weights/{number}.{part}")),
            (None, Some(last)) => tensor(&file, &format!("{name}/weights/{last}.{part}")),
            (None, None) if part == "weight" => unit_matrix(outputs),
            (None, None) => vec![0.0; outputs],
        };
        weights.insert(spec.name.clone(), spec.shape, data);
    }
    (plan, weights)
}

fn unit_matrix(n: usize) -> Vec<f32> {
    (0..n * n).map(|i| f32::from(u8::from(i / n == i % n))).collect()
}

fn params_are(name: &str, layers: Vec<Layer>, last: &str, shape: &[usize]) {
    let bytes = file();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let outputs = tensor(&file, &format!("{name}/weights/{last}.bias")).len();
    let (plan, weights) = pytorch(name, layers, Some(last), shape, outputs);
    let inputs = tensor(&file, &format!("{name}/input"));
    let rows = inputs.len() / plan.inputs;
    let (rows, want) = (columns(inputs, rows), tensor(&file, &format!("{name}/output")));
    for gpu in forms() {
        let mut network = on(&gpu, &plan, &weights);
        let got = forward(&mut network, &plan, &rows, no_masks(), Exploration::Mode).unwrap();
        assert_eq!(got.params.len(), want.len(), "{name}");
        for (i, (got, want)) in got.params.iter().zip(&want).enumerate() {
            close(*got, f64::from(*want), format_args!("{name}, {}, element {i}", network.form()));
        }
    }
}

pub fn perceptrons() {
    let activations = [("tanh", Layer::Tanh), ("relu", Layer::Relu), ("silu", Layer::Silu), ("gelu", Layer::Gelu)];
    for (name, activation) in activations {
        let layers = vec![Layer::Linear(64), activation, Layer::Linear(64), activation];
        params_are(&format!("mlp_{name}"), layers, "4", &[4]);
    }
}

pub fn layer_norm() {
    let hidden = [Layer::Linear(256), Layer::LayerNorm, Layer::Relu];
    params_are("mlp_layer_norm", hidden.repeat(2), "6", &[17]);
}

pub fn convolutions_of_bytes() {
    let conv = |filters, kernel, stride| Layer::Conv2d { filters, kernel, stride, padding: 0 };
    let mut layers = vec![conv(16, 8, 4), Layer::Relu, conv(32, 4, 2), Layer::Relu, conv(32, 3, 1), Layer::Relu];
    layers.extend([Layer::Flatten, Layer::Linear(64), Layer::Relu]);
    params_are("conv_u8", layers, "9", &[4, 84, 84]);
}

pub fn recurrent_layers() {
    let bytes = file();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    for (name, hidden, layer) in [("gru", 32, Layer::Gru(32)), ("lstm", 24, Layer::Lstm(24))] {
        let (plan, weights) = pytorch(name, vec![layer], None, &[11], hidden);
        let mut network = network(&plan, &weights);
        let [input, reset, output] = ["input", "reset", "output"].map(|part| tensor(&file, &format!("{name}/{part}")));
        // Places in an order of their own.
        let places: Vec<_> = (0..37).map(|row| row * 5 % 37).collect();
        let states = States::new(37, plan.state());
        for t in 0..9 {
            let step = |values: &[f32], width: usize| -> Vec<f32> {
                values.chunks(9 * width).flat_map(|row| row[t * width..(t + 1) * width].to_vec()).collect()
            };
            let fresh: Vec<_> = step(&reset, 1).iter().map(|reset| u8::from(*reset != 0.0)).collect();
            let memory = Memory { states: &states, places: &places, fresh: &fresh };
            let rows = columns(step(&input, 11), ROWS);
            let got = forward_with(&mut network, &plan, &rows, no_masks(), Exploration::Mode, Some(memory)).unwrap();
            for (i, (got, want)) in got.params.iter().zip(step(&output, hidden)).enumerate() {
                close(*got, f64::from(want), format_args!("{name} at {t}, element {i}"));
            }
        }
    }
}

/// A plan of one layer that passes its inputs on, and its weights.
fn identity(head: Head) -> (Plan, Weights) {
    let n = head.params();
    let layer = Operation {
        name: "head".into(),
        kind: Kind::Linear { activation: Activation::Identity },
        from: Place::Input,
        start: 0,
        inputs: n,
        to: Place::Params,
        outputs: n,
    };
    let mut weights = Weights::new();
    weights.insert("head.weight", [n, n], unit_matrix(n));
    weights.insert("head.bias", [n], vec![0.0; n]);
    (Plan { inputs: n, hidden: vec![], layers: vec![layer], head, value: false }, weights)
}

/// Draws until the golden action comes up, then compares its log-prob.
pub fn categorical() {
    const TRIES: usize = 3000;
    let bytes = file();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let (logits, mask) = (tensor(&file, "categorical/logits"), tensor(&file, "categorical/mask"));
    let (actions, log_probs) = (tensor(&file, "categorical/action"), tensor(&file, "categorical/log_prob"));
    let (plan, weights) = identity(Head::Categorical { n: 5 });
    let mut network = network(&plan, &weights);
    let masks: Vec<[u8; 5]> = mask.chunks(5).map(|row| std::array::from_fn(|a| row[a] as u8)).collect();
    let rows = columns(logits.repeat(TRIES), ROWS * TRIES);
    let masks = masks.repeat(TRIES);
    let got = forward(&mut network, &plan, &rows, Masks::new(&masks), Exploration::Sample).unwrap();
    let entropies = tensor(&file, "categorical/entropy");
    for row in 0..ROWS {
        close(got.entropies[row], f64::from(entropies[row]), format_args!("row {row}, entropy"));
        let drawn = || (row..ROWS * TRIES).step_by(ROWS).filter(|i| got.actions[*i] == actions[row] as u32);
        let want = f64::from(log_probs[row]);
        if let Some(i) = drawn().next() {
            close(got.log_probs[i], want, format_args!("row {row}"));
        }
        let share = drawn().count() as f64 / TRIES as f64;
        let deviation = (want.exp() * (1.0 - want.exp()) / TRIES as f64).sqrt();
        assert!((share - want.exp()).abs() <= 5.0 * deviation + 1e-3, "row {row}: drawn {share}, want {}", want.exp());
    }
}

/// The kernel's log-prob at its own actions, and the density that it sums at PyTorch's.
pub fn gaussian() {
    let bytes = file();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let (means, log_std) = (tensor(&file, "gaussian/mean"), tensor(&file, "gaussian/log_std"));
    let (actions, log_probs) = (tensor(&file, "gaussian/action"), tensor(&file, "gaussian/log_prob"));
    let entropies = tensor(&file, "gaussian/entropy");
    let items: Vec<_> =
        (0..ROWS * 3).map(|i| [actions[i].to_bits(), means[i].to_bits(), log_std[i].to_bits(), 0]).collect();
    let density = map(
        "vec4<u32>(bitcast<u32>(normal_log_density((f - bitcast<f32>(x.y)) / exp32(bitcast<f32>(x.z)), \
         bitcast<f32>(x.z))), 0u, 0u, 0u)",
        &items,
    );
    let (plan, mut weights) = identity(Head::Gaussian { n: 3, log_std: LogStd::Free(0.0) });
    for row in 0..ROWS {
        let sum: f32 = density[row * 3..row * 3 + 3].iter().map(|word| f32::from_bits(word[0])).sum();
        close(sum, f64::from(log_probs[row]), format_args!("row {row}"));
        weights.insert("log_std", [3], &log_std[row * 3..row * 3 + 3]);
        let rows = columns(means[row * 3..row * 3 + 3].into(), 1);
        let got = forward(&mut network(&plan, &weights), &plan, &rows, no_masks(), Exploration::Sample).unwrap();
        close(got.entropies[0], f64::from(entropies[row]), format_args!("row {row}, entropy"));
        // Moved from the action that was drawn to the golden one.
        let z = |action: f32, k: usize| f64::from(action - means[row * 3 + k]) / f64::from(log_std[row * 3 + k]).exp();
        let moved = (0..3).map(|k| {
            let (drawn, golden) = (z(f32::from_bits(got.actions[k]), k), z(actions[row * 3 + k], k));
            0.5 * (drawn * drawn - golden * golden)
        });
        let at_golden = f64::from(got.log_probs[0]) + moved.sum::<f64>();
        close(at_golden as f32, f64::from(log_probs[row]), format_args!("row {row}, kernel"));
    }
}

/// Log-prob and action of the numbers that PyTorch drew, which are the means where deviations vanish.
pub fn tanh_gaussian() {
    let bytes = file();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let [means, log_std, u, actions, log_probs] = ["mean", "log_std", "pre_tanh", "action", "log_prob"]
        .map(|name| tensor(&file, &format!("tanh_gaussian/{name}")));
    let items: Vec<_> = (0..ROWS * 3).map(|i| [u[i].to_bits(), means[i].to_bits(), log_std[i].to_bits(), 0]).collect();
    let density = map(
        "vec4<u32>(bitcast<u32>(normal_log_density((f - bitcast<f32>(x.y)) / exp32(bitcast<f32>(x.z)), \
         bitcast<f32>(x.z)) - 2.0 * (0.6931472 - f - softplus32(-2.0 * f))), 0u, 0u, 0u)",
        &items,
    );
    let head = Head::TanhGaussian { low: vec![-1.0; 3], high: vec![1.0; 3], log_std: LogStd::NETWORK };
    let (plan, weights) = identity(head);
    let inputs = u.chunks(3).flat_map(|u| [u[0], u[1], u[2], -20.0, -20.0, -20.0]).collect();
    let rows = columns(inputs, ROWS);
    let got = forward(&mut network(&plan, &weights), &plan, &rows, no_masks(), Exploration::Mode).unwrap();
    for row in 0..ROWS {
        let sum: f32 = (0..3).map(|k| f32::from_bits(density[row * 3 + k][0])).sum();
        close(sum, f64::from(log_probs[row]), format_args!("row {row}"));
        for (got, want) in got.actions[3 * row..][..3].iter().zip(&actions[3 * row..]) {
            close(f32::from_bits(*got), f64::from(*want), format_args!("row {row}, action"));
        }
        // At the mean: the normal density there, less the slope of the squash.
        let normal = 3.0 * (20.0 - 0.5 * std::f64::consts::TAU.ln());
        let slopes = u[3 * row..3 * row + 3].iter().map(|u| 2.0 * f64::from(*u).cosh().ln());
        close(got.log_probs[row], normal + slopes.sum::<f64>(), format_args!("row {row}, kernel"));
    }
}
