//! Actions and log-probabilities.

use super::*;

#[test]
fn log_probabilities_equal_pytorch() {
    let (logits, mask, actions) =
        (golden("categorical/logits"), golden("categorical/mask"), golden("categorical/action"));
    let mask: Vec<u8> = mask.iter().map(|x| u8::from(*x != 0.0)).collect();
    let row = |i: usize| head::categorical::log_prob(&logits[i * 5..][..5], &mask[i * 5..][..5], actions[i] as usize);
    close(&(0..37).map(row).collect::<Vec<_>>(), &golden("categorical/log_prob"), "categorical");

    let (mean, log_std, action) = (golden("gaussian/mean"), golden("gaussian/log_std"), golden("gaussian/action"));
    let row = |i: usize| head::gaussian::log_prob(&mean[i * 3..][..3], &log_std[i * 3..][..3], &action[i * 3..][..3]);
    close(&(0..37).map(row).collect::<Vec<_>>(), &golden("gaussian/log_prob"), "gaussian");
}

#[test]
fn sampled_actions_are_legal_with_their_masked_log_probability() {
    let mut network = network(&NetworkSpec::default(), 4, &Space::discrete(5));
    let inputs = (0..4 * 1_000).map(|i| ((i * 7_919) % 211) as f32 * 0.02 - 2.0).collect();
    let rows = Rows::new(network.plan(), inputs, 0).run(&mut network, Exploration::Sample, true);
    for row in 0..1_000 {
        let (logits, action) = (&rows.params[row * 5..][..5], rows.actions[row] as usize);
        assert_ne!(rows.masks[row][action], 0, "row {row}");
        let want = head::categorical::log_prob(logits, &rows.masks[row], action);
        assert!((rows.log_probs[row] - want).abs() < 1e-6, "row {row}: {} is not {want}", rows.log_probs[row]);
    }
    let modes = Rows::new(network.plan(), rows.inputs.clone(), 0).run(&mut network, Exploration::Mode, true);
    for row in 0..1_000 {
        let logit = |i: usize| if modes.masks[row][i] == 0 { f32::NEG_INFINITY } else { modes.params[row * 5 + i] };
        let best = (0..5).rev().max_by(|a, b| logit(*a).total_cmp(&logit(*b))).unwrap();
        assert_eq!(modes.actions[row] as usize, best, "row {row}");
    }
}

#[test]
fn sampled_frequencies_are_the_probabilities() {
    let mut network = network(&NetworkSpec::default(), 4, &Space::discrete(5));
    let count = 20_000;
    let rows = Rows::new(network.plan(), [0.3, -0.1, 0.8, -0.5].repeat(count), 0);
    let rows = rows.run(&mut network, Exploration::Sample, false);
    for action in 0..5 {
        let probability = f64::from(head::categorical::log_prob(&rows.params[..5], &[], action)).exp();
        let share = rows.actions.iter().filter(|x| **x as usize == action).count() as f64 / count as f64;
        // Four standard deviations of a binomial share.
        let bound = 4.0 * (probability * (1.0 - probability) / count as f64).sqrt();
        assert!((share - probability).abs() < bound, "action {action}: {share} is not {probability}");
    }
}

#[test]
fn gaussian_actions_have_the_means_and_deviations_of_the_parameters() {
    let spec = NetworkSpec { head: crate::policy::HeadSpec::Gaussian { log_std: -1.0 }, ..Default::default() };
    let mut network = network(&spec, 4, &Space::unbounded(3));
    let count = 20_000;
    let rows = Rows::new(network.plan(), [0.3, -0.1, 0.8, -0.5].repeat(count), 0);
    let drawn = rows.clone().run(&mut network, Exploration::Sample, false);
    let action = |row: usize, i: usize| f32::from_bits(drawn.actions[row * 3 + i]);
    for i in 0..3 {
        let distance = |row: usize| f64::from(action(row, i) - drawn.params[i]);
        let mean = (0..count).map(distance).sum::<f64>() / count as f64;
        let variance = (0..count).map(|row| distance(row).powi(2)).sum::<f64>() / count as f64;
        assert!(mean.abs() < 0.011 && (variance.sqrt() - (-1_f64).exp()).abs() < 0.008, "{mean}, {variance}");
    }
    for row in 0..100 {
        let actions: [f32; 3] = std::array::from_fn(|i| action(row, i));
        close(
            &[drawn.log_probs[row]],
            &[head::gaussian::log_prob(&drawn.params[row * 3..][..3], &[-1.0; 3], &actions)],
            "log-density",
        );
    }
    let mean = rows.run(&mut network, Exploration::Mean, false);
    assert_eq!(mean.actions, mean.params.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
}

#[test]
fn not_a_number_does_not_panic_and_stays_legal() {
    for space in [Space::discrete(5), Space::unbounded(3)] {
        let mut network = network(&NetworkSpec::default(), 4, &space);
        let mut inputs = vec![0.5; 4 * 20];
        inputs[4 * 7] = f32::NAN;
        inputs[4 * 9] = f32::INFINITY;
        for exploration in [Exploration::Sample, Exploration::Mode] {
            let rows = Rows::new(network.plan(), inputs.clone(), 0).run(&mut network, exploration, true);
            assert!(rows.log_probs[7].is_nan() || space != Space::discrete(5));
            if space == Space::discrete(5) {
                assert!((0..20).all(|row| rows.masks[row][rows.actions[row] as usize] != 0));
            }
        }
    }
}
