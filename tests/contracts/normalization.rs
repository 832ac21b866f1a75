//! Running statistics of observations: they are adopted with weights, act on what the network is given and on nothing
//! that is recorded, and stay when frozen.

use gleaner::{
    policy::{Backend, NetworkSpec, Normalize, Policy, RunningNorm},
    prelude::{Batch, CartPole, Collector},
};

/// The same weights, with and without a stage that normalises.
fn network(normalize: Option<Normalize>) -> Policy<CartPole> {
    Policy::network(NetworkSpec { normalize, ..NetworkSpec::default() }).seed(3).backend(Backend::Cpu)
}

/// A collector that normalises.
fn normalising(policy: Policy<CartPole>) -> Collector<CartPole> {
    let builder = Collector::<CartPole>::builder().rows(6).frames_per_batch(6 * 7).seed(2);
    builder.record_distribution(true).policy(policy).build().unwrap()
}

/// Logits and values of a network that does not normalise, for observations that `norm` did.
fn by_hand(norm: &RunningNorm, observations: &[[f32; 4]]) -> (Vec<f32>, Vec<f32>) {
    let mut inputs = observations.to_vec();
    norm.snapshot().apply(inputs.as_flattened_mut());
    let evaluation = network(None).evaluate(&inputs).unwrap();
    (evaluation.params, evaluation.values)
}

/// What a batch recorded is what its collector's evaluator says, and what comes out by hand under `norm`.
fn acted_under(norm: &RunningNorm, batch: &Batch<CartPole>, collector: &Collector<CartPole>) {
    let recorded = (batch.column::<[f32; 2]>("logits").unwrap().as_flattened(), batch.values().unwrap());
    let own = collector.evaluator().unwrap().evaluate(batch.observations()).unwrap();
    assert_eq!(recorded, (&own.params[..], &own.values[..]));
    let (logits, values) = by_hand(norm, batch.observations());
    assert_eq!(recorded, (&logits[..], &values[..]));
}

#[test]
fn statistics_are_adopted_with_weights() {
    let mut collector = normalising(network(Some(Normalize::default())));
    let weights = collector.weights().unwrap();
    let mut adopted = collector.normalization().unwrap();
    assert_eq!(adopted.count, 0);
    for number in 0..6 {
        let batch = collector.next().unwrap().unwrap();
        assert!(batch.versions().iter().all(|version| *version == number / 2), "batch {number}");
        acted_under(&adopted, &batch, &collector);
        let now = collector.normalization().unwrap();
        assert_eq!(now.count, (number + 1) * 6 * 7);
        assert_ne!(by_hand(&now, batch.observations()), by_hand(&adopted, batch.observations()), "batch {number}");
        if number % 2 == 1 {
            weights.increment_version().unwrap();
            adopted = now;
        }
    }
}

#[test]
fn frozen_statistics_act_from_the_first_frame_and_stay() {
    let frozen = RunningNorm {
        count: 10,
        mean: vec![0.02, -0.1, 0.01, 0.2],
        m2: vec![0.1, 2.0, 0.05, 4.0],
        frozen: true,
        ..RunningNorm::new(4, 10.0)
    };
    let policy = network(Some(Normalize::default())).normalization(frozen.clone());
    let mut collector = normalising(policy.clone());
    let weights = collector.weights().unwrap();
    for number in 0..3 {
        let batch = collector.next().unwrap().unwrap();
        acted_under(&frozen, &batch, &collector);
        let own = policy.evaluate(batch.observations()).unwrap();
        assert_eq!(batch.values().unwrap(), own.values, "batch {number}");
        assert_ne!(batch.values().unwrap(), network(None).evaluate(batch.observations()).unwrap().values);
        assert_eq!(collector.normalization().unwrap(), frozen, "batch {number}");
        weights.increment_version().unwrap();
    }
}

#[test]
fn values_behind_a_batch_are_normalised_as_its_version_is() {
    let mut collector = normalising(network(Some(Normalize::default())));
    let weights = collector.weights().unwrap();
    let mut compared = 0;
    for _ in 0..3 {
        // The network outside the tick is asked before, and has the same weights loaded.
        collector.next().unwrap().unwrap().bootstrap_values().unwrap();
        weights.increment_version().unwrap();
        let batch = collector.next().unwrap().unwrap();
        let (next, ends) = (batch.bootstrap_values().unwrap(), batch.ends().to_vec());
        let last = batch.len() - 6;
        drop(batch);
        // No version between: the same statistics.
        let following = collector.next().unwrap().unwrap();
        for row in (0..6).filter(|row| !ends[last + row].done()) {
            assert_eq!(next[last + row], following.values().unwrap()[row], "row {row}");
            compared += 1;
        }
    }
    assert!(compared > 0, "every episode ended");
}
