//! Collecting in the background: started, paused, watched and ended from outside, whatever steps the rows.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
    time::{Duration, Instant},
};

use crate::support::{
    Call, Fault, Faulty, Kind, Stepping, balance,
    slow::{Gate, slow},
};
use gleaner::prelude::{Backend, CartPole, Collector, Error, NetworkSpec, Policy, Replay, Running, WeightsHandle};

const SOON: Duration = Duration::from_secs(60);

fn collector(stepping: Stepping, total: Option<u64>) -> (Collector<CartPole>, Replay<CartPole>) {
    let replay = Replay::new(4_000).unwrap();
    let builder = Collector::<CartPole>::builder().rows(4).frames_per_batch(40).replay(&replay);
    let builder = if let Some(total) = total { builder.total_frames(total) } else { builder };
    (stepping.set(builder).build().unwrap(), replay)
}

#[test]
fn mc19_start_needs_a_buffer() {
    let error = Collector::<CartPole>::builder().workers(1).build().unwrap().start().expect_err("no buffer");
    assert!(error.to_string().contains("replay"), "{error}");
}

#[test]
fn mc19_it_ends_by_the_exact_budget() {
    for stepping in Stepping::ALL {
        let (collector, replay) = collector(stepping, Some(3_010));
        let mut running = collector.start().unwrap();
        running.wait_written(3_010, SOON).unwrap();
        let late = running.wait_written(3_011, SOON).unwrap_err();
        assert!(matches!(late, Error::State { call: "wait_written", .. }), "{late}");
        assert!(!running.is_running());
        let mut collector = running.shutdown(SOON).unwrap();
        assert_eq!(replay.write_count(), 3_010);
        assert!(collector.next_receipt().is_none());
        balance(&collector.stats()).unwrap();
    }
}

/// One whose weights are version 1, and its handle.
fn published(stepping: Stepping, total: Option<u64>) -> (Running<CartPole>, WeightsHandle) {
    let replay = Replay::new(4_000).unwrap();
    let policy = Policy::network(NetworkSpec::default()).backend(Backend::Cpu);
    let builder = Collector::<CartPole>::builder().rows(4).frames_per_batch(40).replay(&replay).policy(policy);
    let builder = if let Some(total) = total { builder.total_frames(total) } else { builder };
    let collector = stepping.set(builder).build().unwrap();
    let weights = collector.weights().unwrap();
    weights.increment_version().unwrap();
    (collector.start().unwrap(), weights)
}

#[test]
fn mc19_ready_is_who_acts_by_the_newest_weights() {
    for stepping in Stepping::ALL {
        let (mut running, weights) = published(stepping, None);
        running.wait_ready(SOON).unwrap();
        weights.wait_adopted(1, Duration::ZERO).unwrap();
        drop(running);
        // Behind the end nobody takes any.
        let (mut running, weights) = published(stepping, Some(400));
        while running.is_running() {
            thread::yield_now();
        }
        weights.increment_version().unwrap();
        let begin = Instant::now();
        let error = running.wait_ready(SOON).unwrap_err();
        assert!(matches!(error, Error::State { call: "wait_ready", .. }), "{error}");
        assert!(begin.elapsed() < SOON / 2);
    }
}

#[test]
fn o11_mc20_nothing_is_written_inside_a_pause_and_it_goes_on() {
    for stepping in Stepping::ALL {
        let (collector, replay) = collector(stepping, None);
        let mut running = collector.start().unwrap();
        running.wait_ready(SOON).unwrap();
        for _ in 0..2 {
            let before = {
                let mut paused = running.pause(SOON).unwrap();
                let (written, stepped) =
                    (replay.write_count(), paused.with(SOON, |own| own.stats().stepped_frames).unwrap());
                thread::sleep(Duration::from_millis(100));
                assert_eq!(replay.write_count(), written);
                assert_eq!(paused.with(SOON, |own| own.stats().stepped_frames).unwrap(), stepped);
                written
            };
            running.wait_written(before + 200, SOON).unwrap();
            assert!(running.is_running());
        }
        let collector = running.shutdown(SOON).unwrap();
        balance(&collector.stats()).unwrap();
    }
}

/// Fails, or panics, while it holds a pause.
fn spoilt_pause(running: &mut Running<CartPole>, gate: &Gate, panics: bool) -> Result<(), Error> {
    let mut paused = running.pause(SOON)?;
    paused.with(SOON, |own| own.rollout().map(drop))?.expect_err("a buffer gets what it makes");
    assert!(!panics, "boom 42");
    let held = gate.clone();
    paused.with(Duration::ZERO, move |_| held.wait())
}

#[test]
fn o11_an_error_inside_a_pause_lets_it_go_on() {
    for stepping in Stepping::ALL {
        let (collector, replay) = collector(stepping, None);
        let mut running = collector.start().unwrap();
        for panics in [false, true] {
            let gate = Gate::default();
            let spoilt = catch_unwind(AssertUnwindSafe(|| spoilt_pause(&mut running, &gate, panics)));
            gate.open();
            assert!(matches!(spoilt, Err(_) | Ok(Err(Error::Timeout { .. }))), "{stepping:?}: {spoilt:?}");
            running.wait_written(replay.write_count() + 200, SOON).unwrap();
            assert!(running.is_running());
        }
        let collector = running.shutdown(SOON).unwrap();
        balance(&collector.stats()).unwrap();
    }
}

