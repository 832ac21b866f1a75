//! A mixture has the picks of several buffers in their shares.

use gleaner::replay::sampler::{Mixture, Sequences, Short, Slices};

use crate::{chances::chi_square, scene::Scene};

#[test]
fn fixed_parts_sum_up() {
    let scenes = [Scene::of_episodes(&[5, 6]), Scene::of_episodes(&[7]), Scene::of_episodes(&[9, 9])];
    let slices = Slices { short: Short::Pad, ..Slices::of(6) };
    let samplers = scenes
        .iter()
        .zip([1.0, 0.0, 2.0])
        .map(|(scene, share)| (scene.replay.sampler().sampling(slices.clone()).build().expect("a sampler"), share));
    let mut mixture = Mixture::fixed(samplers).expect("a mixture");
    for n in 1..20 {
        let sample = mixture.sample(n).expect("slices");
        assert_eq!((sample.picks(), sample.buffers().len(), sample.len()), (n, n, 6 * n));
        let first = sample.buffers().iter().filter(|buffer| **buffer == 0).count();
        assert!((first as f64 - n as f64 / 3.0).abs() <= 0.5 && !sample.buffers().contains(&1));
        for pick in 0..n {
            let model = &scenes[sample.buffers()[pick] as usize].model;
            for i in sample.pick(pick).filter(|i| sample.flags()[*i].valid()) {
                let frame = model.frame(sample.frames()[i]);
                assert_eq!(sample.observations()[i], [frame.id as i32, frame.step as i32]);
                assert_eq!(sample.next_observation(i), &[frame.id as i32, frame.step as i32 + 1]);
                assert_eq!(sample.index(i), sample.frames()[i] % model.capacity as u64);
            }
        }
    }
}

#[test]
fn weights_are_chances() {
    let scenes = [Scene::of_episodes(&[5]), Scene::of_episodes(&[7]), Scene::of_episodes(&[9])];
    let samplers = || {
        let built = scenes.iter().map(|scene| scene.replay.sampler().build().expect("a sampler"));
        built.zip([1.0, 2.0, 5.0]).collect::<Vec<_>>()
    };
    let mut mixture = Mixture::weighted(samplers(), 4).expect("a mixture");
    let buffers = mixture.sample(20_000).expect("frames").buffers().to_vec();
    chi_square(buffers.iter().copied(), &[(0, 1.0), (1, 2.0), (2, 5.0)].into());
    let again = Mixture::weighted(samplers(), 4).expect("a mixture").sample(20_000).expect("frames");
    assert_eq!(again.buffers(), buffers);
}

#[test]
fn wrong_mixtures_are_named() {
    let scene = Scene::of_episodes(&[5]);
    let sampler = || scene.replay.sampler().build().expect("a sampler");
    for weights in [vec![], vec![0.0], vec![1.0, -1.0], vec![f64::NAN], vec![f64::INFINITY]] {
        let samplers = weights.iter().map(|weight| (sampler(), *weight));
        assert!(Mixture::fixed(samplers).expect_err("weights").to_string().contains("weights"));
    }
    let sequences = scene.replay.sampler().sampling(Sequences { burn_in: 1, ..Sequences::of(1) }).build();
    let mut mixture = Mixture::fixed([(sampler(), 1.0), (sequences.expect("a sampler"), 1.0)]).expect("a mixture");
    assert!(mixture.sample(2).expect_err("frames and sequences").to_string().contains("sequences"));
}
