//! Samples come as often as their distribution says.

use super::*;

const COUNT: usize = 20_000;

/// One state of a network, sampled [`COUNT`] times.
fn drawn(network: &mut CpuNetwork, masked: bool) -> Rows {
    let mut rows = Rows::new(network.plan(), [0.3, -0.1, 0.8, -0.5].repeat(COUNT), 0);
    rows.masks.fill([1, 0, 1, 1, 1]);
    rows.run(network, Exploration::Sample, masked)
}

/// Pearson's statistic over the values that `cell` gives, whose log-probabilities the rows tell, against four standard
/// deviations above its mean.
fn chi_square(rows: &Rows, cell: impl Fn(usize) -> usize, what: &HeadSpec) {
    let mut seen = std::collections::BTreeMap::new();
    for row in 0..COUNT {
        let (_, count) = seen.entry(cell(row)).or_insert((f64::from(rows.log_probs[row]).exp(), 0.0));
        *count += 1.0;
    }
    let total: f64 = seen.values().map(|(p, _)| p).sum();
    assert!((total - 1.0).abs() < 1e-3, "{what:?}: the values seen have probability {total}");
    let terms = seen.values().map(|(p, count): &(f64, f64)| (count - p * COUNT as f64).powi(2) / (p * COUNT as f64));
    let (statistic, freedom) = (terms.sum::<f64>(), seen.len() as f64 - 1.0);
    assert!(freedom >= 3.0 && statistic < freedom + 4.0 * (2.0 * freedom).sqrt(), "{what:?}: {statistic} of {freedom}");
}

#[test]
fn frequencies_of_discrete_actions_are_their_probabilities() {
    for (spec, space) in heads() {
        let mut network = head_network(spec, &space);
        // Softer than the other tests have them, so that each value comes.
        let mut weights = NetworkSpec { head: spec, ..Default::default() }.initial_weights(network.plan(), Seed(11));
        weights.0.get_mut("action.weight").unwrap().data.iter_mut().for_each(|x| *x *= 60.0);
        network.load(&weights).unwrap();
        for masked in [false, true] {
            let rows = drawn(&mut network, masked);
            match network.plan().head {
                Head::Categorical { .. } | Head::Q { .. } => chi_square(&rows, |row| rows.index(row), &spec),
                Head::MultiDiscrete { .. } if !masked => {
                    chi_square(&rows, |row| 3 * rows.index(2 * row) + rows.index(2 * row + 1), &spec);
                }
                Head::MultiDiscrete { .. } => assert!((0..COUNT).all(|row| rows.index(2 * row) == 0), "masked"),
                Head::MultiBinary { .. } => {
                    let bit = |row: usize, i: usize| usize::from(rows.actions[3 * row + i]);
                    chi_square(&rows, |row| 4 * bit(row, 0) + 2 * bit(row, 1) + bit(row, 2), &spec);
                }
                _ => {}
            }
        }
    }
}

/// The mean of the estimates, against the entropy by numeric integration.
#[test]
fn entropies_of_a_squashed_gaussian_are_right_on_average() {
    for (spec, space) in heads() {
        let mut network = head_network(spec, &space);
        let head = network.plan().head.clone();
        let Head::TanhGaussian { low, high, log_std } = &head else { continue };
        let rows = drawn(&mut network, false);
        let of_element = |i: usize| {
            let free = if let LogStd::Free(start) = log_std { [*start; 3] } else { [0.0; 3] };
            let (mean, log_std) = (
                f64::from(rows.params[i]),
                f64::from(log_std.of(&free, &rows.params[..6.min(rows.params.len())], 3, i)),
            );
            let scale = 0.5 * (f64::from(high[i]) - f64::from(low[i]));
            // A squash adds the mean logarithm of its slope to a normal number's entropy.
            let slope = |z: f64| (scale.ln() - 2.0 * (mean + log_std.exp() * z).cosh().ln()) * (-0.5 * z * z).exp();
            let step = 1e-3;
            let slopes: f64 = (-8_000..8_000).map(|k| slope(f64::from(k) * step)).sum();
            log_std + 0.5 * (1.0 + std::f64::consts::TAU.ln()) + slopes * step / std::f64::consts::TAU.sqrt()
        };
        let want: f64 = (0..3).map(of_element).sum();
        let mean = |f: &dyn Fn(f64) -> f64| rows.entropies.iter().map(|x| f(f64::from(*x))).sum::<f64>() / COUNT as f64;
        let got = mean(&|x| x);
        let error = (mean(&|x| (x - got).powi(2)) / COUNT as f64).sqrt();
        assert!((got - want).abs() < 4.0 * error, "{spec:?}: {got} is not {want} ± {error}");
    }
}

#[test]
fn moments_of_continuous_actions_are_those_of_the_parameters() {
    for (spec, space) in heads() {
        let mut network = head_network(spec, &space);
        let head = network.plan().head.clone();
        let (log_std, squash) = match &head {
            Head::Gaussian { log_std, .. } => (*log_std, None),
            Head::TanhGaussian { low, high, log_std } => (*log_std, Some((low, high))),
            Head::Deterministic { noise: Noise::Gaussian { std }, squash: None, .. } => (LogStd::Free(std.ln()), None),
            _ => continue,
        };
        let rows = drawn(&mut network, false);
        for i in 0..3 {
            let mean = f64::from(rows.params[i]);
            let deviation = match log_std {
                LogStd::Free(start) => f64::from(start).exp(),
                LogStd::Network { .. } => f64::from(log_std.of(&[], &rows.params, 3, i)).exp(),
            };
            let number = |row: usize| {
                let x = f64::from(rows.float(3 * row + i));
                let Some((low, high)) = squash else { return x };
                let (low, high) = (f64::from(low[i]), f64::from(high[i]));
                ((2.0 * x - low - high) / (high - low)).clamp(-1.0 + 1e-7, 1.0 - 1e-7).atanh()
            };
            // Where the squash saturates numbers cannot be told.
            if squash.is_some() && mean.abs() + 3.0 * deviation > 6.0 {
                continue;
            }
            let z: Vec<f64> = (0..COUNT).map(|row| (number(row) - mean) / deviation).collect();
            let moment = |power: i32| z.iter().map(|z| z.powi(power)).sum::<f64>() / COUNT as f64;
            // Four standard errors of each.
            let bound = 4.0 / (COUNT as f64).sqrt();
            assert!(moment(1).abs() < bound, "{spec:?}, element {i}: mean {}", moment(1));
            assert!((moment(2) - 1.0).abs() < 2_f64.sqrt() * bound, "{spec:?}, element {i}: square {}", moment(2));
            let share = z.iter().filter(|z| z.abs() < 1.0).count() as f64 / COUNT as f64;
            assert!((share - 0.6827).abs() < 0.5 * bound, "{spec:?}, element {i}: {share} within a deviation");
        }
    }
}
