//! Actions that are structs: a head for each field, whose log-probabilities and entropies add up.

use crate::support::car::{Car, cars, check_bits, check_sums, spec, wrong};
use gleaner::{
    policy::{
        HeadSpec,
        head::{LogStd, categorical, multi_binary},
    },
    prelude::*,
};

#[test]
fn log_probabilities_and_entropies_are_sums_over_the_fields() {
    for exploration in [Exploration::Sample, Exploration::Mode] {
        let mut cars = cars(33, Backend::Cpu, exploration);
        for _ in 0..3 {
            check_sums(&cars.next().unwrap().unwrap());
        }
    }
}

#[test]
fn rows_do_not_depend_on_each_other() {
    check_bits(Backend::Cpu);
}

/// Each field is drawn from its own distribution, and none follows another.
#[test]
fn fields_are_drawn_as_their_parameters_say_and_independently() {
    let mut cars = cars(200, Backend::Cpu, Exploration::Sample);
    let (mut gear, mut light, mut both, mut tilt) = ([0.0_f64; 2], [0.0_f64; 2], [0.0_f64; 2], [0.0_f64; 2]);
    let count = |sum: &mut [f64; 2], x: f64, variance: f64| {
        sum[0] += x;
        sum[1] += variance;
    };
    for _ in 0..4 {
        let batch = cars.next().unwrap().unwrap();
        let params = batch.column::<[f32; 11]>("params").unwrap();
        for (i, action) in batch.actions().iter().enumerate() {
            let weights: Vec<f64> = (0..3)
                .map(|gear| f64::from(batch.masks().unwrap()[i][gear]) * f64::from(params[i][gear]).exp())
                .collect();
            let p = weights[1] / weights.iter().sum::<f64>();
            let q = 1.0 / (1.0 + (-f64::from(params[i][7])).exp());
            let (a, b) = (f64::from(action.gear == 1) - p, f64::from(action.lights[0]) - q);
            let std = f64::from(params[i][5].clamp(-1.0, 0.5)).exp();
            let z = (f64::from(action.steer[0]) - f64::from(params[i][3])) / std;
            count(&mut gear, a, p * (1.0 - p));
            count(&mut light, b, q * (1.0 - q));
            count(&mut both, a * b, p * (1.0 - p) * q * (1.0 - q));
            count(&mut tilt, a * z, p * (1.0 - p));
        }
    }
    for (what, [sum, variance]) in [("gear", gear), ("light", light), ("gear and light", both), ("gear and tilt", tilt)]
    {
        assert!(
            variance > 1_000.0 * if what == "gear and light" { 0.1 } else { 1.0 },
            "{what} hardly vary: {variance}"
        );
        assert!(sum.abs() < 4.5 * variance.sqrt(), "{what}: {sum} where the deviation is {}", variance.sqrt());
    }
}

#[test]
fn the_mode_takes_each_fields_own() {
    let mut cars = cars(9, Backend::Cpu, Exploration::Mode);
    let batch = cars.next().unwrap().unwrap();
    let params = batch.column::<[f32; 11]>("params").unwrap();
    for (i, action) in batch.actions().iter().enumerate() {
        assert_eq!(action.steer, params[i][3..5]);
        assert_eq!(action.lights, [7, 8, 9, 10].map(|bit| u8::from(params[i][bit] > 0.0)));
    }
}

#[test]
fn a_free_deviation_is_called_by_its_field() {
    let head = HeadSpec::TanhGaussian { log_std: LogStd::Free(-0.7) };
    let spec = NetworkSpec { heads: [("steer".to_string(), head)].into(), ..NetworkSpec::default() };
    let plan = spec.plan::<Car>().unwrap();
    let tensors = plan.tensors();
    let last = tensors.last().unwrap();
    assert_eq!((last.name.as_str(), &last.shape[..]), ("log_std.steer", &[2][..]));
    let builder = Collector::<Car>::builder().rows(3).record_distribution(true);
    let mut cars = builder.policy(Policy::network(spec).backend(Backend::Cpu)).build().unwrap();
    assert_eq!(cars.weights().unwrap().latest().1.get("log_std.steer").unwrap().data, [-0.7; 2]);
    let batch = cars.next().unwrap().unwrap();
    assert!(batch.actions().iter().flat_map(|action| action.steer).all(|x| x.abs() <= 1.0));
    let entropies = batch.column::<f32>("entropy").unwrap();
    let params = batch.column::<[f32; 9]>("params").unwrap();
    for (i, action) in batch.actions().iter().enumerate() {
        let mask = batch.masks().unwrap()[i];
        let discrete = categorical::log_prob(&params[i][..3], &mask, action.gear as usize)
            + multi_binary::log_prob(&params[i][5..], &action.lights);
        // Of the squashed Gaussian, which has none in closed form, it is the negative log-probability.
        let estimate = discrete - batch.log_probs().unwrap()[i];
        let closed = categorical::entropy(&params[i][..3], &mask) + multi_binary::entropy(&params[i][5..]);
        assert!((entropies[i] - closed - estimate).abs() < 1e-4, "slot {i}: {}", entropies[i]);
    }
}

#[test]
fn wrong_heads_are_named_by_their_field() {
    for (spec, part) in wrong() {
        let message = Policy::<Car>::network(spec).evaluator().err().expect("wrong").to_string();
        assert!(message.contains(part), "{message}");
    }
    let pendulum = Policy::<Pendulum>::network(spec()).evaluator().err().expect("no struct").to_string();
    assert!(pendulum.contains("heads is gear; legal: none for box of 1"), "{pendulum}");
    let mean = Collector::<Car>::builder().policy(Policy::network(spec())).exploration(Exploration::Mean).build();
    assert!(mean.unwrap_err().to_string().contains("discrete actions have no mean"));
}
