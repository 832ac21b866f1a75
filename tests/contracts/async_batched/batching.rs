//! AB-02, AB-07 and AB-18: how many rows act together, how large batches are, that a slow row delays only itself, and that
//! waiting costs nothing.

use std::{
    sync::{Arc, Mutex},
    thread::sleep,
    time::{Duration, Instant},
};

use bevy_ecs::prelude::{Entity, With};
use gleaner::{
    components::{End, Observation},
    policy::{HeadSpec, NetworkSpec, Normalize, Policy, head::LogStd},
    prelude::{AsyncBatched, Batch, Collector, Layout, Replay, ReplayWriteMode, Rows},
};

use crate::support::{
    balance,
    slow::{Gate, Slow, slow, uneven},
};

/// A policy that acts 0 and notes for how many rows it was called.
fn counting() -> (Policy<Slow>, Arc<Mutex<Vec<usize>>>) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noted = calls.clone();
    let policy = Policy::function(move |observations, _, _, actions| {
        noted.lock().unwrap().push(observations.len());
        actions.fill(0.0);
    });
    (policy, calls)
}

#[test]
fn ab2_rows_that_are_ready_act_together_within_the_bounds() {
    for (min_ready, max_ready) in [(1, Some(1)), (4, Some(5)), (8, None)] {
        let (policy, calls) = counting();
        // A window that no step outlasts: only the last frames of the budget are fewer than the minimum.
        let options = AsyncBatched { min_ready, max_ready, window: Duration::from_secs(20), ..AsyncBatched::default() };
        let builder = slow(7, uneven).rows(8).frames_per_batch(80).total_frames(240).policy(policy);
        let mut collector = builder.async_batched(options).build().unwrap();
        let frames: usize = (&mut collector).map(|batch| batch.unwrap().frames()).sum();
        let calls = calls.lock().unwrap();
        assert_eq!((frames, calls.iter().sum::<usize>()), (240, 240), "an action a frame: {calls:?}");
        assert_eq!(collector.stats().dispatches, Some(calls.len() as u64), "one call for all rows that are ready");
        assert!(calls.iter().all(|rows| *rows <= max_ready.unwrap_or(8)), "{calls:?}");
        // A batch's last turn takes only what is missing.
        let few = calls.iter().filter(|rows| **rows < min_ready).count();
        assert!(few <= 8 + 2 * 3, "{few} calls for fewer than {min_ready}: {calls:?}");
    }
}

#[test]
fn ab2_the_window_ends_the_wait_for_others() {
    let gate = Gate::default();
    let held = gate.clone();
    let builder = slow(1_000, move |row, _, _| {
        if row == 3 {
            held.wait()
        }
    })
    .rows(4)
    .frames_per_batch(30);
    let options = AsyncBatched { min_ready: 4, window: Duration::from_millis(5), ..AsyncBatched::default() };
    let mut collector = builder.async_batched(options).build().unwrap();
    let begun = Instant::now();
    let batch = collector.next().unwrap().unwrap();
    assert_eq!(batch.frames(), 30);
    assert!(batch.observations().iter().all(|seen| seen[0] < 3.0), "row 3 waits");
    assert!(begun.elapsed() < Duration::from_secs(30));
    gate.open();
}

