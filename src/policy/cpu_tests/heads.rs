//! Actions, log-probabilities and entropies.

use super::*;
use crate::policy::head::{categorical, gaussian, multi_binary, multi_discrete, q, tanh_gaussian};

#[test]
fn log_probabilities_and_entropies_equal_pytorch() {
    let (logits, mask, actions) =
        (golden("categorical/logits"), golden("categorical/mask"), golden("categorical/action"));
    let mask: Vec<u8> = mask.iter().map(|x| u8::from(*x != 0.0)).collect();
    let part = |i: usize| (&logits[i * 5..][..5], &mask[i * 5..][..5]);
    let row = |i: usize| categorical::log_prob(part(i).0, part(i).1, actions[i] as usize);
    close(&(0..37).map(row).collect::<Vec<_>>(), &golden("categorical/log_prob"), "categorical");
    let row = |i: usize| categorical::entropy(part(i).0, part(i).1);
    close(&(0..37).map(row).collect::<Vec<_>>(), &golden("categorical/entropy"), "categorical entropy");

    let (mean, log_std, action) = (golden("gaussian/mean"), golden("gaussian/log_std"), golden("gaussian/action"));
    let row = |i: usize| gaussian::log_prob(&mean[i * 3..][..3], &log_std[i * 3..][..3], &action[i * 3..][..3]);
    close(&(0..37).map(row).collect::<Vec<_>>(), &golden("gaussian/log_prob"), "gaussian");
    let row = |i: usize| gaussian::entropy(log_std[i * 3..][..3].iter().copied());
    close(&(0..37).map(row).collect::<Vec<_>>(), &golden("gaussian/entropy"), "gaussian entropy");

    let [mean, log_std, u] = ["mean", "log_std", "pre_tanh"].map(|name| golden(&format!("tanh_gaussian/{name}")));
    let row = |i: usize| {
        let of = |x: &[f32]| [x[3 * i], x[3 * i + 1], x[3 * i + 2]];
        tanh_gaussian::log_prob(&of(&mean), &of(&log_std), &of(&u), &[-1.0; 3], &[1.0; 3])
    };
    close(&(0..37).map(row).collect::<Vec<_>>(), &golden("tanh_gaussian/log_prob"), "tanh-Gaussian");
}

/// A network that passes its observation on as the head's parameters.
fn identity(head: Head) -> CpuNetwork {
    let n = head.params();
    let kind = crate::policy::plan::Kind::Linear { activation: Activation::Identity };
    let (from, to) = (Place::Input, Place::Params);
    let layer = Operation { name: "action".into(), kind, from, start: 0, inputs: n, to, outputs: n };
    let mut network =
        CpuNetwork::new(Plan { inputs: n, hidden: vec![], layers: vec![layer], head: head.clone(), value: false });
    let mut weights = Weights::new();
    weights.insert("action.weight", [n, n], (0..n * n).map(|i| f32::from(i % (n + 1) == 0)).collect::<Vec<_>>());
    weights.insert("action.bias", [n], vec![0.0; n]);
    for tensor in head.tensors() {
        weights.insert(tensor.name, tensor.shape, vec![0.0; n]);
    }
    network.load(&weights).unwrap();
    network
}

#[test]
fn squashed_actions_are_those_of_pytorch() {
    // With deviations e^-20 the numbers before the squash are the means.
    let (low, high) = (vec![-1.0; 3], vec![1.0; 3]);
    let mut network = identity(Head::TanhGaussian { low, high, log_std: LogStd::NETWORK });
    let u = golden("tanh_gaussian/pre_tanh");
    let inputs = u.chunks(3).flat_map(|u| [u[0], u[1], u[2], -30.0, -30.0, -30.0]).collect();
    let rows = Rows::new(network.plan(), inputs, 0).run(&mut network, Exploration::Mode, false);
    close(&(0..37 * 3).map(|at| rows.float(at)).collect::<Vec<_>>(), &golden("tanh_gaussian/action"), "action");
}

