//! What a collector says of itself: counters that move while episodes run, absent means, its length, and one line for a
//! debugger.

use std::{
    sync::{Arc, Mutex},
    thread,
};

use crate::support::{Ending, NEVER, Script, balance, tags};
use gleaner::prelude::{Error, Stats};

#[test]
fn q1_a_long_episode_shows_progress() {
    let builder = tags(Script::all(NEVER, Ending::Terminated)).rows(2).frames_per_batch(20).total_frames(200);
    let mut collector = builder.trajs_per_batch(1).build().unwrap();
    let (monitor, seen) = (collector.monitor(), Arc::new(Mutex::new(Vec::<Stats>::new())));
    let log = seen.clone();
    collector.set_pre_collect(move || {
        log.lock().unwrap().push(monitor.stats());
        Ok(())
    });
    assert!(collector.next().is_none(), "no episode ends");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 10);
    for (i, stats) in seen.iter().enumerate() {
        let frames = 20 * i as u64;
        assert_eq!(
            (stats.stepped_frames, stats.trajectory_pending_frames, stats.in_flight_frames),
            (frames, frames, frames)
        );
        assert_eq!((stats.frames, stats.completed_trajectories), (0, 0));
        balance(stats).unwrap();
    }
    let stats = collector.stats();
    assert_eq!((stats.discarded.shutdown, stats.in_flight_frames, stats.completed), (200, 0, true));
}

#[test]
fn q3_a_mean_of_nothing_is_absent() {
    let mut collector = tags(Script::all(30, Ending::Terminated)).rows(2).frames_per_batch(40).build().unwrap();
    let before = collector.stats().episodes;
    assert_eq!((before.count, before.mean_return, before.mean_length, before.running_return), (0, None, None, None));
    collector.next().unwrap().unwrap();
    let running = collector.stats().episodes;
    assert_eq!((running.count, running.mean_return, running.running_return), (0, None, Some(20.0)));
    let text = serde_json::to_string(&collector.stats()).unwrap();
    assert!(!text.contains("mean_return") && !text.contains("null") && !text.contains("NaN"), "{text}");
    collector.next().unwrap().unwrap();
    let ended = collector.stats().episodes;
    assert_eq!((ended.count, ended.mean_return, ended.mean_length), (2, Some(30.0), Some(30.0)));
    assert_eq!(ended.running_return, Some(10.0));
}

#[test]
fn means_are_over_the_last_hundred_episodes() {
    let lists = vec![[vec![(1, Ending::Terminated); 50], vec![(3, Ending::Terminated); 100]].concat()];
    let mut collector = tags(Arc::new(Script(lists))).frames_per_batch(50).build().unwrap();
    collector.next().unwrap().unwrap();
    assert_eq!(collector.stats().episodes.mean_return, Some(1.0));
    for _ in 0..6 {
        collector.next().unwrap().unwrap();
    }
    let episodes = collector.stats().episodes;
    assert_eq!((episodes.count, episodes.mean_return, episodes.mean_length), (100, Some(3.0), Some(3.0)));
}

#[test]
fn o10_counters_survive_json_and_never_fall() {
    let mut collector =
        tags(Script::all(7, Ending::Truncated)).rows(3).frames_per_batch(30).total_frames(95).build().unwrap();
    let mut last = collector.stats();
    assert_eq!((last.frames, last.batches, last.completed), (0, 0, false));
    while let Some(batch) = collector.next() {
        batch.unwrap();
        let stats = collector.stats();
        let text = serde_json::to_string(&stats).unwrap();
        assert_eq!(serde_json::from_str::<Stats>(&text).unwrap(), stats);
        assert!(
            stats.stepped_frames > last.stepped_frames && stats.frames > last.frames && stats.batches > last.batches
        );
        assert!(stats.completed_trajectories >= last.completed_trajectories);
        last = stats;
    }
    assert!(last.completed);
    assert_eq!(last.total_frames, Some(95));
}

#[test]
fn counters_are_read_from_another_thread_while_it_runs() {
    let mut collector =
        tags(Script::all(7, Ending::Truncated)).rows(8).frames_per_batch(800).total_frames(80_000).build().unwrap();
    let monitor = collector.monitor();
    let reader = thread::spawn(move || {
        let mut reads = 0_u64;
        loop {
            let stats = monitor.stats();
            balance(&stats).unwrap();
            reads += 1;
            if stats.completed {
                return reads;
            }
            thread::yield_now();
        }
    });
    collector.by_ref().for_each(|batch| drop(batch.unwrap()));
    assert!(reader.join().unwrap() > 0);
}

#[test]
fn length_is_the_number_of_batches() {
    for (rows, frames, total) in [(1, 173, 300), (10, 145, 290), (4, 10, 60), (3, 3, 1), (5, 20, 100)] {
        let builder = tags(Script::all(7, Ending::Truncated)).rows(rows).frames_per_batch(frames).total_frames(total);
        let collector = builder.build().unwrap();
        let length = collector.len().unwrap();
        assert!(!collector.is_empty());
        let sizes: Vec<u64> = collector.map(|batch| batch.unwrap().frames() as u64).collect();
        assert_eq!((sizes.len() as u64, sizes.iter().sum::<u64>()), (length, total));
    }
    assert_eq!(tags(Script::all(7, Ending::Truncated)).build().unwrap().len(), None);
}

#[test]
fn debug_says_what_it_is_and_where_it_stands() {
    let builder = tags(Script::all(7, Ending::Truncated)).rows(4).frames_per_batch(20).total_frames(20);
    let mut collector = builder.build().unwrap();
    let text = format!("{collector:?}");
    for part in ["inline", "rows: 4", "horizon: 5", "frames: 0", "total_frames: Some(20)", "state: Ready"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    collector.by_ref().for_each(drop);
    assert!(format!("{collector:?}").contains("frames: 20"));
    assert!(format!("{collector:?}").contains("state: Finished"));
    collector.shutdown();
    assert!(format!("{collector:?}").contains("state: Shut"));
}

#[test]
fn a_rollout_on_request_is_on_the_same_ledger() {
    let builder = tags(Script::all(7, Ending::Truncated)).rows(2).frames_per_batch(20).total_frames(50);
    let mut collector = builder.build().unwrap();
    let first = collector.rollout().unwrap();
    let second = collector.next().unwrap().unwrap();
    let third = collector.rollout().unwrap();
    assert_eq!([first.index(), second.index(), third.index()], [0, 1, 2]);
    assert_eq!((second.observations()[0], third.frames()), (first.last_observations()[0], 10));
    assert!(matches!(collector.rollout(), Err(Error::State { call: "rollout", .. })));
    assert!(collector.next().is_none());
    let stats = collector.stats();
    assert_eq!((stats.frames, stats.batches), (50, 3));
    let builder = tags(Script::all(7, Ending::Truncated)).trajs_per_batch(2);
    assert!(matches!(builder.build().unwrap().rollout(), Err(Error::State { call: "rollout", .. })));
}
