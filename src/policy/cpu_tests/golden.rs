//! Networks that PyTorch computed: names, layouts and gate orders are its own.

use super::*;
use crate::policy::Layer;

/// A network whose trunk is `layers` and whose head is its last linear layer, with PyTorch's weights. The names of a
/// file's tensors count entries; ours have the list's name before them.
fn pytorch(name: &str, layers: &[Layer], last: Option<&str>, shape: &[usize]) -> CpuNetwork {
    let spec = NetworkSpec { trunk: layers.to_vec(), actor: vec![], critic: None, ..NetworkSpec::default() };
    let bytes = shape.len() == 3;
    let dtype = if bytes { Dtype::U8 } else { Dtype::F32 };
    let observation = Field { name: "".into(), dtype, shape: shape.to_vec() };
    let space = Space::uniform(0.0, 255.0, observation.len());
    let outputs = match last {
        Some(last) => golden(&format!("{name}/weights/{last}.bias")).len(),
        None => golden(&format!("{name}/output")).len() / (37 * 9),
    };
    let actions = Field { name: "".into(), dtype: Dtype::I32, shape: vec![] };
    let plan = spec.plan_for((&space, &[observation]), (&Space::discrete(outputs as u32), &[actions])).unwrap();
    let mut weights = Weights::new();
    for tensor in plan.tensors() {
        let (layer, part) = tensor.name.rsplit_once('.').unwrap();
        let data = match (layer.strip_prefix("trunk."), last) {
            (Some("0"), None) => golden(&format!("{name}/weights/{part}")),
            (Some(number), _) => golden(&format!("{name}/weights/{number}.{part}")),
            (None, Some(last)) => golden(&format!("{name}/weights/{last}.{part}")),
            // The hidden state itself comes out.
            (None, None) if part == "weight" => {
                (0..outputs * outputs).map(|i| f32::from(i % (outputs + 1) == 0)).collect()
            }
            (None, None) => vec![0.0; outputs],
        };
        weights.insert(tensor.name.clone(), tensor.shape, data);
    }
    let mut network = CpuNetwork::new(plan);
    network.load(&weights).unwrap();
    network
}

fn params_are(network: &mut CpuNetwork, name: &str) {
    for arch in instruction_sets() {
        network.arch = arch;
        let rows = Rows::new(network.plan(), golden(&format!("{name}/input")), 0);
        let rows = rows.run(network, Exploration::Sample, false);
        close(&rows.params, &golden(&format!("{name}/output")), name);
        assert!(rows.values.iter().all(|value| *value == 0.0));
    }
}

#[test]
fn perceptrons_equal_pytorch() {
    let activations = [("tanh", Layer::Tanh), ("relu", Layer::Relu), ("silu", Layer::Silu), ("gelu", Layer::Gelu)];
    for (name, activation) in activations {
        let name = format!("mlp_{name}");
        let layers = [Layer::Linear(64), activation, Layer::Linear(64), activation];
        params_are(&mut pytorch(&name, &layers, Some("4"), &[4]), &name);
    }
}

#[test]
fn layer_norm_equals_pytorch() {
    let hidden = [Layer::Linear(256), Layer::LayerNorm, Layer::Relu];
    let layers = hidden.repeat(2);
    params_are(&mut pytorch("mlp_layer_norm", &layers, Some("6"), &[17]), "mlp_layer_norm");
}

#[test]
fn convolutions_of_bytes_equal_pytorch() {
    let conv = |filters, kernel, stride| Layer::Conv2d { filters, kernel, stride, padding: 0 };
    let layers = [
        conv(16, 8, 4),
        Layer::Relu,
        conv(32, 4, 2),
        Layer::Relu,
        conv(32, 3, 1),
        Layer::Relu,
        Layer::Flatten,
        Layer::Linear(64),
        Layer::Relu,
    ];
    params_are(&mut pytorch("conv_u8", &layers, Some("9"), &[4, 84, 84]), "conv_u8");
}

#[test]
fn recurrent_layers_equal_pytorch() {
    for (name, hidden) in [("gru", 32), ("lstm", 24)] {
        let layer = if name == "gru" { Layer::Gru(hidden) } else { Layer::Lstm(hidden) };
        let mut network = pytorch(name, &[layer], None, &[11]);
        let (input, reset) = (golden(&format!("{name}/input")), golden(&format!("{name}/reset")));
        let output = golden(&format!("{name}/output"));
        for arch in instruction_sets() {
            network.arch = arch;
            // Places in an order of their own.
            let places: Vec<_> = (0..37).map(|row| row * 5 % 37).collect();
            let states = States::new(37, network.plan().state());
            for t in 0..9 {
                let step = |values: &[f32], width: usize| -> Vec<f32> {
                    values.chunks(9 * width).flat_map(|row| row[t * width..(t + 1) * width].to_vec()).collect()
                };
                let fresh: Vec<_> = step(&reset, 1).iter().map(|reset| u8::from(*reset != 0.0)).collect();
                let memory = Memory { states: &states, places: &places, fresh: &fresh };
                let mut rows = Rows::new(network.plan(), step(&input, 11), 0);
                rows.forward(&mut network, Exploration::Mode, false, Some(memory));
                close(&rows.params, &step(&output, hidden), &format!("{name} at {t}"));
            }
        }
    }
}
