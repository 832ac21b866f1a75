//! Ragged columns: lists go with their frames, and frames with their lists.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use gleaner::{
    components::WithRagged,
    replay::{
        Capacity, Replay, ReplayConfig, Sample, TopTrajectories,
        sampler::{Boundary, Mixture, Sequences, Short, Slices, Uniform},
    },
};
use proptest::{collection::vec, prelude::*};

use crate::{
    lists::{Length, check, extend},
    made::{Block, Made, Model, Source},
};

const LENGTHS: [Length; 3] = [|serial| serial * 7 % 5, |serial| u32::from(serial % 3 == 0) * 8, |_| 2];

fn buffer(capacity: u64, elements: Option<u64>) -> Replay<Made> {
    let config = ReplayConfig { capacity: Capacity::Frames(capacity), ragged_elements: elements, ..Default::default() };
    Replay::with_config(config).expect("a buffer")
}

/// Forgets frames of the model whose elements have no room.
fn forget(model: &mut Model, elements: u64, length: Length) {
    let all = |model: &Model| model.frames.iter().map(|frame| u64::from(length(frame.serial))).sum::<u64>();
    while all(model) > elements {
        model.frames.pop_front();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// I16 for lists: the newest frames are there as far as they and their elements have room, with what was written.
    #[test]
    fn i16_a_buffer_holds_the_newest_lists(
        capacity in 1..60_usize,
        elements in 8..90_u64,
        kind in 0..3_usize,
        rows in 1..5_usize,
        writes in vec((1..20_usize, any::<bool>(), any::<bool>()), 1..14),
        script in vec(0..=255_u8, 61),
    ) {
        let (replay, length) = (buffer(capacity as u64, Some(elements)), LENGTHS[kind]);
        let (mut model, mut source, mut at) = (Model::new(capacity), Source::new(rows, 1), 0);
        for (ticks, gaps, flat) in writes {
            let slots = source.ticks(ticks, 40, &mut || {
                at += 1;
                let byte = script[at % script.len()];
                if gaps && byte > 230 { 255 } else { byte.min(254) }
            });
            let rows = Some(rows).filter(|rows| !flat || *rows > 1);
            extend(&replay, &slots, rows, length).expect("room");
            model.extend(&slots, rows);
            forget(&mut model, elements, length);
            prop_assert_eq!(replay.frames(), model.tail()..model.written);
            let numbers: Vec<u64> = replay.frames().collect();
            if numbers.is_empty() {
                continue;
            }
            let sample = replay.read(&numbers).expect("frames that are there");
            let serials: Vec<i32> = model.frames.iter().map(|frame| frame.serial as i32).collect();
            prop_assert_eq!(sample.actions(), serials);
            check(&sample, length);
        }
    }
}

#[test]
fn samples_of_every_shape_have_their_lists() {
    let (replay, length) = (buffer(200, None), LENGTHS[0]);
    extend(&replay, &Source::new(3, 1).ticks(50, 30, &mut || 77), Some(3), length).expect("room");
    extend(&replay, &Source::new(1, 2).episodes(&[3, 9, 4]), None, length).expect("room");
    let sampler = || replay.sampler().batch_size(40);
    let mut sample = Sample::default();
    let mut draw = |sampler: gleaner::replay::SamplerBuilder<Made>| {
        sampler.build().expect("a sampler").sample_into(&mut sample).expect("frames");
        check(&sample, length);
    };
    draw(sampler());
    draw(sampler().n_step(3, 0.9));
    draw(sampler().sampling(Slices { short: Short::Pad, ..Slices::of(5) }));
    draw(sampler().sampling(Sequences { burn_in: 2, dilation: 2, ..Sequences::of(4) }));
    draw(sampler().sampling(Sequences { bootstrap: 2, boundary: Boundary::Reset, ..Sequences::of(9) }));
    let samplers = [1, 2].map(|seed| (replay.sampler().sampling(Uniform).seed(seed).build().expect("a sampler"), 1.0));
    let mut mixture = Mixture::weighted(samplers, 0).expect("a mixture");
    for _ in 0..3 {
        mixture.sample_into(20, &mut sample).expect("frames");
        check(&sample, length);
    }
    let ahead = sampler().build().expect("a sampler").prefetch(2).expect("a thread");
    ahead.take(3).for_each(|sample| check(&sample.expect("frames"), length));
    // The same memory for a buffer without them.
    let plain = Replay::<Made>::new(10).expect("a buffer");
    plain.extend(&Block::new(&Source::new(1, 0).episodes(&[3]), None)).expect("room");
    plain.sampler().batch_size(2).build().expect("a sampler").sample_into(&mut sample).expect("frames");
    assert_eq!(sample.ragged_columns().count(), 0);
}

/// J13 for lists: a ring of elements so small that they are overwritten all the time.
#[test]
fn j13_lists_are_never_torn() {
    let length: Length = |serial| serial % 7;
    let replay = buffer(50, Some(90));
    extend(&replay, &Source::new(1, 0).episodes(&[3]), None, length).expect("room");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for worker in 1..3 {
            let (replay, done) = (&replay, &done);
            scope.spawn(move || {
                let mut source = Source::new(2, worker);
                // Miri takes its time for each of them.
                let most = if cfg!(miri) { 6 } else { u32::MAX };
                for _ in (0..most).take_while(|_| !done.load(Relaxed)) {
                    extend(replay, &source.ticks(3, 60, &mut || 100), Some(2), length).expect("room");
                }
            });
        }
        let samplers = [0, 1].map(|seed| {
            let replay = &replay;
            scope.spawn(move || {
                let mut sampler = replay.sampler().batch_size(20).seed(seed).build().expect("a sampler");
                let mut sample = Sample::default();
                let (least, mut drawn) = (if cfg!(miri) { 3 } else { 5_000 }, 0);
                while drawn < least || replay.write_count() < 60 {
                    drawn += 1;
                    sampler.sample_into(&mut sample).expect("frames");
                    check(&sample, length);
                }
            })
        });
        let failed = samplers.into_iter().filter_map(|sampler| sampler.join().err()).next();
        done.store(true, Relaxed);
        if let Some(payload) = failed {
            std::panic::resume_unwind(payload);
        }
    });
}

