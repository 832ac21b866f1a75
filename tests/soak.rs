//! A minute of everything at once: a million episodes, a thousand faults, pauses, publishes and saves. Then the ledger
//! closes, and threads, files and memory are what they were.

#![cfg(target_os = "linux")]

mod process;

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use bevy_ecs::prelude::Component;
use gleaner::{env::Transition, policy::plan::Activation, prelude::*};
use process::{held, holds_no_more_than};

const MINUTE: Duration = Duration::from_secs(60);
const EPISODES: u64 = 1_000_000;

/// Faults that environments made.
static FAULTS: AtomicU64 = AtomicU64::new(0);

/// Episodes of one to eight frames. Now and then an observation is not a number, more rarely it panics.
#[derive(Component, Clone, Copy, Default)]
struct Moody {
    left: u32,
}

impl Task for Moody {
    type Observation = [f32; 2];
    type Action = i32;
    type Mask = ();
    fn observation_space() -> Space {
        Space::unbounded(2)
    }
    fn action_space() -> Space {
        Space::discrete(2)
    }
}

impl Env for Moody {
    type Options = ();
    fn reset(&mut self, _: &(), stream: &mut Stream) -> [f32; 2] {
        self.left = 1 + stream.below(8);
        [self.left as f32, 0.0]
    }
    fn step(&mut self, action: &i32, stream: &mut Stream) -> Transition<[f32; 2]> {
        self.left -= 1;
        let mood = stream.below(1 << 16);
        FAULTS.fetch_add(u64::from(mood < 32), Relaxed);
        assert!(mood > 0, "a bad day");
        let seen = if mood < 32 { f32::NAN } else { self.left as f32 };
        Transition { observation: [seen, *action as f32], reward: 1.0, terminated: self.left == 0, truncated: false }
    }
}

/// Resident bytes.
fn memory() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("a process has memory");
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}

/// What the run was asked for, so that the test says what it did.
#[derive(Debug, Default)]
struct Done {
    pauses: u32,
    publishes: u64,
    saves: u32,
}

fn soak(delivery: Delivery, until: impl Fn(&Stats) -> bool) -> (Stats, Done) {
    let mut network = NetworkSpec::mlp(&[8], Activation::Relu);
    network.critic = None;
    let replay = Replay::<Moody>::new(10_000).expect("a buffer");
    let builder = Collector::<Moody>::builder().rows(64).workers(2).delivery(delivery).frames_per_batch(64 * 16);
    let builder = builder.policy(Policy::network(network).backend(Backend::Cpu)).replay(&replay);
    let builder = builder.on_worker_fault(OnWorkerFault::Restart { most: u32::MAX });
    let mut running = builder.build().expect("legal options").start().expect("a thread");
    let weights = running.weights().expect("a network");
    let (set, over) = (weights.latest().1, AtomicBool::new(false));
    let file = std::env::temp_dir().join(format!("gleaner-soak-{}", std::process::id()));
    let mut done = Done::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                weights.publish_copy(&set).expect("the network's own tensors");
                thread::sleep(Duration::from_millis(10));
            }
        });
        loop {
            thread::sleep(Duration::from_millis(200));
            running.check().expect("it goes on");
            {
                let _paused = running.pause(MINUTE).expect("it pauses");
                let written = replay.write_count();
                replay.save(&file, &[]).expect("it is saved");
                assert_eq!(replay.write_count(), written);
            }
            done.pauses += 1;
            done.saves += 1;
            if until(&running.stats()) && weights.version() > 10 {
                break;
            }
        }
        over.store(true, Relaxed);
    });
    std::fs::remove_file(file).expect("it is there");
    done.publishes = weights.version();
    let mut collector = running.shutdown(MINUTE).expect("no error");
    collector.shutdown();
    (collector.stats(), done)
}

#[test]
fn i12_a_minute_of_everything() {
    // What is made once: the panic hook's buffers, the memory of two runs.
    std::panic::set_hook(Box::new(|_| {}));
    for delivery in [Delivery::Sync, Delivery::Async] {
        soak(delivery, |stats| stats.completed_trajectories > 20_000);
    }
    let (before, resident) = (held(), memory());
    let (begin, mut episodes) = (Instant::now(), 0);
    FAULTS.store(0, Relaxed);
    let mut runs = 0;
    while runs < 2 || begin.elapsed() < MINUTE || episodes < EPISODES || FAULTS.load(Relaxed) < 1_000 {
        assert!(begin.elapsed() < 10 * MINUTE, "{episodes} episodes, {FAULTS:?}");
        let delivery = if runs % 2 == 0 { Delivery::Sync } else { Delivery::Async };
        let (stats, done) = soak(delivery, |stats| stats.completed_trajectories > EPISODES / 4);
        println!("{delivery:?}: {done:?}, {stats:?}");
        let fates = stats.frames + stats.discarded.total();
        assert_eq!((fates, stats.in_flight_frames), (stats.stepped_frames, 0), "{stats:?}");
        assert!(done.publishes > 10 && done.pauses > 0);
        episodes += stats.completed_trajectories;
        assert!(stats.discarded.fault > 0);
        runs += 1;
    }
    holds_no_more_than(before);
    assert!(memory() < resident + (32 << 20), "{} bytes more", memory() - resident);
}
