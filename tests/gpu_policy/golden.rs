//! Numbers that PyTorch computed in f64: `tests/data/forward.safetensors`.

use gleaner::{
    components::{Masks, Weights},
    policy::plan::{Activation, Exploration, Head, Kind, Operation, Place, Plan},
    seed::ActionKey,
};
use safetensors::SafeTensors;

use crate::{
    kernels::map,
    reference::{Critic, Rows, close, forward, network, no_masks},
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

pub fn mlp() {
    let bytes = file();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    for (name, activation) in [
        ("mlp_tanh", Activation::Tanh),
        ("mlp_relu", Activation::Relu),
        ("mlp_silu", Activation::Silu),
        ("mlp_gelu", Activation::Gelu),
    ] {
        let plan = crate::reference::mlp(4, &[64, 64], activation, Head::Categorical { n: 2 }, Critic::None);
        let mut weights = Weights::new();
        for (layer, theirs) in plan.layers.iter().zip([0, 2, 4]) {
            for (part, shape) in [("weight", vec![layer.outputs, layer.inputs]), ("bias", vec![layer.outputs])] {
                let data = tensor(&file, &format!("{name}/weights/{theirs}.{part}"));
                weights.insert(format!("{}.{part}", layer.name), shape, data);
            }
        }
        let rows = columns(tensor(&file, &format!("{name}/input")), ROWS);
        let got = forward(&mut network(&plan, &weights), &plan, &rows, no_masks(), Exploration::Mode).unwrap();
        for (i, (got, want)) in got.params.iter().zip(tensor(&file, &format!("{name}/output"))).enumerate() {
            close(*got, f64::from(want), format_args!("{name}, element {i}"));
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
    let unit: Vec<f32> = (0..n * n).map(|i| f32::from(u8::from(i / n == i % n))).collect();
    weights.insert("head.weight", [n, n], unit);
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
    for row in 0..ROWS {
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
    let items: Vec<_> =
        (0..ROWS * 3).map(|i| [actions[i].to_bits(), means[i].to_bits(), log_std[i].to_bits(), 0]).collect();
    let density = map(
        "vec4<u32>(bitcast<u32>(normal_log_density((f - bitcast<f32>(x.y)) / exp32(bitcast<f32>(x.z)), \
         bitcast<f32>(x.z))), 0u, 0u, 0u)",
        &items,
    );
    let (plan, mut weights) = identity(Head::Gaussian { n: 3 });
    for row in 0..ROWS {
        let sum: f32 = density[row * 3..row * 3 + 3].iter().map(|word| f32::from_bits(word[0])).sum();
        close(sum, f64::from(log_probs[row]), format_args!("row {row}"));
        weights.insert("log_std", [3], &log_std[row * 3..row * 3 + 3]);
        let rows = columns(means[row * 3..row * 3 + 3].into(), 1);
        let got = forward(&mut network(&plan, &weights), &plan, &rows, no_masks(), Exploration::Sample).unwrap();
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