#[test]
fn ab7_batches_are_exact_and_say_row_and_step() {
    let builder = slow(7, uneven).rows(5).frames_per_batch(33).total_frames(150).init_random_frames(40);
    let mut collector = builder.async_batched(AsyncBatched::default()).build().unwrap();
    assert_eq!((collector.frames_per_batch(), collector.len()), (33, Some(5)));
    let (mut sizes, mut random) = (Vec::new(), 0);
    while let Some(batch) = collector.next() {
        let (batch, stats) = (batch.unwrap(), collector.stats());
        assert_eq!(batch.layout(), Layout::Flat { frames: batch.frames() });
        sizes.push(batch.frames());
        random += batch.flags().iter().filter(|flags| flags.random()).count();
        balance(&stats).unwrap();
        assert_eq!((stats.frames, stats.in_flight_frames), (sizes.iter().sum::<usize>() as u64, 0));
        // Frames of an episode lie one behind the other, so estimators need nothing else.
        for i in 1..batch.len() {
            let (a, b) = (batch.observations()[i - 1], batch.observations()[i]);
            let goes_on = a[..2] == b[..2];
            assert_eq!(goes_on, batch.trajectory_ids()[i - 1] == batch.trajectory_ids()[i]);
            if goes_on {
                assert_eq!(batch.next_observation(i - 1), &b);
                assert_eq!(batch.steps()[i - 1].0 + 1, batch.steps()[i].0);
            }
        }
    }
    assert_eq!((sizes, random), (vec![33, 33, 33, 33, 18], 40));
    let stats = collector.stats();
    assert!(stats.completed && stats.stepped_frames == 150 && stats.abandoned == Some(0));
}

#[test]
fn ab1_a_slow_row_delays_only_itself() {
    let builder = slow(1_000, |row, _, _| sleep(Duration::from_millis(if row == 2 { 1_000 } else { 2 })));
    let mut collector = builder.rows(8).frames_per_batch(350).async_batched(AsyncBatched::default()).build().unwrap();
    let begun = Instant::now();
    let batch = collector.next().unwrap().unwrap();
    let took = begun.elapsed();
    let slow = batch.observations().iter().filter(|seen| seen[0] == 2.0).count();
    // In step with the slow row it would take 350 / 8 s.
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(slow <= took.as_secs() as usize + 1, "{slow} frames of the slow row in {took:?}");
}

#[test]
fn ab18_a_replay_buffer_gets_every_frame() {
    for mode in [ReplayWriteMode::Rollout, ReplayWriteMode::Trajectory] {
        let replay = Replay::<Slow>::new(10_000).unwrap();
        let builder = slow(5, uneven).rows(4).frames_per_batch(50).total_frames(230).replay(&replay);
        let builder = builder.replay_write_mode(mode).async_batched(AsyncBatched::default());
        let mut collector = builder.build().unwrap();
        let receipts: Vec<_> = collector.receipts().map(|receipt| receipt.unwrap()).collect();
        let written: u64 = receipts.iter().map(|receipt| receipt.frames).sum();
        let stats = collector.stats();
        balance(&stats).unwrap();
        assert_eq!((written, replay.len(), stats.written_frames), (stats.frames, stats.frames, Some(stats.frames)));
        assert_eq!((stats.stepped_frames, stats.in_flight_frames), (230, 0));
        match mode {
            ReplayWriteMode::Rollout => {
                assert_eq!(receipts.iter().map(|receipt| receipt.frames).collect::<Vec<_>>(), [50, 50, 50, 50, 30]);
            }
            ReplayWriteMode::Trajectory => assert!(stats.frames > 200, "only running episodes are left: {stats:?}"),
        }
    }
}

/// The next batch, whose frames are of the episodes that they say.
fn take(collector: &mut Collector<Slow>) -> Option<Batch<Slow>> {
    let batch = collector.next()?.unwrap();
    for i in 0..batch.len() {
        assert_eq!(batch.observations()[i][2] as u32, batch.steps()[i].0, "a frame of another episode");
    }
    balance(&collector.stats()).unwrap();
    Some(batch)
}

