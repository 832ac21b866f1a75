//! What goes on from step to step: processes of noise, and epsilon.

use super::*;
use crate::{math, policy::head::q};

#[test]
fn an_ornstein_uhlenbeck_process_is_that_of_a_plain_loop() {
    let (theta, sigma, dt) = (0.3, 0.7, 0.25);
    let spec = HeadSpec::Deterministic { noise: Noise::OrnsteinUhlenbeck { theta, sigma, dt } };
    let mut network = head_network(spec, &Space::unbounded(3));
    assert_eq!(network.plan().state(), 3);
    const ROWS: usize = 19;
    let states = States::new(ROWS, 3);
    let places: Vec<_> = (0..ROWS as u32).map(|row| row * 7 % ROWS as u32).collect();
    let mut process = [[0.0_f64; 3]; ROWS];
    for t in 0..200_u32 {
        let mut rows = Rows::new(network.plan(), vec![0.1; 4 * ROWS], 0);
        rows.steps.fill(EpisodeStep(t));
        // Episodes of 5, 6 … frames.
        let fresh: Vec<_> = (0..ROWS as u32).map(|row| u8::from(t.is_multiple_of(row + 5))).collect();
        let exploration = if t % 9 == 4 { Exploration::Mode } else { Exploration::Sample };
        let memory = Memory { states: &states, places: &places, fresh: &fresh };
        rows.forward(&mut network, exploration, false, Some(memory));
        for (row, process) in process.iter_mut().enumerate() {
            for (i, x) in process.iter_mut().enumerate() {
                let noise = f64::from(rows.float(3 * row + i)) - f64::from(rows.params[3 * row + i]);
                if exploration == Exploration::Mode {
                    assert_eq!(noise, 0.0, "without sampling there is none, and the process stands still");
                    continue;
                }
                if fresh[row] != 0 {
                    *x = 0.0;
                }
                let counter = t * crate::seed::DRAWS_PER_FRAME + i as u32 / 2;
                let [a, b] = crate::seed::threefry(rows.keys[row].0, [counter, rows.episodes[row].0]);
                let z = f64::from(math::box_muller(a, b)[i % 2]);
                *x += f64::from(theta) * (0.0 - *x) * f64::from(dt) + f64::from(sigma) * f64::from(dt).sqrt() * z;
                assert!((noise - *x).abs() < 2e-5, "tick {t}, row {row}, element {i}: {noise} is not {x}");
            }
        }
    }
    let largest = process.iter().flatten().fold(0.0, |most: f64, x| most.max(x.abs()));
    assert!(largest > 0.3, "the process has hardly moved: {largest}");
}

/// As DDPG and TD3 act: a tanh, noise, both within the box.
#[test]
fn a_squashed_action_is_that_of_a_plain_computation() {
    let (low, high, std) = ([-1.0_f32, -2.0, 0.5], [1.0_f32, 0.5, 4.0], 0.4);
    let spec = HeadSpec::TanhDeterministic { noise: Noise::Gaussian { std } };
    let mut network = head_network(spec, &Space::bounded(low, high));
    let inputs: Vec<f32> = (0..4 * 500).map(|i| ((i * 7_919) % 211) as f32 * 0.004 - 0.4).collect();
    for (arch, exploration) in
        instruction_sets().into_iter().zip([Exploration::Sample, Exploration::Mode, Exploration::Mean])
    {
        network.arch = arch;
        let rows = Rows::new(network.plan(), inputs.clone(), 0).run(&mut network, exploration, false);
        let mut at_bounds = 0;
        for at in 0..1_500 {
            let (row, i) = (at / 3, at % 3);
            let counter = rows.steps[row].0 * crate::seed::DRAWS_PER_FRAME + i as u32 / 2;
            let [a, b] = crate::seed::threefry(rows.keys[row].0, [counter, rows.episodes[row].0]);
            let sampled = exploration == Exploration::Sample;
            let z = if sampled { f64::from(math::box_muller(a, b)[i % 2]) } else { 0.0 };
            let x = (f64::from(rows.params[at]).tanh() + f64::from(std) * z).clamp(-1.0, 1.0);
            let (low, high) = (f64::from(low[i]), f64::from(high[i]));
            let want = (0.5 * (low + high) + 0.5 * (high - low) * x) as f32;
            close(&[rows.float(at)], &[want], "squashed action");
            at_bounds += usize::from(x.abs() == 1.0);
        }
        assert_eq!(at_bounds > 20, exploration == Exploration::Sample, "{at_bounds} of 1500 are clipped");
    }
}

#[test]
fn epsilon_moves_linearly_and_stays() {
    let epsilon = Annealed { from: 1.0, to: 0.1, frames: 1_000 };
    for (frames, want) in [(0, 1.0), (1, 0.9991), (500, 0.55), (999, 0.1009), (1_000, 0.1), (u64::MAX, 0.1)] {
        assert!((epsilon.at(frames) - want).abs() < 1e-6, "after {frames}: {}", epsilon.at(frames));
    }
    assert_eq!(Annealed { from: 1.0, to: 0.25, frames: 0 }.at(0), 0.25);
    assert_eq!(Annealed { from: 0.0, to: 1.0, frames: 4 }.at(1), 0.25);
}

#[test]
fn log_probabilities_are_those_of_the_epsilon_greedy_distribution() {
    let (values, mask) = ([1.0, 7.0, 3.0, 5.0], [1, 0, 1, 1]);
    let of = |mask: &[u8], epsilon, action| f64::from(q::log_prob(&values, mask, epsilon, action)).exp();
    for (epsilon, greedy, other) in [(0.0, 1.0, 0.0), (1.0, 0.25, 0.25), (0.2, 0.85, 0.05)] {
        let probabilities = [0, 1, 2, 3].map(|action| of(&[], epsilon, action));
        let want = [other, greedy, other, other];
        assert!(probabilities.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-6), "{probabilities:?}");
    }
    // Of three legal actions the last is the greedy one.
    assert!((of(&mask, 0.3, 3) - 0.8).abs() < 1e-6 && (of(&mask, 0.3, 0) - 0.1).abs() < 1e-6);
    assert!(q::log_prob(&values, &mask, 0.3, 1).is_nan());
    let entropy = -(0.8 * 0.8_f64.ln() + 0.2 * 0.1_f64.ln());
    assert!((f64::from(q::entropy(&values, &mask, 0.3)) - entropy).abs() < 1e-6);
    assert_eq!([q::entropy(&values, &[], 0.0), q::log_prob(&values, &[], 0.0, 1)], [0.0; 2]);
}

#[test]
fn a_q_network_explores_as_often_as_epsilon_says() {
    let epsilon = Annealed { from: 0.9, to: 0.0, frames: 1_000 };
    let mut network = head_network(HeadSpec::Q { epsilon }, &Space::discrete(5));
    for frames in [0, 400, 1_000] {
        let mut rows = Rows::new(network.plan(), [0.3, -0.1, 0.8, -0.5].repeat(10_000), 0);
        rows.frames = frames;
        let greedy = rows.clone().run(&mut network, Exploration::Mode, false).index(0);
        let rows = rows.run(&mut network, Exploration::Sample, false);
        let share = (0..10_000).filter(|row| rows.index(*row) == greedy).count() as f64 / 10_000.0;
        let want = 1.0 - f64::from(epsilon.at(frames)) * 0.8;
        assert!((share - want).abs() <= 0.02 && (frames < 1_000 || share == 1.0), "{frames}: {share} is not {want}");
    }
}
