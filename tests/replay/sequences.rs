//! Sequences are the frames around an anchor, as far as its trajectory has them.

use gleaner::replay::{
    Sample,
    sampler::{Boundary, Sequences},
};
use proptest::prelude::*;

use crate::{
    chances::chi_square,
    made::Made,
    scene::{Scene, scene},
};

fn draw(scene: &Scene, sequences: Sequences, picks: usize, seed: u64) -> Sample<Made> {
    let sampler = scene.replay.sampler().sampling(sequences).batch_size(picks).seed(seed).build();
    sampler.expect("a sampler").sample().expect("sequences")
}

fn sequences() -> impl Strategy<Value = Sequences> {
    let boundary = prop_oneof![Just(Boundary::Pad), Just(Boundary::Stop)];
    (0..5_u32, 1..6_u32, 0..3_u32, 1..4_u32, boundary).prop_map(|(burn_in, length, bootstrap, dilation, boundary)| {
        Sequences { burn_in, length, bootstrap, dilation, boundary }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// I8 for sequences, against the frames that the model has around each anchor.
    #[test]
    fn i8_sequences_are_the_frames_around_an_anchor(scene in scene(), sequences in sequences(), seed in 0..50_u64) {
        let sample = draw(&scene, sequences, 12, seed);
        scene.check(&sample, sequences.dilation);
        let Sequences { burn_in, length, bootstrap, dilation, boundary } = sequences;
        for pick in 0..sample.picks() {
            let anchor = sample.anchor(pick);
            let frames = scene.model.trajectory(scene.model.frame(anchor).id);
            let at = frames.iter().position(|frame| *frame == anchor).expect("the anchor") as i64;
            let wanted: Vec<_> = (0..burn_in + length + bootstrap)
                .map(|step| (step, at + (i64::from(step) - i64::from(burn_in)) * i64::from(dilation)))
                .map(|(step, at)| (step, usize::try_from(at).ok().and_then(|at| frames.get(at).copied())))
                .filter(|(_, frame)| boundary == Boundary::Pad || frame.is_some())
                .collect();
            let slots: Vec<_> = sample.pick(pick)
                .map(|i| (sample.step_in_pick(i) as u32, Some(sample.frames()[i]).filter(|frame| *frame != u64::MAX)))
                .collect();
            prop_assert_eq!(&slots, &wanted);
            for (i, (step, frame)) in sample.pick(pick).zip(wanted) {
                prop_assert_eq!(sample.is_learning(i), frame.is_some() && (burn_in..burn_in + length).contains(&step));
            }
        }
        let again = draw(&scene, sequences, 12, seed);
        prop_assert_eq!(again.frames(), sample.frames());
    }
}

#[test]
fn every_frame_is_an_anchor_with_the_same_chance() {
    let scene = Scene::of_episodes(&[9, 1, 4]);
    let sample = draw(&scene, Sequences { burn_in: 2, bootstrap: 1, ..Sequences::of(3) }, 20_000, 1);
    chi_square((0..sample.picks()).map(|i| sample.anchor(i)), &(0..14).map(|i| (i, 1.0)).collect());
}

#[test]
fn illegal_sequences_are_named() {
    let scene = Scene::of_episodes(&[5]);
    let error = |sequences: Sequences| {
        let sampler = scene.replay.sampler().sampling(sequences).batch_size(1).build();
        sampler.and_then(|mut sampler| sampler.sample()).expect_err("illegal").to_string()
    };
    assert!(error(Sequences::of(0)).contains("length"));
    assert!(error(Sequences { dilation: 0, ..Sequences::of(1) }).contains("dilation"));
    assert!(error(Sequences { burn_in: u32::MAX, ..Sequences::of(1) }).contains("slots"));
}
