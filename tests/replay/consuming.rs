//! A frame that is consumed is drawn so many times, and at most once in a batch.

use std::{collections::HashMap, time::Duration};

use gleaner::replay::{Limiter, Replay, ReplayConfig, Sample, sampler::Consuming};
use proptest::prelude::*;

use crate::{
    chances::chi_square,
    made::{Block, Made, Source},
    scene::{Scene, scene},
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_frame_is_used_up(mut scene in scene(), uses in 1..4_u8, picks in 1..20_usize, writes in 0..4_usize, seed in 0..9_u64) {
        let mut sampler =
            scene.replay.sampler().sampling(Consuming { uses }).batch_size(picks).seed(seed).build().expect("a sampler");
        let mut source = Source::new(2, 7);
        let mut used: HashMap<u64, u8> = HashMap::new();
        for write in 0..=writes {
            loop {
                let there = scene.model.tail()..scene.model.written;
                let left: u64 = there.clone().map(|frame| u64::from(uses - used.get(&frame).copied().unwrap_or(0))).sum();
                if left == 0 {
                    prop_assert!(sampler.sample().expect_err("used up").to_string().contains("used up"));
                    break;
                }
                let sample = sampler.sample().expect("frames");
                scene.check_frames(&sample);
                let mut once = sample.frames().to_vec();
                once.sort_unstable();
                once.dedup();
                let usable = there.clone().filter(|frame| used.get(frame).is_none_or(|used| *used < uses)).count();
                prop_assert_eq!((once.len(), sample.len()), (sample.len(), usable.min(picks)));
                for frame in sample.frames() {
                    *used.entry(*frame).or_default() += 1;
                }
                prop_assert!(used.values().all(|used| *used <= uses));
                prop_assert_eq!(sampler.remaining(), Some(left - sample.len() as u64));
                // RB-17: the oldest that are used up are gone.
                let mut usable = there.clone().filter(|frame| used.get(frame).is_none_or(|used| *used < uses));
                prop_assert_eq!(scene.replay.frames(), usable.next().unwrap_or(there.end)..there.end);
                // The last time all is used up, else some frames are overwritten before.
                if write < writes && left.is_multiple_of(3) {
                    break;
                }
            }
            scene.write(&source.ticks(3, 60, &mut || 77), Some(2));
        }
    }
}

#[test]
fn iteration_ends_when_all_is_used_up() {
    let mut scene = Scene::of_episodes(&[3, 4]);
    let mut sampler = scene.replay.sampler().sampling(Consuming { uses: 2 }).batch_size(4).build().expect("a sampler");
    let frames: usize = sampler.by_ref().map(|sample| sample.expect("a sample").len()).sum();
    assert_eq!((frames, sampler.remaining()), (14, Some(0)));
    scene.write(&Source::new(1, 5).episodes(&[2]), None);
    assert_eq!(sampler.next().expect("others").expect("a sample").len(), 2);
}

/// RB-17: what is used up makes room in the limiter, and trajectories that began with it are beheaded.
#[test]
fn rb17_used_up_frames_are_freed() {
    let limiter = Some(Limiter { samples_per_insert: 1.0, min_size: 4, error_buffer: 20.0 });
    let config = ReplayConfig { limiter, deadline: Duration::from_millis(20), ..ReplayConfig::default() };
    let replay = Replay::<Made>::with_config(config).expect("a buffer");
    let mut source = Source::new(1, 0);
    let mut write = |frames| replay.extend(&Block::new(&source.ticks(frames, 0, &mut || 9), Some(1))).expect("room");
    write(6);
    let mut other = replay.sampler().batch_size(1).build().expect("a sampler");
    let mut sampler = replay.sampler().sampling(Consuming { uses: 1 }).build().expect("a sampler");
    let mut sample = Sample::default();
    while replay.frames().start < 3 {
        sampler.sample_n(1, &mut sample).expect("frames");
    }
    let (left, stored) = (replay.len(), replay.trajectories());
    assert!((1..=3).contains(&left) && stored.len() == 1 && stored[0].beheaded, "{stored:?}");
    assert_eq!(u64::from(stored[0].frames), left);
    let error = sampler.sample_n(1, &mut sample).expect_err("fewer frames than min_size").to_string();
    assert!(error.contains("limiter"), "{error}");
    write(4);
    sampler.sample_n(1, &mut sample).expect("frames");
    assert!(other.sample().expect("frames").frames()[0] >= 3);
    let error = replay.read_only().sampler().sampling(Consuming { uses: 1 }).build().expect_err("read-only");
    assert!(error.to_string().contains("the handle is read-only"), "{error}");
}

#[test]
fn frames_with_uses_left_have_the_same_chance() {
    let pairs = (0..30_000).map(|seed| {
        // Another sampler's frames would be gone.
        let scene = Scene::of_episodes(&[8]);
        let sampler = scene.replay.sampler().sampling(Consuming { uses: 1 }).batch_size(2).seed(seed).build();
        let sample = sampler.expect("a sampler").sample().expect("two");
        (sample.frames()[0], sample.frames()[1])
    });
    let all = (0..8).flat_map(|a| (0..8).filter(move |b| a != *b).map(move |b| ((a, b), 1.0)));
    chi_square(pairs, &all.collect());
    let error = Scene::of_episodes(&[8])
        .replay
        .sampler()
        .sampling(Consuming { uses: 0 })
        .batch_size(1)
        .build()
        .expect_err("no uses");
    assert!(error.to_string().contains("uses"));
}
