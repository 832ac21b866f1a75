//! Sequences are the frames around an anchor, as far as its trajectory has them.

use gleaner::replay::{
    Sample,
    sampler::{Boundary, Prioritized, Sequences},
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
    let boundary = prop_oneof![Just(Boundary::Pad), Just(Boundary::Stop), Just(Boundary::Reset)];
    (0..5_u32, 1..6_u32, 0..3_u32, 1..4_u32, boundary).prop_map(|(burn_in, length, bootstrap, dilation, boundary)| {
        Sequences { burn_in, length, bootstrap, dilation, boundary, anchors: None }
    })
}

/// What slots can hold of the anchor's episode: its frames, and with [`Boundary::Reset`] those of the episodes behind.
fn around(scene: &Scene, anchor: u64, boundary: Boundary) -> Vec<u64> {
    let mut frames = scene.model.trajectory(scene.model.frame(anchor).id);
    while boundary == Boundary::Reset
        && let Some(next) = scene.next_episode(frames[frames.len() - 1])
    {
        frames.extend(scene.model.trajectory(scene.model.frame(next).id));
    }
    frames
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// I8 for sequences, against the frames that the model has around each anchor.
    #[test]
    fn i8_sequences_are_the_frames_around_an_anchor(scene in scene(), sequences in sequences(), seed in 0..50_u64) {
        let sample = draw(&scene, sequences, 12, seed);
        let Sequences { burn_in, length, bootstrap, dilation, boundary, .. } = sequences;
        scene.check_picks(&sample, dilation, boundary == Boundary::Reset);
        for pick in 0..sample.picks() {
            let anchor = sample.anchor(pick);
            let frames = around(&scene, anchor, boundary);
            let at = frames.iter().position(|frame| *frame == anchor).expect("the anchor") as i64;
            let wanted: Vec<_> = (0..burn_in + length + bootstrap)
                .map(|step| (step, at + (i64::from(step) - i64::from(burn_in)) * i64::from(dilation)))
                .map(|(step, at)| (step, usize::try_from(at).ok().and_then(|at| frames.get(at).copied())))
                .filter(|(_, frame)| boundary != Boundary::Stop || frame.is_some())
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

/// SM-16, `include_reset`: rows of a rollout go on in their next episode, as often as it takes.
#[test]
fn sm16_sequences_go_on_behind_a_reset() {
    // Two rows, of which the first one's episodes have 2, 1 and 3 frames.
    let mut ends = [0, 1, 0, 0, 1, 0].into_iter();
    let mut row = 0;
    let mut byte = || {
        row += 1;
        if row % 2 == 1 && ends.next() == Some(1) || row == 5 { 0 } else { 9 }
    };
    let slots = crate::made::Source::new(2, 1).ticks(6, 1, &mut byte);
    let mut scene = Scene::of_episodes(&[20]);
    scene.write(&slots, Some(2));
    let sequences = Sequences { bootstrap: 1, boundary: Boundary::Reset, ..Sequences::of(4) };
    let sample = draw(&scene, sequences, 300, 0);
    scene.check_picks(&sample, 1, true);
    let pick = (0..300).find(|pick| sample.anchor(*pick) == 20).expect("the first frame of the first row");
    let steps: Vec<u32> = sample.pick(pick).map(|i| sample.steps()[i].0).collect();
    assert_eq!(steps, [0, 1, 0, 0, 1]);
    // No episode follows the one that goes on, nor that of the other block.
    let pick = (0..300).find(|pick| sample.anchor(*pick) == 31).expect("the newest frame");
    assert_eq!(sample.pick(pick).filter(|i| sample.flags()[*i].valid()).count(), 1);
    let n_step = scene.replay.sampler().sampling(sequences).n_step(2, 0.9).build();
    assert!(n_step.expect_err("slices have the steps").to_string().starts_with("n_step and sampling"));
}

/// SM-16: priorities are those of anchors; a sequence gives its anchor the highest of what it learned from.
#[test]
fn sm16_anchors_have_priorities() {
    let scene = Scene::of_episodes(&[9, 4]);
    let anchors = Some(Prioritized { alpha: 1.0.into(), beta: 1.0.into(), eps: 0.0, ..Prioritized::default() });
    let sequences = Sequences { burn_in: 2, bootstrap: 1, anchors, ..Sequences::of(3) };
    let build = || scene.replay.sampler().sampling(sequences).batch_size(400).build().expect("a sampler");
    let mut sampler = build();
    let sample = sampler.sample().expect("sequences");
    chi_square((0..400).map(|i| sample.anchor(i)), &(0..13).map(|i| (i, 1.0)).collect());
    // Burn-in and bootstrap count for nothing.
    let priority = |i: usize| if sample.is_learning(i) { (sample.frames()[i] % 5) as f32 } else { 100.0 };
    let priorities: Vec<f32> = (0..sample.len()).map(priority).collect();
    assert_eq!(sampler.update_anchors(&sample, &priorities).expect("priorities"), 400);
    let highest = |anchor: u64| {
        let end = if anchor < 9 { 9 } else { 13 };
        (anchor..end.min(anchor + 3)).map(|frame| frame % 5).max().unwrap_or_default() as f64
    };
    let mut many = Sample::default();
    sampler.sample_n(30_000, &mut many).expect("sequences");
    scene.check(&many, 1);
    chi_square((0..30_000).map(|i| many.anchor(i)), &(0..13).map(|i| (i, highest(i))).collect());
    let least = (0..13).map(highest).filter(|chance| *chance > 0.0).fold(f64::INFINITY, f64::min);
    for pick in 0..1_000 {
        assert!((f64::from(many.weights()[pick]) - least / highest(many.anchor(pick))).abs() < 1e-6);
    }
    assert!(sampler.update_anchors(&sample, &[1.0]).is_err());
    let mut plain = scene.replay.sampler().sampling(Sequences::of(2)).batch_size(2).build().expect("a sampler");
    let sample = plain.sample().expect("sequences");
    assert!(plain.update_anchors(&sample, &[1.0; 4]).expect_err("none").to_string().contains("anchors"));
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
