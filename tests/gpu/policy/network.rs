//! Whole forwards against the reference.

use gleaner::{
    components::Masks,
    policy::plan::{Activation, Exploration, Head, LogStd, Network, Plan},
};

use super::{
    forms::forms,
    reference::{Critic, POISON, Rows, check_row, forward, mlp, network, no_masks, on, weights},
};

/// Those that run fused, then some that are too wide for it.
fn plans() -> Vec<Plan> {
    let categorical = Head::Categorical { n: 5 };
    let log_std = LogStd::Free(0.0);
    let gaussian = Head::Gaussian { n: 3, log_std };
    vec![
        mlp(4, &[64, 64], Activation::Tanh, Head::Categorical { n: 2 }, Critic::Separate),
        mlp(7, &[33], Activation::Relu, categorical.clone(), Critic::Shared),
        mlp(7, &[], Activation::Identity, categorical.clone(), Critic::None),
        mlp(3, &[64, 32], Activation::Tanh, gaussian.clone(), Critic::Shared),
        mlp(17, &[24, 24, 24], Activation::Gelu, gaussian.clone(), Critic::None),
        mlp(1, &[5], Activation::Silu, Head::Gaussian { n: 1, log_std }, Critic::Separate),
        mlp(7, &[130, 65], Activation::Tanh, categorical.clone(), Critic::Separate),
        mlp(350, &[30], Activation::Relu, gaussian, Critic::Shared),
        mlp(5, &[40], Activation::GeluErf, categorical.clone(), Critic::Shared),
        mlp(5, &[160, 40], Activation::GeluErf, categorical, Critic::Shared),
    ]
}

pub fn equals_the_reference() {
    for (number, plan) in plans().iter().enumerate() {
        let weights = weights(plan, number as u64);
        let mut network = network(plan, &weights);
        for exploration in [Exploration::Sample, Exploration::Mode] {
            let rows = Rows::new(plan, 300, 77);
            let got = forward(&mut network, plan, &rows, no_masks(), exploration).unwrap();
            for i in 0..300 {
                check_row((plan, &weights), &rows, no_masks(), exploration, &got, i);
            }
        }
        if let Head::Gaussian { .. } = plan.head {
            let rows = Rows::new(plan, 20, 3);
            let mean = forward(&mut network, plan, &rows, no_masks(), Exploration::Mean).unwrap();
            assert_eq!(mean, forward(&mut network, plan, &rows, no_masks(), Exploration::Mode).unwrap());
            let means: Vec<u32> = mean.params.iter().map(|x| x.to_bits()).collect();
            assert_eq!(mean.actions, means);
        }
    }
}

pub fn l14_any_number_of_rows() {
    for plan in [&plans()[0], &plans()[3], &plans()[6]] {
        let weights = weights(plan, 5);
        let mut network = network(plan, &weights);
        // Up and down, so that fewer rows run in memory that held more.
        for n in [1, 63, 64, 65, 255, 256, 257, 1000, 1023, 1024, 1025, 65537, 64, 1] {
            let rows = Rows::new(plan, n, n as u64);
            let got = forward(&mut network, plan, &rows, no_masks(), Exploration::Sample).unwrap();
            let all = 0..n;
            for i in all.filter(|i| *i < 1100 || *i + 1100 > n || i % 97 == 0) {
                check_row((plan, &weights), &rows, no_masks(), Exploration::Sample, &got, i);
            }
        }
        assert_eq!(network.capacity(), 65537);
    }
}

pub fn four_million_rows() {
    // One more than a dispatch of 65,535 groups of 64 reaches: the head has a thread a row.
    let n = 4_194_241;
    let plan = mlp(1, &[], Activation::Identity, Head::Gaussian { n: 1, log_std: LogStd::Free(0.0) }, Critic::None);
    let weights = weights(&plan, 2);
    let mut network = network(&plan, &weights);
    let rows = Rows::new(&plan, n, 9);
    let got = forward(&mut network, &plan, &rows, no_masks(), Exploration::Sample).unwrap();
    for i in (0..n).filter(|i| i % 4099 == 0 || *i + 200 > n) {
        check_row((&plan, &weights), &rows, no_masks(), Exploration::Sample, &got, i);
    }
}

pub fn a_row_does_not_depend_on_the_others() {
    for (plan, gpu) in [&plans()[0], &plans()[6]].into_iter().flat_map(|plan| forms().map(|gpu| (plan, gpu))) {
        let mut network = on(&gpu, plan, &weights(plan, 1));
        let rows = Rows::new(plan, 500, 4);
        let all = forward(&mut network, plan, &rows, no_masks(), Exploration::Sample).unwrap();
        for i in [0, 63, 64, 255, 256, 499] {
            let one = Rows {
                inputs: rows.inputs[i * plan.inputs..(i + 1) * plan.inputs].into(),
                keys: vec![rows.keys[i]],
                episodes: vec![rows.episodes[i]],
                steps: vec![rows.steps[i]],
            };
            let got = forward(&mut network, plan, &one, no_masks(), Exploration::Sample).unwrap();
            let width = plan.head.params();
            assert_eq!(got.params, all.params[i * width..(i + 1) * width]);
            let bits = |log_prob: f32, value: f32| (log_prob.to_bits(), value.to_bits());
            assert_eq!(bits(got.log_probs[0], got.values[0]), bits(all.log_probs[i], all.values[i]), "row {i}");
            assert_eq!(got.actions[0], all.actions[i], "row {i}");
        }
    }
}

