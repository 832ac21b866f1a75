//! Groups are frames that share a value, and the best of them are those that were asked for.

use std::collections::BTreeMap;

use gleaner::replay::{
    Sample,
    sampler::{Best, Groups, Share},
};
use proptest::prelude::*;

use crate::{
    chances::chi_square,
    made::{Made, Source},
    scene::{Scene, scene},
};

fn groups(share: Share, best: Best) -> Groups {
    Groups { column: "trajectory".into(), share, best }
}

/// The frames that were drawn of each group, in the order of the groups.
fn drawn(sample: &Sample<Made>) -> Vec<(u64, Vec<u64>)> {
    let mut groups: Vec<(u64, Vec<u64>)> = Vec::new();
    for (id, frame) in sample.trajectory_ids().iter().zip(sample.frames()) {
        match groups.last_mut() {
            Some((last, frames)) if *last == id.0 => frames.push(*frame),
            _ => groups.push((id.0, vec![*frame])),
        }
    }
    groups
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn frames_come_in_groups(mut scene in scene(), of in 1..4_usize, each in 1..4_usize, best in 0..4_usize, writes in 1..4_usize) {
        let best = [Best::Random, Best::Recency, Best::Reward, Best::Variance][best];
        let sampling = groups(Share::Groups(of), best);
        let mut sampler = scene.replay.sampler().sampling(sampling).batch_size(of * each).build().expect("a sampler");
        let mut source = Source::new(2, 7);
        source.set_serial(1_000);
        for _ in 0..writes {
            let large: Vec<_> = scene.trajectories().into_iter().filter(|frames| frames.len() >= each).collect();
            match sampler.sample() {
                Err(_) => prop_assert!(large.is_empty()),
                Ok(sample) => {
                    scene.check_frames(&sample);
                    let drawn = drawn(&sample);
                    prop_assert_eq!(drawn.len(), of.min(large.len()));
                    for (_, frames) in &drawn {
                        let mut once = frames.clone();
                        once.sort_unstable();
                        once.dedup();
                        prop_assert_eq!(once.len(), each);
                    }
                    let worth = |frames: &Vec<u64>| {
                        let rewards: Vec<f64> = frames.iter().map(|frame| f64::from(scene.model.frame(*frame).serial)).collect();
                        let mean = rewards.iter().sum::<f64>() / rewards.len() as f64;
                        match best {
                            Best::Random => 0.0,
                            Best::Recency => frames[frames.len() - 1] as f64,
                            Best::Reward => mean,
                            Best::Variance => rewards.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / rewards.len() as f64,
                        }
                    };
                    let mut all: Vec<f64> = large.iter().map(worth).collect();
                    all.sort_by(|a, b| b.total_cmp(a));
                    for ((id, _), wanted) in drawn.iter().zip(all) {
                        prop_assert!((worth(&scene.model.trajectory(*id)) - wanted).abs() < 1e-3);
                    }
                }
            }
            scene.write(&source.ticks(3, 60, &mut || 77), Some(2));
        }
    }
}

#[test]
fn groups_and_their_frames_have_the_same_chances() {
    let scene = Scene::of_episodes(&[3, 4, 3, 1]);
    let mut sampler = scene
        .replay
        .sampler()
        .sampling(groups(Share::Frames(2), Best::Random))
        .batch_size(4)
        .build()
        .expect("a sampler");
    let samples: Vec<_> = (0..20_000).map(|_| sampler.sample().expect("groups").frames().to_vec()).collect();
    // The group of one frame is too small.
    let chances: BTreeMap<_, _> =
        (0..10).map(|frame| (frame, if (3..7).contains(&frame) { 0.25 } else { 1.0 / 3.0 })).collect();
    chi_square(samples.iter().map(|frames| frames[0]), &chances);
    chi_square(samples.iter().map(|frames| frames[3]), &chances);
}

#[test]
fn illegal_groups_are_named() {
    let scene = Scene::of_episodes(&[3]);
    let error = |groups: Groups, n| {
        let sampler = scene.replay.sampler().sampling(groups).batch_size(n).build();
        sampler.and_then(|mut sampler| sampler.sample()).expect_err("illegal").to_string()
    };
    assert!(error(groups(Share::Groups(0), Best::Random), 1).contains("share"));
    assert!(error(groups(Share::Groups(2), Best::Random), 3).contains("multiple"));
    assert!(error(groups(Share::Frames(4), Best::Random), 4).contains("4 frames"));
    for column in ["reward", "observation", "prompt"] {
        let error = error(Groups { column: column.into(), ..groups(Share::Groups(1), Best::Random) }, 1);
        assert!(error.contains(column) && error.contains("trajectory, flags, version"), "{error}");
    }
}
