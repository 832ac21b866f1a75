//! Hindsight gives a share of the frames goals that were achieved later in their episodes.

use gleaner::replay::{
    Sample,
    sampler::{Goals, Hindsight, Mixture, Slices},
};
use proptest::prelude::*;

use crate::{
    chances::chi_square,
    made::Made,
    scene::{Scene, scene},
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn goals_are_those_of_the_episode(scene in scene(), goals in 0..4_usize, seed in 0..9_u64) {
        let goals = [Goals::Future, Goals::Final, Goals::Episode, Goals::Random][goals];
        let mut sample = scene.replay.sampler().batch_size(30).seed(seed).build().expect("a sampler").sample().expect("frames");
        let before = sample.actions().to_vec();
        let mut relabel = Hindsight { ratio: 0.5, goals, seed }.build().expect("a relabeller");
        let mut rewritten = Vec::new();
        let chosen = relabel
            .relabel(&scene.replay, &mut sample, |frame| {
                rewritten.push((*frame.observation, *frame.next_observation, *frame.reward, *frame.achieved));
                *frame.reward = -1.0;
                *frame.observation = [-2; 2];
                *frame.next_observation = [-3; 2];
            })
            .expect("frames")
            .to_vec();
        prop_assert_eq!(chosen.len(), rewritten.len());
        for (i, number) in sample.frames().iter().enumerate() {
            let frame = scene.model.frame(*number);
            let (id, step) = (frame.id as i32, frame.step as i32);
            let now = (sample.observations()[i], sample.next_observations()[i], sample.rewards()[i]);
            let Some(at) = chosen.iter().position(|chosen| *chosen == i) else {
                prop_assert_eq!(now, ([id, step], [id, step + 1], frame.serial as f32));
                continue;
            };
            prop_assert_eq!(now, ([-2; 2], [-3; 2], -1.0));
            let (observation, next, reward, achieved) = rewritten[at];
            prop_assert_eq!((observation, next, reward), ([id, step], [id, step + 1], frame.serial as f32));
            let own = scene.model.trajectory(frame.id);
            let steps: Vec<_> = own.iter().map(|number| scene.model.frame(*number).step as i32 + 1).collect();
            let legal = match goals {
                Goals::Future => achieved[0] == id && steps.contains(&achieved[1]) && achieved[1] > step,
                Goals::Final => achieved == [id, steps[steps.len() - 1]],
                Goals::Episode => achieved[0] == id && steps.contains(&achieved[1]),
                Goals::Random => scene.model.frames.iter().any(|f| achieved == [f.id as i32, f.step as i32 + 1]),
            };
            prop_assert!(legal, "{:?}: {:?} for {:?}", goals, achieved, frame);
        }
        prop_assert_eq!(sample.actions(), before);
    }
}

#[test]
fn samples_whose_rewards_would_lie_are_errors() {
    let scene = Scene::of_episodes(&[4, 5]);
    let mut relabel = Hindsight::default().build().expect("a relabeller");
    let mut error = |sample: &mut Sample<Made>| {
        let error = relabel.relabel(&scene.replay, sample, |frame| *frame.reward = 7.0).expect_err("wrong").to_string();
        assert!(!sample.rewards().contains(&7.0));
        error
    };
    let builder = || scene.replay.sampler().batch_size(4);
    let mut steps = builder().n_step(2, 0.9).build().expect("a sampler").sample().expect("frames");
    assert!(error(&mut steps).contains("has n-step returns"));
    let mixture = Mixture::weighted([(builder().build().expect("a sampler"), 1.0)], 1);
    let mut mixed = mixture.expect("a mixture").sample(4).expect("frames");
    assert!(error(&mut mixed).contains("is a mixture's"));
    let mut slices = builder().sampling(Slices::of(2)).build().expect("a sampler").sample().expect("frames");
    assert!(error(&mut slices).contains("relabel samples of single frames"));
}

#[test]
fn the_ratio_and_the_goals_have_their_chances() {
    let scene = Scene::of_episodes(&[1, 5]);
    let mut sample = scene.replay.sampler().batch_size(40_000).build().expect("a sampler").sample().expect("frames");
    let mut relabel = Hindsight { seed: 3, ..Hindsight::default() }.build().expect("a relabeller");
    let mut futures = Vec::new();
    let chosen =
        relabel.relabel(&scene.replay, &mut sample, |frame| futures.push((frame.observation[1], frame.achieved[1])));
    let chosen = chosen.expect("frames").len() as f64;
    assert!((chosen / 40_000.0 - 0.8).abs() < 0.01, "{chosen}");
    let of_step = futures.iter().filter(|(step, _)| *step == 2).map(|(_, goal)| *goal);
    chi_square(of_step, &[(3, 1.0), (4, 1.0), (5, 1.0)].into());
}

#[test]
fn frames_that_were_overwritten_keep_their_goals() {
    let mut scene = Scene::of_episodes(&[3, 3]);
    let mut sample = scene.replay.sampler().batch_size(50).build().expect("a sampler").sample().expect("frames");
    scene.write(&crate::made::Source::new(1, 4).episodes(&[3]), None);
    let mut relabel = Hindsight { ratio: 1.0, ..Hindsight::default() }.build().expect("a relabeller");
    let chosen = relabel.relabel(&scene.replay, &mut sample, |_| {}).expect("frames").to_vec();
    let newer: Vec<_> = (0..50).filter(|i| sample.frames()[*i] >= 3).collect();
    assert_eq!(chosen, newer);
}

#[test]
fn slices_are_not_relabelled() {
    let scene = Scene::of_episodes(&[3, 3]);
    let sampler = scene.replay.sampler().sampling(Slices::of(2)).batch_size(2).build();
    let mut sample = sampler.expect("a sampler").sample().expect("slices");
    let mut relabel = Hindsight::default().build().expect("a relabeller");
    assert!(relabel.relabel(&scene.replay, &mut sample, |_| {}).is_err());
    assert!(Hindsight { ratio: 1.5, ..Hindsight::default() }.build::<crate::made::Made>().is_err());
}