#[test]
fn resets_and_seeds_take_rows_that_are_pending() {
    let builder = slow(1 << 30, uneven).rows(6).frames_per_batch(60).seed(1);
    let mut collector = builder.async_batched(AsyncBatched::default()).build().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let forced = End::truncated_by(gleaner::components::Truncation::ForcedReset);
    // Each row has a frame since its last reset that the next one can cut.
    let mut since = [0; 6];
    for turn in 0..3 {
        while since.contains(&0) {
            assert!(Instant::now() < deadline, "a row is not heard of: {since:?}");
            let batch = take(&mut collector).unwrap();
            assert!(batch.trajectories().is_empty(), "{:?}", batch.trajectories());
            batch.observations().iter().for_each(|seen| since[seen[0] as usize] += 1);
        }
        match turn {
            0 => collector.reset(Rows::Some(&[2])).unwrap(),
            1 => collector.reset(Rows::All).unwrap(),
            _ => drop(collector.set_seed(9).unwrap()),
        }
        balance(&collector.stats()).unwrap();
        let reset = if turn == 0 { 2..3 } else { 0..6 };
        since[reset.clone()].fill(0);
        let batch = take(&mut collector).unwrap();
        let ends: Vec<_> = batch.trajectories().iter().map(|t| (t.row.0 as usize, t.end)).collect();
        assert_eq!(ends, reset.map(|row| (row, forced)).collect::<Vec<_>>(), "turn {turn}");
        batch.observations().iter().for_each(|seen| since[seen[0] as usize] += 1);
    }
}

#[test]
fn resets_leave_the_budget_exact() {
    let builder = slow(1_000, uneven).rows(6).frames_per_batch(60).total_frames(600).seed(1);
    let mut collector = builder.async_batched(AsyncBatched::default()).build().unwrap();
    for turn in 0.. {
        let Some(_) = take(&mut collector) else { break };
        match turn {
            1 => collector.reset(Rows::Some(&[2])).unwrap(),
            3 => collector.reset(Rows::All).unwrap(),
            5 => drop(collector.set_seed(9).unwrap()),
            _ => {}
        }
        balance(&collector.stats()).unwrap();
    }
    assert_eq!(collector.stats().stepped_frames, 600);
}

#[test]
fn statistics_take_each_observation_that_is_acted_for_once() {
    let head = HeadSpec::Gaussian { log_std: LogStd::Free(0.0) };
    let policy = Policy::network(NetworkSpec { head, normalize: Some(Normalize::default()), ..NetworkSpec::default() });
    let builder = slow(7, uneven).rows(5).frames_per_batch(50).total_frames(200).policy(policy);
    let mut collector = builder.async_batched(AsyncBatched::default()).build().unwrap();
    assert_eq!(collector.by_ref().map(|batch| batch.unwrap().frames()).sum::<usize>(), 200);
    assert_eq!(collector.normalization().unwrap().count, 200);
}

#[test]
fn a_collection_whose_rows_a_host_removed_ends() {
    let builder = slow(7, uneven).rows(3).frames_per_batch(30).async_batched(AsyncBatched::default());
    let mut collector = builder.build().unwrap();
    collector.next().unwrap().unwrap();
    let world = collector.world_mut();
    let mut rows = world.query_filtered::<Entity, With<Observation<Slow>>>();
    let entities: Vec<Entity> = rows.iter(world).collect();
    for (left, entity) in entities.iter().enumerate().rev() {
        collector.world_mut().despawn(*entity);
        let next = collector.next().unwrap();
        assert_eq!(next.is_ok(), left > 0, "{left} rows are left: {next:?}");
        balance(&collector.stats()).unwrap();
    }
}

/// Processor time of the calling thread.
#[cfg(target_os = "linux")]
fn used() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split_whitespace().next().unwrap().parse().unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn r4_waiting_for_rows_uses_no_processor() {
    let builder = slow(1_000, |_, _, _| sleep(Duration::from_millis(250))).rows(2).frames_per_batch(8);
    let mut collector = builder.async_batched(AsyncBatched::default()).build().unwrap();
    let bound = Duration::from_millis(60);
    let spent = crate::support::least_of(3, bound, || {
        let before = used();
        collector.next().unwrap().unwrap();
        used() - before
    });
    assert!(spent <= bound, "{spent:?} in 1 s of waiting");
}