#[test]
fn the_best_trajectories_keep_their_lists() {
    let slots = Source::new(1, 1).episodes(&[2, 5, 3]);
    let (tokens, offsets): (Vec<i32>, Vec<u64>) = ((0..30).collect(), (0..=10).map(|i| i * 3).collect());
    let block = Block::new(&slots, None);
    let block = WithRagged::new(&block).column("tokens", &offsets, &tokens).expect("legal");
    let mut best = TopTrajectories::<Made>::new(1).expect("one");
    best.extend(&block).expect("the first block");
    let replay = best.replay().expect("one");
    let sample = replay.read(&[0, 1, 2]).expect("the last episode has the highest serials");
    let kept = sample.ragged::<i32>("tokens").expect("kept");
    for i in 0..3 {
        let serial = sample.actions()[i];
        assert_eq!(kept.get(i), [serial * 3, serial * 3 + 1, serial * 3 + 2]);
    }
    assert!(best.extend(&Block::new(&slots, None)).is_err(), "without the column");
}

#[test]
fn wrong_lists_are_named() {
    let replay = buffer(10, Some(9));
    let slots = Source::new(1, 1).episodes(&[3]);
    let error = extend(&replay, &slots, None, |_| 10).expect_err("too long").to_string();
    assert!(error.contains("10 elements of \"tokens\"") && error.contains("ragged_elements, 9"), "{error}");
    assert!(replay.is_empty());
    extend(&replay, &slots, None, |_| 9).expect("room for one of them");
    assert_eq!(replay.frames(), 2..3);
    let block = Block::new(&slots, None);
    let error = replay.extend(&block).expect_err("without lists").to_string();
    assert_eq!(error, "ragged columns is none; legal: those of the first write: tokens of i32, mask of u8");
    let wrong = |offsets: &[u64], name: &'static str| {
        WithRagged::new(&block).column(name, offsets, &[1_i32, 2, 3]).map(drop).expect_err("wrong").to_string()
    };
    for offsets in [&[0, 1, 2][..], &[0, 2, 1, 3], &[0, 1, 2, 4]] {
        assert!(wrong(offsets, "tokens").starts_with("offsets is"));
    }
    assert!(wrong(&[0, 1, 2, 3], "reward").starts_with("ragged is reward"));
    let sample = replay.read(&[2]).expect("there");
    assert!(sample.ragged::<i32>("token").map(drop).expect_err("unknown").to_string().contains("tokens, mask"));
    assert!(sample.ragged::<u8>("tokens").is_err());
    // Bytes: a frame's, the list of 16 bytes, and 64 elements.
    let config = ReplayConfig { capacity: Capacity::Bytes(42_000), ..ReplayConfig::default() };
    let bytes = Replay::<Made>::with_config(config).expect("a buffer");
    extend(&bytes, &slots, None, |_| 2).expect("room");
    let slots = 42_000 / (8 + 4 + 4 + 1 + 4 + 8 + 1 + 8 + 4 + 2 * 16 + 64 * 5);
    assert_eq!(bytes.stats().capacity, slots - slots / 16);
    // Beside them there is the index.
    assert!(bytes.stats().memory < 43_000, "{}", bytes.stats().memory);
}
