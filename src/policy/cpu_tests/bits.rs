//! A row's bits are its own.

use proptest::prelude::*;

use super::*;

fn part(rows: &Rows, plan: &Plan, from: usize, to: usize) -> Rows {
    let (params, words) = (plan.head.params(), plan.head.action_words());
    Rows {
        inputs: rows.inputs[from * plan.inputs..to * plan.inputs].to_vec(),
        keys: rows.keys[from..to].to_vec(),
        episodes: rows.episodes[from..to].to_vec(),
        steps: rows.steps[from..to].to_vec(),
        masks: rows.masks[from..to].to_vec(),
        params: rows.params[from * params..to * params].to_vec(),
        actions: rows.actions[from * words..to * words].to_vec(),
        log_probs: rows.log_probs[from..to].to_vec(),
        values: rows.values[from..to].to_vec(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// The hard rule: a row's outputs have the same bits whatever rows share its tile, block and call.
    #[test]
    fn a_rows_bits_do_not_depend_on_its_neighbours(
        inputs in prop::collection::vec(-3.0_f32..3.0, 5 * 130),
        widths in prop::collection::vec(1_usize..40, 0..3),
        count in 1_usize..130,
        cut in 0.0_f64..1.0,
        continuous in any::<bool>(),
        masked in any::<bool>(),
        relu in any::<bool>(),
    ) {
        let space = if continuous { Space::unbounded(3) } else { Space::discrete(5) };
        let spec = NetworkSpec::mlp(&widths, if relu { Activation::Relu } else { Activation::Tanh });
        let mut network = network(&spec, 5, &space);
        let plan = network.plan().clone();
        let whole = Rows::new(&plan, inputs[..5 * count].to_vec(), 0).run(&mut network, Exploration::Sample, masked);
        let cut = (cut * count as f64) as usize;
        for (from, to) in [(0, cut), (cut, count), (cut, cut + 1)] {
            let alone = part(&whole, &plan, from, to);
            let first = from as u32;
            let again = Rows::new(&plan, alone.inputs.clone(), first).run(&mut network, Exploration::Sample, masked);
            prop_assert_eq!(alone, again);
        }
    }
}