pub fn new_weights_act_in_the_next_forward() {
    let plan = &plans()[0];
    let sets = [weights(plan, 1), weights(plan, 2)];
    let mut network = network(plan, &sets[0]);
    let rows = Rows::new(plan, 100, 4);
    for i in 0..20 {
        network.load(&sets[i % 2]).unwrap();
        let got = forward(&mut network, plan, &rows, no_masks(), Exploration::Sample).unwrap();
        for row in 0..100 {
            check_row((plan, &sets[i % 2]), &rows, no_masks(), Exploration::Sample, &got, row);
        }
        // A refused set changes nothing.
        assert!(network.load(&Default::default()).is_err());
        assert_eq!(forward(&mut network, plan, &rows, no_masks(), Exploration::Sample).unwrap(), got);
    }
}

pub fn threads_share_a_device() {
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                let plan = &plans()[number];
                let weights = weights(plan, number as u64);
                let mut network = network(plan, &weights);
                for n in (1..200).step_by(7) {
                    let rows = Rows::new(plan, n, n as u64);
                    let got = forward(&mut network, plan, &rows, no_masks(), Exploration::Sample).unwrap();
                    for i in 0..n {
                        check_row((plan, &weights), &rows, no_masks(), Exploration::Sample, &got, i);
                    }
                }
            });
        }
    });
}

pub fn masks_are_obeyed() {
    let plan = mlp(7, &[16], Activation::Tanh, Head::Categorical { n: 5 }, Critic::Shared);
    let weights = weights(&plan, 8);
    let mut network = network(&plan, &weights);
    let n = 31 * 20;
    let rows = Rows::new(&plan, n, 6);
    // Every mask that leaves an action; any byte but 0 is legal.
    let masks: Vec<[u8; 5]> = (0..n)
        .map(|i| std::array::from_fn(|a| if (i % 31 + 1) >> a & 1 == 1 { 1 + 127 * (a as u8 % 3) } else { 0 }))
        .collect();
    for exploration in [Exploration::Sample, Exploration::Mode] {
        let got = forward(&mut network, &plan, &rows, Masks::new(&masks), exploration).unwrap();
        for i in 0..n {
            check_row((&plan, &weights), &rows, Masks::new(&masks), exploration, &got, i);
        }
    }
    let nothing = vec![[0_u8; 5]; n];
    let got = forward(&mut network, &plan, &rows, Masks::new(&nothing), Exploration::Sample).unwrap();
    assert!(got.actions.iter().all(|action| *action == 0) && got.log_probs.iter().all(|x| x.is_nan()));
}

pub fn every_output_is_written() {
    for plan in plans() {
        let mut network = network(&plan, &weights(&plan, 3));
        for n in [200, 1, 130] {
            let rows = Rows::new(&plan, n, n as u64);
            let got = forward(&mut network, &plan, &rows, no_masks(), Exploration::Sample).unwrap();
            let floats = got.params.iter().chain(&got.log_probs).chain(&got.entropies).chain(&got.values);
            let words: Vec<u32> = floats.map(|x| x.to_bits()).chain(got.actions).collect();
            assert!(words.iter().all(|word| *word != POISON));
            assert!(plan.value || got.values.iter().all(|value| *value == 0.0));
        }
    }
    let plan = &plans()[0];
    let none = Rows::new(plan, 0, 0);
    assert!(forward(&mut network(plan, &weights(plan, 0)), plan, &none, no_masks(), Exploration::Sample).is_ok());
}

pub fn nan_comes_through() {
    for plan in [&plans()[0], &plans()[1], &plans()[3], &plans()[6]] {
        let mut network = network(plan, &weights(plan, 3));
        let mut rows = Rows::new(plan, 130, 1);
        rows.inputs[70 * plan.inputs] = f32::NAN;
        let got = forward(&mut network, plan, &rows, no_masks(), Exploration::Sample).unwrap();
        let finite = |i: usize| {
            let width = plan.head.params();
            got.params[i * width..(i + 1) * width].iter().all(|x| gleaner::data::finite(*x))
        };
        assert!((0..130).all(|i| finite(i) == (i != 70)), "only row 70 is not finite");
        assert!(!gleaner::data::finite(got.values[70]));
    }
}
