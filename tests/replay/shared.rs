//! One buffer, several collectors and samplers on threads.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use gleaner::prelude::*;

use crate::support::{Ending, Script, Tag, tags};

/// A sampled frame is whole: its parts tell the same row, episode and step, and what follows is the same episode's.
fn check(sample: &gleaner::replay::Sample<Tag>) {
    for i in 0..sample.len() {
        let (seen, next) = (sample.observations()[i], sample.next_observation(i));
        assert_eq!(seen.t, sample.steps()[i].0 as f32);
        assert_eq!((next.place(), next.t), (seen.place(), seen.t + 1.0));
        assert_eq!(sample.rewards()[i], 1.0);
    }
}

/// Two collectors write while two samplers draw; then every trajectory is in one order, of one id.
fn write_together(mode: ReplayWriteMode) {
    let replay = Replay::<Tag>::new(700).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..2 {
            let (mut sampler, done) = (replay.sampler().batch_size(32).seed(seed).build().unwrap(), &done);
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    if let Ok(sample) = sampler.sample() {
                        check(&sample);
                    }
                }
            });
        }
        let writers: Vec<_> = [(1, 3), (2, 5)]
            .map(|(worker, rows)| {
                let replay = replay.clone();
                scope.spawn(move || {
                    let script = Script::lengths(&[2, 11, 40], Ending::Truncated);
                    let builder = tags(script).rows(rows).frames_per_batch(rows * 7).total_frames(20_000);
                    let builder = builder.worker(worker).replay(&replay).replay_write_mode(mode);
                    let mut collector = builder.build().unwrap();
                    let frames: u64 = collector.receipts().map(|receipt| receipt.unwrap().frames).sum();
                    assert_eq!(Some(frames), collector.stats().written_frames);
                    frames
                })
            })
            .into_iter()
            .collect();
        let written: u64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        done.store(true, Relaxed);
        assert_eq!(replay.write_count(), written);
    });
    let numbers: Vec<u64> = replay.frames().collect();
    let sample = replay.read(&numbers).unwrap();
    let mut own: HashMap<u64, Vec<(u64, u32)>> = HashMap::new();
    for (i, number) in numbers.iter().enumerate() {
        own.entry(sample.trajectory_ids()[i].0).or_default().push((*number, sample.steps()[i].0));
    }
    for stored in replay.trajectories() {
        let frames = &own[&stored.id.0];
        assert_eq!((frames.len(), frames[0].0), (stored.frames as usize, stored.first));
        assert!(frames.windows(2).all(|pair| pair[1].1 == pair[0].1 + 1), "{stored:?}: {frames:?}");
        if mode == ReplayWriteMode::Trajectory {
            assert!(frames.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1), "in one piece");
        }
    }
}

#[test]
fn rw5_rollouts_of_two_collectors() {
    write_together(ReplayWriteMode::Rollout);
}

#[test]
fn rw5_trajectories_of_two_collectors() {
    write_together(ReplayWriteMode::Trajectory);
}

#[test]
fn two_collectors_of_one_number_are_refused() {
    let replay = Replay::<Tag>::new(700).unwrap();
    let builder = || tags(Script::all(3, Ending::Terminated)).replay(&replay);
    let first = builder().build().unwrap();
    let error = builder().build().unwrap_err().to_string();
    assert!(error.starts_with("worker is 0"), "{error}");
    let second = builder().worker(1).build().unwrap();
    drop(first);
    builder().build().unwrap();
    drop(second);
}

#[test]
fn j20_a_held_sample_stays_as_it_was() {
    let replay = Replay::<Tag>::new(200).unwrap();
    let builder = tags(Script::all(9, Ending::Truncated)).rows(4).frames_per_batch(100);
    let mut collector = builder.replay(&replay).build().unwrap();
    collector.next_receipt().unwrap().unwrap();
    let mut sampler = replay.sampler().batch_size(64).build().unwrap();
    let first = sampler.sample().unwrap();
    let look = |sample: &gleaner::replay::Sample<Tag>| {
        format!(
            "{:?} {:?} {:?} {:?}",
            sample.observations(),
            sample.next_observations(),
            sample.ends(),
            sample.frames()
        )
    };
    let before = look(&first);
    for _ in 0..10 {
        collector.next_receipt().unwrap().unwrap();
        assert_ne!(look(&sampler.sample().unwrap()), before);
    }
    assert_eq!(look(&first), before);
    drop((collector, sampler, replay));
    assert_eq!(look(&first), before, "a sample outlives its buffer");
}
