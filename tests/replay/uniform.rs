//! Every frame that is there has the same chance, and n-step returns are those of its own episode.

use std::collections::HashSet;

use gleaner::replay::{Sample, sampler::Slices};
use proptest::prelude::*;

use crate::{
    chances::chi_square,
    made::Source,
    scene::{Scene, scene},
};

/// What n-step returns of a frame are: their sum, what the value behind them counts, and the observation there.
fn wanted(scene: &Scene, frame: u64, n: u32, gamma: f32) -> (f32, f32, [i32; 2]) {
    let trajectory = scene.model.trajectory(scene.model.frame(frame).id);
    let at = trajectory.iter().position(|other| *other == frame).expect("its own trajectory");
    let steps = &trajectory[at..trajectory.len().min(at + n as usize)];
    let frames: Vec<_> = steps.iter().map(|frame| scene.model.frame(*frame)).collect();
    let sum: f64 = frames.iter().zip(0..).map(|(frame, i)| f64::from(gamma).powi(i) * f64::from(frame.serial)).sum();
    let last = frames[frames.len() - 1];
    let discount = if last.end.terminated() { 0.0 } else { gamma.powi(frames.len() as i32) };
    (sum as f32, discount, [last.id as i32, last.step as i32 + 1])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn frames_that_are_there_are_drawn(scene in scene(), picks in 1..40_usize, seed in 0..9_u64) {
        let mut sampler = scene.replay.sampler().batch_size(picks).seed(seed).build().expect("a sampler");
        for _ in 0..3 {
            let sample = sampler.sample().expect("frames");
            prop_assert_eq!(sample.len(), picks);
            scene.check_frames(&sample);
            prop_assert!(sample.weights().iter().all(|weight| *weight == 1.0) && sample.returns().is_empty());
        }
    }

    /// Right where episodes end, were cut or have not gone on yet: what is there of an episode is what counts.
    #[test]
    fn n_step_returns_are_those_of_the_episode(
        mut scene in scene(), n in 1..7_u32, gamma in prop_oneof![Just(0.0_f32), Just(1.0), 0.5..1.0_f32], writes in 0..3_usize,
    ) {
        let mut sampler = scene.replay.sampler().batch_size(30).n_step(n, gamma).build().expect("a sampler");
        let mut sample = Sample::default();
        let mut source = Source::new(3, 7);
        for _ in 0..=writes {
            sampler.sample_into(&mut sample).expect("frames");
            prop_assert_eq!((sample.returns().len(), sample.discounts().len()), (30, 30));
            for (i, frame) in sample.frames().iter().enumerate() {
                let (sum, discount, next) = wanted(&scene, *frame, n, gamma);
                prop_assert!((sample.returns()[i] - sum).abs() <= 1e-5 * sum.abs().max(1.0), "{} for {sum}", sample.returns()[i]);
                prop_assert!((sample.discounts()[i] - discount).abs() <= 1e-6, "{} for {discount}", sample.discounts()[i]);
                prop_assert_eq!(sample.next_observation(i), &next);
            }
            scene.write(&source.ticks(2, 60, &mut || 78), Some(3));
        }
    }
}

#[test]
fn frames_have_the_same_chance() {
    let mut scene = Scene::of_episodes(&[5, 30, 5]);
    // Past the ring's end, so that the oldest frame lies in its middle.
    scene.write(&Source::new(1, 9).episodes(&[7]), None);
    let mut sampler = scene.replay.sampler().batch_size(1_000).build().expect("a sampler");
    let drawn: Vec<u64> = (0..40).flat_map(|_| sampler.sample().expect("frames").frames().to_vec()).collect();
    chi_square(drawn, &(7..47).map(|frame| (frame, 1.0)).collect());
}

#[test]
fn other_seeds_draw_other_frames() {
    let scene = Scene::of_episodes(&[64]);
    let drawn = |seed| {
        let sampler = scene.replay.sampler().batch_size(8).seed(seed).build();
        sampler.expect("a sampler").sample().expect("frames").frames().to_vec()
    };
    assert_eq!((0..50).map(drawn).collect::<HashSet<_>>().len(), 50);
    assert_eq!(drawn(3), drawn(3));
}

#[test]
fn a_sample_of_nothing_is_empty() {
    let scene = Scene::of_episodes(&[9]);
    let mut sampler = scene.replay.sampler().n_step(2, 0.5).build().expect("a sampler");
    let mut sample = Sample::default();
    sampler.sample_n(4, &mut sample).expect("frames");
    sampler.sample_n(0, &mut sample).expect("nothing");
    assert_eq!((sample.len(), sample.rewards().len(), sample.returns().len()), (0, 0, 0));
    assert!(sample.next_observations().is_empty());
    let error =
        scene.replay.sampler().sampling(Slices::of(2)).n_step(2, 0.5).build().expect_err("slices have the steps");
    assert!(error.to_string().starts_with("n_step and sampling"), "{error}");
}
