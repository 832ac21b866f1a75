//! Saves while writers write.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use gleaner::replay::{Replay, Sampler, sampler::Prioritized};

use crate::made::{Block, Made, Source};

const CAPACITY: u64 = 20_000;

/// Ends the writers, also when a check fails.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Frames are whole, every seventh is looked at, and every trajectory is as long as it should be.
pub fn check(replay: &Replay<Made>) {
    let numbers: Vec<u64> = replay.frames().step_by(7).collect();
    let sample = replay.read(&numbers).expect("frames that are there");
    for i in 0..numbers.len() {
        let (observation, serial) = (sample.observations()[i], sample.actions()[i]);
        assert_eq!((sample.rewards()[i], sample.versions()[i]), (serial as f32, u64::from(!(serial as u32))));
        assert_eq!(observation, [sample.trajectory_ids()[i].0 as i32, sample.steps()[i].0 as i32]);
        assert_eq!(&sample.next_observations()[i], &[observation[0], observation[1] + 1]);
    }
    let frames: u64 = replay.trajectories().iter().map(|stored| u64::from(stored.frames)).sum();
    assert_eq!(frames, replay.len());
}

fn prioritized(replay: &Replay<Made>) -> Sampler<Made> {
    replay.sampler().sampling(Prioritized::default()).batch_size(64).build().expect("a sampler")
}

/// Draws, and gives what was drawn priorities.
fn draw(sampler: &mut Sampler<Made>) {
    let sample = sampler.sample().expect("frames");
    let priorities: Vec<f32> = sample.frames().iter().map(|frame| (frame % 9) as f32).collect();
    sampler.update_priorities(sample.frames(), &priorities).expect("legal");
}

/// G10: 200 saves, or as many as it takes for 100 moments, while two writers and two samplers are at full speed. Each
/// load passes the check of the loader, that the index has exactly the frames of the cursor and the tree their
/// priorities, of which it makes the sums anew, and ours, that the columns are those frames.
#[test]
fn g10_a_save_is_of_one_moment() {
    let replay = Replay::<Made>::new(CAPACITY).expect("a buffer");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for worker in 1..3 {
            let (replay, stop) = (&replay, &stop);
            scope.spawn(move || {
                let (mut source, mut byte) = (Source::new(8, worker), 0_u8);
                while !stop.load(Relaxed) {
                    let slots = source.ticks(16, 20, &mut || {
                        byte = byte.wrapping_mul(5).wrapping_add(113);
                        byte.min(254)
                    });
                    replay.extend(&Block::new(&slots, Some(8))).expect("room");
                }
            });
        }
        while replay.is_empty() {
            std::thread::yield_now();
        }
        let mut prioritized = prioritized(&replay);
        let mut ahead = replay.sampler().batch_size(64).build().expect("a sampler").prefetch(2).expect("a thread");
        let (mut file, mut heads, mut saves) = (Vec::new(), Vec::new(), 0);
        let deadline = Instant::now() + Duration::from_secs(60);
        while saves < 200 || heads.len() <= 100 && Instant::now() < deadline {
            saves += 1;
            ahead.next().expect("endless").expect("frames");
            draw(&mut prioritized);
            file.clear();
            replay.save_to(&mut file, &[&ahead, &prioritized]).expect("memory");
            let loaded = Replay::<Made>::new(CAPACITY).expect("a buffer");
            let sampler = loaded.sampler().batch_size(64).build().expect("a sampler");
            let mut sampler = sampler.prefetch(2).expect("a thread");
            let mut priorities = self::prioritized(&loaded);
            loaded.load_from(&mut file.as_slice(), &mut [&mut sampler, &mut priorities]).expect("a whole file");
            check(&loaded);
            sampler.next().expect("endless").expect("frames");
            draw(&mut priorities);
            heads.push(loaded.write_count());
            assert!(heads.is_sorted());
            heads.dedup();
        }
        assert!(heads.len() > 100, "the writers wrote meanwhile: {} moments", heads.len());
    });
}