/// Log-probability and entropy of a row by the functions that a learner calls.
fn reference(head: &Head, rows: &Rows, row: usize, masked: bool) -> (f32, f32) {
    let width = head.params();
    let params = &rows.params[row * width..(row + 1) * width];
    let mask: &[u8] = if masked && head.mask() > 0 { &rows.masks[row] } else { &[] };
    let floats: Vec<f32> = (0..head.elements())
        .filter(|_| head.action_bytes() > 3)
        .map(|i| rows.float(row * head.elements() + i))
        .collect();
    let deviations = |log_std: LogStd, n: usize| -> Vec<f32> {
        let LogStd::Free(start) = log_std else { return (0..n).map(|i| log_std.of(&[], params, n, i)).collect() };
        vec![start; n]
    };
    match head {
        Head::Categorical { .. } => {
            (categorical::log_prob(params, mask, rows.index(row)), categorical::entropy(params, mask))
        }
        Head::MultiDiscrete { n } => {
            let action = [rows.index(2 * row) as i32, rows.index(2 * row + 1) as i32];
            (multi_discrete::log_prob(n, params, mask, &action), multi_discrete::entropy(n, params, mask))
        }
        Head::MultiBinary { n } => {
            (multi_binary::log_prob(params, &rows.actions[row * n..][..*n]), multi_binary::entropy(params))
        }
        Head::Gaussian { n, log_std } => {
            let deviations = deviations(*log_std, *n);
            (gaussian::log_prob(&params[..*n], &deviations, &floats), gaussian::entropy(deviations))
        }
        Head::TanhGaussian { low, high, log_std } => {
            let n = low.len();
            // The inverse in f64; what it loses near the bounds is more than rounding.
            let inverse = |i: usize| {
                let (low, high, x) = (f64::from(low[i]), f64::from(high[i]), f64::from(floats[i]));
                ((2.0 * x - low - high) / (high - low)).atanh() as f32
            };
            let u: Vec<_> = (0..n).map(inverse).collect();
            let log_prob = tanh_gaussian::log_prob(&params[..n], &deviations(*log_std, n), &u, low, high);
            (log_prob, -log_prob)
        }
        Head::Deterministic { .. } => (0.0, 0.0),
        Head::Fields { .. } => unreachable!("tests/fields.rs tests them"),
        Head::Q { epsilon, .. } => {
            let epsilon = epsilon.at(rows.frames);
            (q::log_prob(params, mask, epsilon, rows.index(row)), q::entropy(params, mask, epsilon))
        }
    }
}

#[test]
fn outputs_are_those_of_the_action_taken() {
    for (spec, space) in heads() {
        let mut network = head_network(spec, &space);
        let head = network.plan().head.clone();
        let inputs: Vec<f32> = (0..4 * 300).map(|i| ((i * 7_919) % 211) as f32 * 0.006 - 0.6).collect();
        for (arch, masked) in instruction_sets().into_iter().zip([true, true, false]) {
            network.arch = arch;
            let rows = Rows::new(network.plan(), inputs.clone(), 0).run(&mut network, Exploration::Sample, masked);
            let (mut compared, mut distinct) = (0, std::collections::HashSet::new());
            for row in 0..300 {
                let (log_prob, entropy) = reference(&head, &rows, row, masked);
                let bytes = head.action_bytes();
                distinct.insert(rows.actions[row * bytes..(row + 1) * bytes].to_vec());
                let squashed = matches!(head, Head::TanhGaussian { .. });
                if squashed && !(log_prob.is_finite() && rows.float(3 * row).abs() < 0.98) {
                    continue;
                }
                compared += 1;
                let bound = if squashed { 2e-2 } else { 1e-5 };
                for (got, want, what) in
                    [(rows.log_probs[row], log_prob, "log-prob"), (rows.entropies[row], entropy, "entropy")]
                {
                    let near = (got - want).abs() <= bound * want.abs().max(1.0);
                    assert!(near, "{spec:?}, row {row}: {what} {got} is not {want}");
                }
            }
            assert!(compared > 100 && distinct.len() > 3, "{spec:?}: {compared} compared, {} actions", distinct.len());
        }
    }
}

#[test]
fn modes_are_the_most_likely_actions_and_means_the_means() {
    for (spec, space) in heads() {
        let mut network = head_network(spec, &space);
        let head = network.plan().head.clone();
        let inputs: Vec<f32> = (0..4 * 60).map(|i| ((i * 7_919) % 211) as f32 * 0.02 - 2.0).collect();
        let modes = Rows::new(network.plan(), inputs.clone(), 0).run(&mut network, Exploration::Mode, true);
        let drawn = Rows::new(network.plan(), inputs.clone(), 0).run(&mut network, Exploration::Sample, true);
        // A squashed density is highest elsewhere.
        if !matches!(head, Head::TanhGaussian { .. }) {
            let pairs = modes.log_probs.iter().zip(&drawn.log_probs);
            pairs.for_each(|(mode, drawn)| assert!(mode >= drawn, "{spec:?}: {mode} below {drawn}"));
        }
        let n = head.elements();
        let means = || (0..60 * n).map(|at| modes.params[at / n * head.params() + at % n]);
        match &head {
            Head::Gaussian { .. } | Head::Deterministic { squash: None, .. } => {
                let mean = Rows::new(network.plan(), inputs, 0).run(&mut network, Exploration::Mean, true);
                assert_eq!(mean.actions, modes.actions, "{spec:?}");
                assert!(means().enumerate().all(|(at, mean)| modes.float(at) == mean), "{spec:?}");
            }
            Head::TanhGaussian { low, high, .. } | Head::Deterministic { squash: Some([low, high]), .. } => {
                for (at, mean) in means().enumerate() {
                    let (low, high) = (low[at % n], high[at % n]);
                    let want = 0.5 * (low + high) + 0.5 * (high - low) * mean.tanh();
                    close(&[modes.float(at)], &[want], "squashed mean");
                    assert!((low..=high).contains(&drawn.float(at)), "{} leaves the box", drawn.float(at));
                }
            }
            _ => {}
        }
        let mean = head.check(Exploration::Mean);
        assert_eq!(mean.is_ok(), matches!(head, Head::Gaussian { .. } | Head::Deterministic { .. }), "{spec:?}");
    }
}

