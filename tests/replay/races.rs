//! The stress test in small: few enough steps for Miri, which finds data races and touches of memory that is not there.
//!
//! ```text
//! MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --no-default-features --test replay races
//! ```

use std::thread;

use gleaner::replay::{Replay, Sample, sampler::Slices};

use crate::made::{Block, Made, Source};

const CAPACITY: u64 = 20;

fn filled() -> Replay<Made> {
    let replay = Replay::new(CAPACITY).expect("a buffer");
    replay.extend(&Block::new(&Source::new(1, 0).episodes(&[8, 12]), None)).expect("room");
    replay
}

/// Writes one block that is copied as it lies and one that is copied row by row.
fn write(replay: &Replay<Made>, worker: u64) {
    let mut rows = Source::new(2, worker);
    for _ in 0..3 {
        replay.extend(&Block::new(&rows.ticks(3, 0, &mut || 1), Some(2))).expect("room");
        let mut gap = [1, 255, 1, 1].into_iter().cycle();
        replay.extend(&Block::new(&rows.ticks(4, 0, &mut || gap.next().expect("more")), Some(2))).expect("room");
    }
}

fn check(sample: &Sample<Made>) {
    for i in 0..sample.len() {
        let serial = sample.actions()[i];
        assert_eq!(sample.versions()[i], u64::from(!(serial as u32)));
        let (id, step) = (sample.trajectory_ids()[i].0 as i32, sample.steps()[i].0 as i32);
        assert_eq!((sample.observations()[i], sample.next_observation(i)), ([id, step], &[id, step + 1]));
    }
}

#[test]
fn j13_two_writers_two_samplers_and_an_editor() {
    let replay = filled();
    let edited = thread::scope(|scope| {
        (1..3).for_each(|worker| {
            let replay = &replay;
            scope.spawn(move || write(replay, worker));
        });
        scope.spawn(|| {
            let mut sampler = replay.sampler().batch_size(8).n_step(1, 0.9).build().expect("a sampler");
            (0..4).for_each(|_| check(&sampler.sample().expect("frames")));
        });
        scope.spawn(|| {
            let mut sampler = replay.sampler().batch_size(8).sampling(Slices::of(2)).build().expect("a sampler");
            (0..4).for_each(|_| check(&sampler.sample().expect("frames")));
        });
        let newest = |replay: &Replay<Made>| replay.set("reward", &[replay.frames().end - 1], &[-1.0_f32]).is_ok();
        (0..4).filter(|_| newest(&replay)).count()
    });
    assert!(edited > 0, "a frame that is there");
    assert_eq!((replay.len(), replay.write_count()), (CAPACITY, 20 + 2 * 3 * (6 + 6)));
}
