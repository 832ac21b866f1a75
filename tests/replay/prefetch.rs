//! Samples that are prepared ahead are those that would be drawn.

use std::path::PathBuf;

use gleaner::replay::{Replay, ReplayConfig, Sampler, Storage, sampler::Consuming};

use crate::made::{Block, Made, Source};

fn filled() -> Replay<Made> {
    let replay = Replay::<Made>::new(100).expect("a buffer");
    replay.extend(&Block::new(&Source::new(1, 0).ticks(80, 0, &mut || 9), None)).expect("room");
    replay
}

fn sampler(replay: &Replay<Made>) -> Sampler<Made> {
    replay.sampler().batch_size(7).seed(3).build().expect("a sampler")
}

#[test]
fn rb_10_samples_ahead_are_the_same_samples() {
    let replay = filled();
    let plain = sampler(&replay).take(50).map(|sample| sample.expect("frames").frames().to_vec());
    let ahead = sampler(&replay).prefetch(4).expect("a thread");
    let ahead = ahead.take(50).map(|sample| sample.expect("frames").frames().to_vec());
    assert!(plain.eq(ahead));
}

#[test]
fn rb_10_no_more_than_asked_for_are_prepared() {
    let replay = filled();
    let mut ahead = sampler(&replay).prefetch(3).expect("a thread");
    for _ in 0..20 {
        while ahead.ready() < 3 {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert_eq!(ahead.ready(), 3);
        ahead.next();
    }
}

#[test]
fn rb_10_errors_reach_the_caller_and_pass() {
    let replay = Replay::<Made>::new(100).expect("a buffer");
    let mut ahead = sampler(&replay).prefetch(2).expect("a thread");
    for _ in 0..3 {
        let error = ahead.next().expect("not the end").expect_err("no frame");
        assert_eq!(error.to_string(), "sample: the replay buffer holds no frame");
    }
    replay.extend(&Block::new(&Source::new(1, 0).ticks(80, 0, &mut || 9), None)).expect("room");
    // One may have been prepared before.
    let drawn = ahead.by_ref().take(2).filter(Result::is_ok).count();
    assert!(drawn >= 1);
    assert!(ahead.update_priorities(&[1], &[1.0]).expect_err("uniform").to_string().contains("no priorities"));
}

#[test]
fn rb_10_what_cannot_be_prefetched_is_an_error() {
    let replay = filled();
    let error = replay.sampler().build().expect("a sampler").prefetch(2).expect_err("no size").to_string();
    assert!(error.starts_with("prefetch and batch_size"), "{error}");
    assert!(sampler(&replay).prefetch(0).is_err());
    let consuming = replay.sampler().sampling(Consuming { uses: 2 }).batch_size(3).build().expect("a sampler");
    let error = consuming.prefetch(2).expect_err("frames would be lost").to_string();
    assert!(error.starts_with("prefetch and sampling"), "{error}");
}

/// The thread holds the buffer, whose file goes with its last holder.
#[test]
fn rb_10_dropping_it_ends_the_thread() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("prefetch-{}", std::process::id()));
    let config = ReplayConfig {
        storage: Storage::File(path.clone()),
        capacity: gleaner::replay::Capacity::Frames(9),
        ..ReplayConfig::default()
    };
    let replay = Replay::<Made>::with_config(config).expect("a buffer");
    replay.extend(&Block::new(&Source::new(1, 0).ticks(8, 0, &mut || 9), None)).expect("room");
    let mut ahead = sampler(&replay).prefetch(2).expect("a thread");
    drop(replay);
    assert!(ahead.next().expect("endless").is_ok() && path.exists());
    drop(ahead);
    assert!(!path.exists());
}
