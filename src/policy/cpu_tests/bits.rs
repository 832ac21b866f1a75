//! A row's bits are its own.

use proptest::prelude::*;

use super::*;
use crate::policy::Layer;

fn part(rows: &Rows, plan: &Plan, from: usize, to: usize) -> Rows {
    let (params, bytes, state) = (plan.head.params(), plan.head.action_bytes(), plan.state());
    Rows {
        inputs: rows.inputs[from * plan.inputs..to * plan.inputs].to_vec(),
        keys: rows.keys[from..to].to_vec(),
        episodes: rows.episodes[from..to].to_vec(),
        steps: rows.steps[from..to].to_vec(),
        masks: rows.masks[from..to].to_vec(),
        frames: rows.frames,
        params: rows.params[from * params..to * params].to_vec(),
        actions: rows.actions[from * bytes..to * bytes].to_vec(),
        log_probs: rows.log_probs[from..to].to_vec(),
        entropies: rows.entropies[from..to].to_vec(),
        values: rows.values[from..to].to_vec(),
        states: rows.states[from * state..to * state].to_vec(),
    }
}

/// Trunks over all kinds of layers, by number.
const TRUNKS: usize = 5;

fn network_of(trunk: usize, widths: &[usize], (head, space): (HeadSpec, Space)) -> CpuNetwork {
    let floats = |shape: &[usize]| Field { name: "".into(), dtype: Dtype::F32, shape: shape.to_vec() };
    let width = widths.first().copied().unwrap_or(9);
    let conv = Layer::Conv2d { filters: width, kernel: 2, stride: 1, padding: 1 };
    let (observation, field, layers) = match trunk {
        0 => (Space::unbounded(18), floats(&[18]), vec![]),
        1 => (Space::unbounded(18), floats(&[18]), vec![Layer::Linear(width), Layer::LayerNorm, Layer::Gelu]),
        2 => (Space::unbounded(18), floats(&[2, 3, 3]), vec![conv, Layer::Silu, Layer::Flatten]),
        3 => (Space::unbounded(18), floats(&[18]), vec![Layer::Gru(width), Layer::Lstm(7)]),
        _ => {
            let index = Field { name: "".into(), dtype: Dtype::I32, shape: vec![] };
            (Space::discrete(4), index, vec![Layer::Embedding(width)])
        }
    };
    let spec = NetworkSpec { trunk: layers, head, ..NetworkSpec::mlp(widths, Activation::Tanh) };
    network_on(&spec, (&observation, field), &space)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// The hard rule: a row's outputs have the same bits whatever rows share its tile, block and call. Instruction sets
    /// give about the same.
    #[test]
    fn a_rows_bits_do_not_depend_on_its_neighbours(
        inputs in prop::collection::vec(0.0_f32..3.99, 18 * 130),
        widths in prop::collection::vec(1_usize..100, 0..3),
        count in 1_usize..130,
        cut in 0.0_f64..1.0,
        trunk in 0..TRUNKS,
        head in 0..12_usize,
        masked in any::<bool>(),
        arch in prop::sample::select(instruction_sets()),
    ) {
        let mut network = network_of(trunk, &widths, heads().swap_remove(head));
        network.arch = arch;
        let plan = network.plan().clone();
        let inputs = inputs[..plan.inputs * count].to_vec();
        let whole = Rows::new(&plan, inputs.clone(), 0).run(&mut network, Exploration::Sample, masked);
        network.arch = Arch::Scalar;
        let scalar = Rows::new(&plan, inputs, 0).run(&mut network, Exploration::Sample, masked);
        network.arch = arch;
        // A normalisation of few columns magnifies last bits.
        let outputs = |rows: &Rows| [&rows.params[..], &rows.values].concat();
        for (a, b) in outputs(&whole).into_iter().zip(outputs(&scalar)) {
            prop_assert!((a - b).abs() <= 1e-3 * b.abs().max(1.0), "{arch:?}: {a} is not {b}");
        }
        let cut = (cut * count as f64) as usize;
        for (from, to) in [(0, cut), (cut, count), (cut, cut + 1)] {
            let alone = part(&whole, &plan, from, to);
            let first = from as u32;
            let again = Rows::new(&plan, alone.inputs.clone(), first).run(&mut network, Exploration::Sample, masked);
            prop_assert_eq!(alone, again);
        }
    }
}

#[test]
fn the_property_covers_every_head() {
    assert_eq!(heads().len(), 12);
}
