//! G12, O-15: what is drawn at random goes on where it was, in environments, policies and samplers.

use std::collections::HashSet;

use gleaner::{
    prelude::*,
    replay::{Replay, Sampler},
};

use super::{Acts, acting, saved, script};
use crate::support::{Tag, tags};

/// G12: 40 frames of each row, saved and loaded, and 60 more are 100 in one go: by the streams of environments, actions,
/// noise and warm-up, inline and over workers.
#[test]
fn g12_every_stream_of_random_numbers_goes_on() {
    for workers in [0, 2] {
        let new = |acts| {
            let builder = tags(script()).rows(4).frames_per_batch(4 * 10).total_frames(4 * 100).seed(6);
            // The warm-up ends behind the save.
            let builder = builder.init_random_frames(4 * 47 + 1).workers(workers);
            acting(builder, acts, 4).build().unwrap()
        };
        for acts in [Acts::Random, Acts::Linear, Acts::Noisy] {
            let frames = |collector: &mut Collector<Tag>, batches: usize| -> Vec<_> {
                let batches = collector.take(batches).map(Result::unwrap);
                let bits = |batch: Batch<Tag>| {
                    let drawn = batch.observations().iter().map(|seen| seen.noise).zip(batch.actions());
                    drawn.map(|(noise, action)| (noise.to_bits(), action.to_bits())).collect::<Vec<_>>()
                };
                batches.flat_map(bits).collect()
            };
            let straight = frames(&mut new(acts), 10);
            let mut first = new(acts);
            let mut frames_of_both = frames(&mut first, 4);
            let mut second = new(acts);
            second.load_from(&mut &saved(&first)[..]).unwrap();
            frames_of_both.extend(frames(&mut second, 6));
            assert_eq!(straight.len(), 400);
            assert_eq!(frames_of_both, straight, "{acts:?}, {workers} workers");
            let drawn: HashSet<_> = straight[160..].iter().collect();
            assert!(drawn.len() > 150, "{acts:?}: nothing is drawn behind the save");
        }
    }
}

/// O-15: counters, versions and ids go on, and a sampler draws what it would have drawn.
#[test]
fn o15_counters_versions_ids_and_draws_go_on() {
    let new = |replay: &Replay<Tag>| {
        let builder = tags(script()).rows(4).frames_per_batch(4 * 10).replay(replay).seed(6);
        acting(builder, Acts::Linear, 4).total_frames(4 * 100).build().unwrap()
    };
    let sampler = |replay: &Replay<Tag>| replay.sampler().batch_size(16).seed(2).build().unwrap();
    // A turn: a write, a draw, a publication.
    let turn = |collector: &mut Collector<Tag>, sampler: &mut Sampler<Tag>| {
        let receipt = collector.next_receipt().unwrap().unwrap();
        let sample = sampler.sample().unwrap();
        let version = collector.weights().unwrap().increment_version().unwrap();
        let drawn = (sample.frames(), sample.trajectory_ids(), sample.versions(), sample.steps());
        format!("{receipt:?} {drawn:?} {version} {:?}", collector.stats())
    };
    let replay = Replay::new(300).unwrap();
    let (mut collector, mut draws) = (new(&replay), sampler(&replay));
    let straight: Vec<_> = (0..10).map(|_| turn(&mut collector, &mut draws)).collect();
    for k in 1..10 {
        let (replay, mut files) = (Replay::new(300).unwrap(), (Vec::new(), Vec::new()));
        let (mut collector, mut draws) = (new(&replay), sampler(&replay));
        let mut log: Vec<_> = (0..k).map(|_| turn(&mut collector, &mut draws)).collect();
        collector.save_to(&mut files.0).unwrap();
        replay.save_to(&mut files.1, &[&draws]).unwrap();
        let replay = Replay::new(300).unwrap();
        let (mut collector, mut draws) = (new(&replay), sampler(&replay));
        replay.load_from(&mut &files.1[..], &mut [&mut draws]).unwrap();
        collector.load_from(&mut &files.0[..]).unwrap();
        let stats = collector.stats();
        assert_eq!((stats.stepped_frames, stats.batches), (40 * k as u64, k as u64));
        assert_eq!(collector.weights().unwrap().version(), k as u64);
        log.extend((k..10).map(|_| turn(&mut collector, &mut draws)));
        assert_eq!(log, straight, "saved after {k}");
    }
}
