//! The limiter keeps both sides in step, and neither waits for ever.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use gleaner::{
    prelude::*,
    replay::{
        Capacity, Limiter, Sample,
        sampler::{Prioritized, Short, Slices},
    },
};

use crate::made::{Block, Made, Source};

fn limited(capacity: u64, limiter: Limiter, deadline: Duration) -> Result<Replay<Made>, Error> {
    let plain = Replay::<Made>::new(capacity)?.config().clone();
    Replay::with_config(ReplayConfig { deadline, limiter: Some(limiter), ..plain })
}

fn block(source: &mut Source, frames: usize) -> Block {
    Block::new(&source.ticks(frames, 20, &mut || 33), Some(1))
}

/// K7: writers ten times faster than the learner. What was written and is not drawn for stays within the stated bound at
/// every moment, and nobody waits for ever, also with a bound of one frame.
#[test]
fn k7_writers_do_not_outrun_the_learner() {
    for (ratio, min_size, buffer, block_size, draw) in
        [(1.0, 1, 1.0, 1, 1), (1.0, 1, 1.0, 5, 3), (0.25, 8, 1.0, 4, 1), (4.0, 16, 8.0, 8, 16), (2.5, 1, 2.5, 1, 7)]
    {
        let limiter = Limiter { samples_per_insert: ratio, min_size, error_buffer: buffer };
        let replay = limited(64, limiter, Duration::from_secs(20)).unwrap();
        let (done, drawn) = (AtomicBool::new(false), AtomicU64::new(0));
        // Two writers: each block may go beyond the bound by itself, and the second waits for the first's to count.
        let bound = min_size as f64 + buffer / ratio + block_size as f64;
        thread::scope(|scope| {
            let write = |worker| {
                let (replay, done) = (replay.clone(), &done);
                scope.spawn(move || {
                    let mut source = Source::new(1, worker);
                    while !done.load(Relaxed) {
                        replay.extend(&block(&mut source, block_size)).unwrap();
                    }
                })
            };
            let writers = [1, 2].map(write);
            let mut sampler = replay.sampler().build().unwrap();
            let mut sample = Sample::default();
            for turn in 0..60 {
                sampler.sample_n(draw, &mut sample).unwrap();
                let before = drawn.fetch_add(sample.len() as u64, Relaxed) + sample.len() as u64;
                if turn % 3 == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
                let ahead = replay.write_count() as f64 - before as f64 / ratio;
                assert!(ahead <= bound, "{limiter:?}: {ahead} frames ahead of {bound}");
            }
            done.store(true, Relaxed);
            // Into an empty buffer a writer may always write.
            while !writers.iter().all(|writer| writer.is_finished()) {
                replay.empty(true).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let stats = replay.stats().limiter.unwrap();
        assert_eq!(stats.inserts, replay.write_count());
        assert_eq!(stats.samples, drawn.load(Relaxed));
        assert!(stats.write_waits > 0 && stats.timeouts == 0, "{stats:?}");
    }
}

#[test]
fn a_learner_does_not_outrun_the_writers() {
    let limiter = Limiter { samples_per_insert: 2.0, min_size: 10, error_buffer: 4.0 };
    let replay = limited(100, limiter, Duration::from_millis(30)).unwrap();
    let mut source = Source::new(1, 0);
    let mut sampler = replay.sampler().batch_size(1).build().unwrap();
    let timeout = |result: Result<Sample<Made>, Error>| {
        let error = result.expect_err("nothing to draw");
        assert!(matches!(error, Error::Timeout { .. }) && error.to_string().contains("limiter"), "{error}");
    };
    timeout(sampler.sample());
    replay.extend(&block(&mut source, 9)).unwrap();
    timeout(sampler.sample());
    replay.extend(&block(&mut source, 1)).unwrap();
    // Ten frames at two draws each are the middle: four more than that may be drawn.
    for _ in 0..4 {
        sampler.sample().unwrap();
    }
    timeout(sampler.sample());
    replay.extend(&block(&mut source, 1)).unwrap();
    for _ in 0..2 {
        sampler.sample().unwrap();
    }
    timeout(sampler.sample());
    let stats = replay.stats().limiter.unwrap();
    assert_eq!((stats.inserts, stats.samples, stats.draw_waits, stats.timeouts), (11, 6, 4, 4));
}

#[test]
fn a_writer_is_let_in_when_the_learner_draws() {
    let limiter = Limiter { samples_per_insert: 1.0, min_size: 2, error_buffer: 1.0 };
    let replay = limited(10, limiter, Duration::from_millis(30)).unwrap();
    let mut source = Source::new(1, 0);
    for _ in 0..3 {
        replay.extend(&block(&mut source, 1)).unwrap();
    }
    let error = replay.extend(&block(&mut source, 1)).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert_eq!(replay.write_count(), 3);
    replay.sampler().batch_size(1).build().unwrap().sample().unwrap();
    // The refused frame is gone: what a writer does then is its own affair.
    replay.extend(&block(&mut Source::new(1, 1), 1)).unwrap();
    assert_eq!(replay.stats().limiter.unwrap().inserts, 4);
}

/// A thread that prepares samples waits for the limiter by itself: the learner, who writes as well, does not wait for it.
#[test]
fn a_learner_that_prefetches_goes_on_while_the_limiter_waits() {
    let limiter = Limiter { samples_per_insert: 1.0, min_size: 2, error_buffer: 4.0 };
    let replay = limited(100, limiter, Duration::from_secs(600)).unwrap();
    let mut source = Source::new(1, 0);
    replay.extend(&block(&mut source, 4)).unwrap();
    let sampler = replay.sampler().sampling(Prioritized::default()).batch_size(2).build().unwrap();
    let begin = Instant::now();
    let mut ahead = sampler.prefetch(8).unwrap();
    for _ in 0..5 {
        let sample = ahead.next().unwrap().unwrap();
        // By now the thread may draw no more.
        while replay.stats().limiter.unwrap().draw_waits == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        ahead.update_priorities(sample.frames(), &[1.0; 2]).unwrap();
        ahead.with_sampler(|sampler| sampler.mark_update(&[0])).unwrap();
        let mut file = Vec::new();
        replay.save_to(&mut file, &[&ahead]).unwrap();
        replay.extend(&block(&mut source, 2)).unwrap();
    }
    // Nor does who drops it.
    drop(ahead);
    assert!(begin.elapsed() < Duration::from_secs(300));
    let stats = replay.stats().limiter.unwrap();
    assert_eq!((stats.inserts, stats.timeouts), (14, 0));
}

#[test]
fn slots_without_a_frame_are_not_drawn() {
    let limiter = Limiter { samples_per_insert: 4.0, min_size: 1, error_buffer: 100.0 };
    let replay = limited(100, limiter, Duration::from_secs(20)).unwrap();
    replay.extend(&Block::new(&Source::new(1, 0).episodes(&[2, 2]), None)).unwrap();
    let padded = Slices { short: Short::Pad, ..Slices::of(5) };
    let sample = replay.sampler().sampling(padded).batch_size(3).build().unwrap().sample().unwrap();
    assert_eq!((sample.len(), replay.stats().limiter.unwrap().samples), (15, 6));
}

/// A buffer with a limiter takes over one that was saved without: as if all was drawn for that is there.
#[test]
fn a_limiter_goes_on_from_a_file_without_one() {
    let plain = Replay::<Made>::new(100).unwrap();
    plain.extend(&block(&mut Source::new(1, 0), 50)).unwrap();
    let mut file = Vec::new();
    plain.save_to(&mut file, &[]).unwrap();
    let limiter = Limiter { samples_per_insert: 2.0, min_size: 10, error_buffer: 4.0 };
    let replay = limited(100, limiter, Duration::from_millis(30)).unwrap();
    replay.load_from(&mut file.as_slice(), &mut []).unwrap();
    let mut sampler = replay.sampler().batch_size(1).build().unwrap();
    (0..4).for_each(|_| drop(sampler.sample().unwrap()));
    assert!(matches!(sampler.sample(), Err(Error::Timeout { .. })));
    replay.extend(&block(&mut Source::new(1, 1), 1)).unwrap();
    sampler.sample().unwrap();
}

#[test]
fn a_write_that_fails_is_not_counted() {
    let limiter = Limiter { samples_per_insert: 1.0, min_size: 1, error_buffer: 1.0 };
    let replay = limited(10, limiter, Duration::from_millis(30)).unwrap();
    replay.extend(&block(&mut Source::new(1, 0), 1)).unwrap();
    let mut collector = Collector::<CartPole>::builder().frames_per_batch(1).build().unwrap();
    let other = collector.next().unwrap().unwrap();
    for _ in 0..3 {
        let error = replay.extend(&other).unwrap_err();
        assert!(error.to_string().contains("columns"), "{error}");
    }
    replay.extend(&block(&mut Source::new(1, 1), 1)).unwrap();
    assert_eq!(replay.stats().limiter.unwrap().inserts, 2);
}

#[test]
fn illegal_limits_are_named() {
    let legal = Limiter { samples_per_insert: 2.0, min_size: 10, error_buffer: 4.0 };
    let wrong = [
        (Limiter { samples_per_insert: 0.0, ..legal }, "limiter.samples_per_insert is 0"),
        (Limiter { samples_per_insert: f64::NAN, ..legal }, "limiter.samples_per_insert is NaN"),
        (Limiter { min_size: 0, ..legal }, "limiter.min_size is 0; legal: 1 to the capacity, 20"),
        (Limiter { min_size: 21, ..legal }, "limiter.min_size is 21; legal: 1 to the capacity, 20"),
        (Limiter { error_buffer: 1.5, ..legal }, "limiter.error_buffer is 1.5; legal: a finite number from 2"),
    ];
    for (limiter, wanted) in wrong {
        let error = limited(20, limiter, Duration::from_secs(1)).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    // A capacity in bytes is known in frames with the first write.
    let config = ReplayConfig { capacity: Capacity::Bytes(400), limiter: Some(legal), ..ReplayConfig::default() };
    let error = Replay::<Made>::with_config(config).unwrap().extend(&block(&mut Source::new(1, 0), 1)).unwrap_err();
    assert!(error.to_string().contains("limiter.min_size is 10; legal: 1 to the capacity, 8"), "{error}");
}