/// One that has failed, and nobody has looked.
fn failed(stepping: Stepping) -> Running<Faulty> {
    let fault = Fault { call: Call::Step, kind: Kind::Panic, row: 2, episode: 1, step: 3 };
    let replay = Replay::new(4_000).unwrap();
    let builder = Faulty::builder(6, Some(fault)).rows(4).frames_per_batch(40).replay(&replay);
    let running = stepping.set(builder).build().unwrap().start().unwrap();
    while running.is_running() {
        thread::yield_now();
    }
    running
}

#[test]
fn x2_what_stopped_it_reaches_who_waits_for_data() {
    for stepping in Stepping::ALL {
        let fault = Fault { call: Call::Step, kind: Kind::Panic, row: 2, episode: 1, step: 3 };
        let replay = Replay::new(4_000).unwrap();
        let builder = Faulty::builder(6, Some(fault)).rows(4).frames_per_batch(40).replay(&replay);
        let mut running = stepping.set(builder).build().unwrap().start().unwrap();
        let begin = Instant::now();
        let error = running.wait_written(1 << 40, SOON).unwrap_err();
        assert!(begin.elapsed() < Duration::from_secs(30));
        assert!(matches!(error, Error::EnvPanic { row: 2, .. }), "{error}");
        assert!(!running.is_running());
        // It is told once.
        running.check().unwrap();
        let mut other = failed(stepping);
        // A pause does not make it forgotten.
        assert!(other.pause(SOON).is_err());
        drop(other);
        balance(&running.stats()).unwrap();
    }
}

#[test]
fn h2_one_that_is_stuck_is_left_behind() {
    let (replay, gate) = (Replay::new(100).unwrap(), Gate::default());
    let held = gate.clone();
    let builder = slow(5, move |_, _, _| held.wait()).rows(2).frames_per_batch(4).replay(&replay);
    let running = builder.build().unwrap().start().unwrap();
    gate.wait_for(1);
    let begin = Instant::now();
    let error = running.shutdown(Duration::from_millis(100)).expect_err("it is stuck");
    assert!(begin.elapsed() < Duration::from_secs(30));
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    gate.open();
}

#[test]
fn it_can_be_iterated_and_started_again() {
    for stepping in Stepping::ALL {
        let (mut own, replay) = collector(stepping, None);
        for _ in 0..2 {
            let mut running = own.start().unwrap();
            running.wait_written(replay.write_count() + 100, SOON).unwrap();
            own = running.shutdown(SOON).unwrap();
            let before = replay.write_count();
            own.next_receipt().unwrap().unwrap();
            assert!(replay.write_count() > before);
        }
        balance(&own.stats()).unwrap();
    }
}

#[test]
fn q1_progress_shows_before_an_episode_ends() {
    let replay = Replay::new(1 << 20).unwrap();
    let builder = Faulty::builder(u32::MAX, None).rows(2).workers(2).frames_per_batch(40).replay(&replay);
    let running =
        builder.replay_write_mode(gleaner::prelude::ReplayWriteMode::Trajectory).build().unwrap().start().unwrap();
    let deadline = Instant::now() + SOON;
    while running.stats().stepped_frames < 400 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    let stats = running.stats();
    assert!(stats.stepped_frames >= 400 && stats.trajectory_pending_frames >= 400, "{stats:?}");
    assert_eq!((stats.written_frames, replay.write_count()), (Some(0), 0));
    drop(running);
}

#[test]
#[cfg(target_os = "linux")]
fn a_paused_collector_uses_no_cpu() {
    // Of one thread: those of other tests do not count.
    let used = |thread: &str| -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap_or_default();
        stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
    };
    for stepping in Stepping::ALL {
        let (collector, _replay) = collector(stepping, None);
        let mut running = collector.start().unwrap();
        running.wait_written(100, SOON).unwrap();
        let mut paused = running.pause(SOON).unwrap();
        let own = |collector: &mut Collector<CartPole>| {
            let id = || thread_id();
            let mut ids = vec![id()];
            ids.extend(collector.map_workers(|_| thread_id()).unwrap());
            ids
        };
        let threads = paused.with(SOON, own).unwrap();
        let all = || threads.iter().map(|thread| used(thread)).sum::<u64>();
        let spent = crate::support::least_of(3, 5_000_000, || {
            let before = all();
            thread::sleep(Duration::from_millis(500));
            all() - before
        });
        assert!(spent <= 5_000_000, "{spent} ns on {threads:?}");
    }
}

/// The calling thread as the system numbers it.
#[cfg(target_os = "linux")]
fn thread_id() -> String {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_string_lossy().into_owned()
}
