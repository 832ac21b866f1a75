//! Writers and samplers at the same time: nothing torn, stale or half-written is ever seen.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use gleaner::replay::{
    Capacity, Replay, ReplayConfig, Sample, Sampler, Storage,
    sampler::{Prioritized, Short, Slices},
};

use crate::made::{Block, Made, Source};

/// Writes ticks and whole episodes until told to stop.
fn write(replay: &Replay<Made>, worker: u64, stop: &AtomicBool) {
    let (mut rows, mut episodes) = (Source::new(5, worker), Source::new(1, worker + 100));
    let mut noise = worker as u32;
    let mut byte = || {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (noise >> 24).min(254) as u8
    };
    while !stop.load(Relaxed) {
        replay.extend(&Block::new(&rows.ticks(3, 20, &mut byte), Some(5))).expect("room");
        replay.extend(&Block::new(&episodes.episodes(&[7, 2]), None)).expect("room");
    }
}

/// Every column of a frame says the same, and what followed it is what did.
fn check(sample: &Sample<Made>) {
    for i in 0..sample.len() {
        let serial = sample.actions()[i];
        assert_eq!(sample.rewards()[i], serial as f32);
        assert_eq!(sample.versions()[i], u64::from(!(serial as u32)));
        let (id, step) = (sample.trajectory_ids()[i].0 as i32, sample.steps()[i].0 as i32);
        assert_eq!(sample.observations()[i], [id, step]);
        assert_eq!(sample.next_observation(i), &[id, step + 1]);
    }
}

/// One of four ways to draw.
fn sampler(replay: &Replay<Made>, seed: u64) -> Sampler<Made> {
    let builder = replay.sampler().batch_size(40).seed(seed);
    let builder = match seed {
        0 => builder,
        1 => builder.n_step(1, 0.9),
        2 => builder.sampling(Slices { short: Short::Whole, ..Slices::of(3) }),
        _ => builder.sampling(Prioritized::default()),
    };
    builder.build().expect("a sampler")
}

/// J13: four writers, four samplers, a ring so small that every frame is overwritten many times a second. For two seconds,
/// or as many as `GLEANER_STRESS_SECONDS` says; longer where they are not enough to see much.
#[test]
fn j13_writers_and_samplers_at_once() {
    for storage in
        [Storage::Memory, Storage::File(std::env::temp_dir().join(format!("gleaner-j13-{}", std::process::id())))]
    {
        let config = ReplayConfig { capacity: Capacity::Frames(97), storage, ..ReplayConfig::default() };
        stress(&Replay::with_config(config).expect("a buffer"));
    }
}

fn stress(replay: &Replay<Made>) {
    replay.extend(&Block::new(&Source::new(1, 0).episodes(&[3]), None)).expect("room");
    let (stop, sampled) = (AtomicBool::new(false), AtomicU64::new(0));
    let seconds = std::env::var("GLEANER_STRESS_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(2));
    let enough = || replay.write_count() > 97 * 10 && sampled.load(Relaxed) > 1_000;
    let goes_on = || Instant::now() < end || !enough() && Instant::now() < end + Duration::from_secs(60);
    thread::scope(|scope| {
        for worker in 1..=4 {
            let stop = &stop;
            scope.spawn(move || write(replay, worker, stop));
        }
        let samplers = (0..4_u64).map(|seed| {
            let (sampled, goes_on) = (&sampled, &goes_on);
            scope.spawn(move || {
                let mut sampler = sampler(replay, seed);
                let mut sample = Sample::default();
                while goes_on() {
                    sampler.sample_into(&mut sample).expect("frames");
                    check(&sample);
                    if seed == 3 {
                        sampler.update_priorities(sample.frames(), sample.rewards()).expect("numbers");
                    }
                    sampled.fetch_add(sample.len() as u64, Relaxed);
                }
            })
        });
        // Stops the writers also when a sampler has failed.
        let failed = samplers.collect::<Vec<_>>().into_iter().filter_map(|sampler| sampler.join().err()).next();
        stop.store(true, Relaxed);
        if let Some(payload) = failed {
            std::panic::resume_unwind(payload);
        }
    });
    assert!(enough(), "{} frames written, {sampled:?} drawn", replay.write_count());
    assert_eq!(replay.len(), 97);
}