#[test]
fn not_a_number_does_not_panic_and_stays_legal() {
    for (spec, space) in heads() {
        let mut network = head_network(spec, &space);
        let head = network.plan().head.clone();
        let mut inputs = vec![0.5; 4 * 20];
        inputs[4 * 7] = f32::NAN;
        inputs[4 * 9] = f32::INFINITY;
        for exploration in [Exploration::Sample, Exploration::Mode] {
            let rows = Rows::new(network.plan(), inputs.clone(), 0).run(&mut network, exploration, true);
            let free = matches!(head, Head::Gaussian { log_std: LogStd::Free(_), .. });
            let noticed = rows.log_probs[7].is_nan() || rows.float(7 * head.elements()).is_nan();
            assert!(free || head.action_bytes() < 4 || noticed, "{spec:?}");
            match &head {
                Head::Categorical { .. } | Head::Q { .. } => {
                    assert!((0..20).all(|row| rows.masks[row][rows.index(row)] != 0), "{spec:?}");
                }
                Head::MultiDiscrete { n } => {
                    let legal = |row: usize| {
                        let (a, b) = (rows.index(2 * row), rows.index(2 * row + 1));
                        a < n[0] && b < n[1] && rows.masks[row][a] != 0 && rows.masks[row][n[0] + b] != 0
                    };
                    assert!((0..20).all(legal), "{spec:?}");
                }
                Head::MultiBinary { .. } => assert!(rows.actions.iter().all(|bit| *bit < 2), "{spec:?}"),
                _ => {}
            }
        }
    }
}

#[test]
fn a_single_logit_that_is_no_number_is_noticed() {
    for (spec, space) in heads().into_iter().filter(|(spec, _)| {
        matches!(spec, HeadSpec::Categorical | HeadSpec::MultiDiscrete | HeadSpec::MultiBinary | HeadSpec::Q { .. })
    }) {
        let network = head_network(spec, &space);
        let head = network.plan().head.clone();
        for exploration in [Exploration::Sample, Exploration::Mode] {
            let mut rows = Rows::new(network.plan(), vec![0.0; 4], 0);
            // Weights are finite, so that a layer gives all or nothing: the head alone.
            rows.params =
                (0..head.params()).map(|i| if i + 1 == head.params() { f32::NAN } else { i as f32 }).collect();
            let Rows { inputs, keys, episodes, steps, frames, .. } = &rows;
            let (masks, frames) = (Masks::new::<()>(&[]), *frames);
            let input = Forward { inputs, masks, keys, episodes, steps, exploration, frames, memory: None };
            let Rows { params, actions, log_probs, entropies, values, .. } = &mut rows.clone();
            let mut out = Outcome { params, actions, log_probs, entropies, values };
            head::act(Arch::new(), &head, &[], &input, &mut out, &mut head::Scratch::new(&head));
            head.entropies(&[], &input, &mut out);
            assert!(out.log_probs[0].is_nan() && out.entropies[0].is_nan(), "{spec:?}: {:?}", out.log_probs);
        }
    }
}

#[test]
fn a_mask_that_forbids_everything_gives_the_first_action_and_no_number() {
    for (spec, space) in heads() {
        let mut network = head_network(spec, &space);
        if network.plan().head.mask() == 0 {
            continue;
        }
        for exploration in [Exploration::Sample, Exploration::Mode] {
            let mut rows = Rows::new(network.plan(), vec![0.25; 4 * 10], 0);
            rows.masks[3] = [0; 5];
            let rows = rows.run(&mut network, exploration, true);
            let bytes = network.plan().head.action_bytes();
            assert!(rows.actions[3 * bytes..4 * bytes].iter().all(|byte| *byte == 0), "{spec:?}");
            assert!(rows.log_probs[3].is_nan() && rows.entropies[3].is_nan(), "{spec:?}: {}", rows.log_probs[3]);
            assert!(rows.log_probs[2].is_finite() && rows.entropies[2].is_finite(), "{spec:?}");
        }
    }
}
