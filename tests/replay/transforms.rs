//! Transforms change samples behind the gather and blocks before they are stored, in order, and nothing else.

use gleaner::{
    error::{BoxError, Error},
    replay::{
        Limiter, Replay, ReplayConfig, Sample, Sampler, SamplerBuilder,
        sampler::{Boundary, Mixture, Sampling, Sequences, Short, Slices, Uniform},
    },
};
use proptest::prelude::*;

use crate::{
    made::{Block, Made, Source},
    scene::{Scene, scene},
};

const SHIFT: i32 = 1 << 20;

/// What each transform of these tests does with a sample.
fn shift(sample: &mut Sample<Made>) -> Result<(), BoxError> {
    sample.each_observation(|observation| observation.iter_mut().for_each(|number| *number += SHIFT));
    sample.actions_mut().iter_mut().for_each(|action| *action = -*action);
    Ok(())
}

fn samplings() -> impl Strategy<Value = Sampling> {
    prop_oneof![
        Just(Uniform.into()),
        Just(Slices { short: Short::Pad, span: (2, 1), ..Slices::of(4) }.into()),
        Just(Slices { short: Short::Whole, ..Slices::of(3) }.into()),
        Just(Sequences { burn_in: 2, bootstrap: 1, boundary: Boundary::Reset, ..Sequences::of(4) }.into()),
        Just(Sequences { burn_in: 2, bootstrap: 1, boundary: Boundary::Stop, ..Sequences::of(3) }.into()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn rb12_every_observation_of_a_sample_is_changed_once(scene in scene(), sampling in samplings(), seed in 0..9_u64) {
        let builder = || scene.replay.sampler().sampling(sampling.clone()).batch_size(9).seed(seed);
        let plain = builder().build().expect("a sampler").sample().expect("frames");
        let changed = builder().transform(shift).build().expect("a sampler").sample().expect("frames");
        prop_assert_eq!(plain.frames(), changed.frames());
        for i in (0..plain.len()).filter(|i| plain.flags()[*i].valid()) {
            let shifted = |observation: &[i32; 2]| observation.map(|number| number + SHIFT);
            prop_assert_eq!(shifted(&plain.observations()[i]), changed.observations()[i]);
            prop_assert_eq!(shifted(plain.next_observation(i)), *changed.next_observation(i));
            prop_assert_eq!((-plain.actions()[i], plain.rewards()[i]), (changed.actions()[i], changed.rewards()[i]));
        }
        for i in (0..plain.len()).filter(|i| !plain.flags()[*i].valid()) {
            prop_assert_eq!(changed.observations()[i], [0; 2], "a slot without a frame");
        }
    }

    /// The buffer is the one that the samples' own transform would make of the blocks as they are.
    #[test]
    fn rb12_blocks_are_changed_before_they_are_stored(
        rows in 1..5_usize, capacity in 1..60_u64, ticks in 1..9_usize, ends in 0..120_u8,
        script in proptest::collection::vec(0..=255_u8, 97), gaps in any::<bool>(),
    ) {
        let (plain, changed) = (Replay::<Made>::new(capacity).unwrap(), Replay::<Made>::new(capacity).unwrap());
        changed.transform_writes(|block| {
            block.each_observation(|observation| observation.iter_mut().for_each(|number| *number += SHIFT));
            block.actions_mut().iter_mut().for_each(|action| *action = -*action);
            Ok(())
        }).expect("a handle that writes");
        let (mut source, mut at) = (Source::new(rows, 0), 0);
        let mut byte = || {
            at += 1;
            let byte = script[at % script.len()];
            if gaps { byte } else { byte.min(254) }
        };
        for _ in 0..4 {
            let slots = source.ticks(ticks, ends, &mut byte);
            let (block, flat) = (Block::new(&slots, Some(rows)), Block::new(&Source::new(1, 7).episodes(&[3, 2]), None));
            for block in [block, flat] {
                prop_assert_eq!(plain.extend(&block).expect("room"), changed.extend(&block).expect("room"));
            }
        }
        let numbers: Vec<u64> = plain.frames().collect();
        let (mut plain, changed) = (plain.read(&numbers).expect("frames"), changed.read(&numbers).expect("frames"));
        shift(&mut plain).expect("no error");
        for i in 0..plain.len() {
            prop_assert_eq!(plain.observations()[i], changed.observations()[i]);
            prop_assert_eq!(plain.next_observation(i), changed.next_observation(i));
            prop_assert_eq!((plain.actions()[i], plain.rewards()[i]), (changed.actions()[i], changed.rewards()[i]));
            prop_assert_eq!((plain.ends()[i], plain.trajectory_ids()[i]), (changed.ends()[i], changed.trajectory_ids()[i]));
        }
    }
}

fn add_then_double(builder: SamplerBuilder<Made>) -> Sampler<Made> {
    let add = |sample: &mut Sample<Made>| {
        sample.rewards_mut().iter_mut().for_each(|reward| *reward += 1.0);
        Ok(())
    };
    let double = |sample: &mut Sample<Made>| {
        sample.column_mut::<f32>("reward")?.iter_mut().for_each(|reward| *reward *= 2.0);
        Ok(())
    };
    builder.transform(add).transform(double).batch_size(16).seed(3).build().expect("a sampler")
}

#[test]
fn rb12_several_are_applied_in_order_and_can_be_changed() {
    let scene = Scene::of_episodes(&[8, 9]);
    let wanted = |sample: &Sample<Made>, of: fn(f32) -> f32| {
        let stored: Vec<_> = sample.frames().iter().map(|frame| of(scene.model.frame(*frame).serial as f32)).collect();
        assert_eq!(sample.rewards(), stored);
    };
    let mut sampler = add_then_double(scene.replay.sampler());
    wanted(&sampler.sample().expect("frames"), |reward| (reward + 1.0) * 2.0);
    sampler.transforms().swap(0, 1);
    wanted(&sampler.sample().expect("frames"), |reward| reward * 2.0 + 1.0);
    sampler.transforms().clear();
    let sample = sampler.sample().expect("frames");
    scene.check_frames(&sample);
    // What is stored never changed.
    scene.check_frames(&scene.replay.read(sample.frames()).expect("frames"));
}

#[test]
fn rb12_samples_ahead_of_mixtures_and_with_returns_are_changed_as_well() {
    let scene = Scene::of_episodes(&[8, 9]);
    let mut plain = add_then_double(scene.replay.sampler().n_step(3, 0.5));
    let ahead = add_then_double(scene.replay.sampler().n_step(3, 0.5)).prefetch(3).expect("a thread");
    let untouched = scene.replay.sampler().n_step(3, 0.5).batch_size(16).seed(3).build().expect("a sampler");
    for (ahead, untouched) in ahead.zip(untouched).take(20) {
        let (plain, ahead, untouched) =
            (plain.sample().expect("frames"), ahead.expect("frames"), untouched.expect("frames"));
        assert_eq!((plain.frames(), plain.rewards()), (ahead.frames(), ahead.rewards()));
        assert_eq!(plain.rewards()[0], (untouched.rewards()[0] + 1.0) * 2.0);
        assert_eq!(plain.returns(), untouched.returns(), "of what is stored");
    }
    let samplers = [(add_then_double(scene.replay.sampler()), 1.0), (scene.replay.sampler().build().unwrap(), 1.0)];
    let sample = Mixture::fixed(samplers).expect("shares").sample(10).expect("frames");
    for (i, frame) in sample.frames().iter().enumerate() {
        let stored = scene.model.frame(*frame).serial as f32;
        assert_eq!(sample.rewards()[i], if sample.buffers()[i] == 0 { (stored + 1.0) * 2.0 } else { stored });
    }
}

#[test]
fn rb12_errors_and_panics_reach_the_caller() {
    let scene = Scene::of_episodes(&[8]);
    let mut calls = 0;
    let fails = move |_: &mut Sample<Made>| {
        calls += 1;
        match calls {
            1 => Err("no such scale".into()),
            2 => panic!("out of bounds"),
            _ => Ok(()),
        }
    };
    let never = |_: &mut Sample<Made>| -> Result<(), BoxError> { Err("later ones have their turn".into()) };
    let mut sampler = scene.replay.sampler().transform(fails).batch_size(4).build().expect("a sampler");
    let mut sample = Sample::default();
    for message in ["transform failed: no such scale", "transform failed: it panicked: out of bounds"] {
        let error = sampler.sample_into(&mut sample).expect_err("a failure");
        assert!(matches!(error, Error::Hook { .. }) && error.to_string() == message, "{error}");
        assert!(sample.is_empty() && sample.rewards().is_empty());
    }
    sampler.sample_into(&mut sample).expect("it goes on");
    scene.check_frames(&sample);
    sampler.transforms().push(Box::new(never));
    assert_eq!(sampler.sample().expect_err("a failure").to_string(), "transform failed: later ones have their turn");
    let mut ahead = sampler.prefetch(2).expect("a thread");
    assert!(matches!(ahead.next(), Some(Err(Error::Hook { hook: "transform", .. }))));
}

#[test]
fn rb12_a_write_that_fails_stores_nothing() {
    let limiter = Some(Limiter { samples_per_insert: 1.0, min_size: 4, error_buffer: 4.0 });
    let replay = Replay::<Made>::with_config(ReplayConfig { limiter, ..ReplayConfig::default() }).expect("a buffer");
    replay
        .transform_writes(|block| Err(format!("{} slots", block.flags().len()).into()))
        .expect("a handle that writes");
    let block = Block::new(&Source::new(1, 0).episodes(&[5]), None);
    assert_eq!(replay.extend(&block).expect_err("a failure").to_string(), "transform_writes failed: 5 slots");
    assert_eq!((replay.len(), replay.write_count(), replay.stats().limiter.map(|of| of.inserts)), (0, 0, Some(0)));
    let fixed = |block: &mut gleaner::replay::Incoming<Made>| {
        block.column_mut::<u64>("trajectory")?.fill(0);
        Ok(())
    };
    replay.with_write_transforms(|all| *all = vec![Box::new(fixed)]).expect("a handle that writes");
    let error = replay.extend(&block).expect_err("a column that is fixed").to_string();
    assert!(error.contains("column is trajectory; legal: one that does not tell episodes apart"), "{error}");
    let error = replay.read_only().transform_writes(|_| Ok(())).expect_err("read-only").to_string();
    assert!(error.starts_with("transform_writes: the handle is read-only"), "{error}");
    replay.with_write_transforms(Vec::clear).expect("a handle that writes");
    assert_eq!(replay.extend(&block).expect("room").frames, 5);
}
