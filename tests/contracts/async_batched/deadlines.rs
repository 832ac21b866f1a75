//! X10 and H2: a row that takes too long is handled by the fault policy; nobody waits for a thread that is stuck.

use std::{
    thread::{self, sleep},
    time::{Duration, Instant},
};

use gleaner::{
    components::{TrajectoryId, Truncation},
    prelude::{AsyncBatched, Error, FaultPolicy},
};

use crate::support::{
    balance,
    slow::{Gate, slow, uneven},
};

const MINUTE: Duration = Duration::from_secs(60);

/// A row that hangs is late after two seconds. The others step only while all `rows` are ready, or when `window` is
/// over: they mostly rest meanwhile, and are not late too where the machine is busy. At the end nobody waits for
/// threads that were given up.
fn within(rows: usize, window: Duration) -> AsyncBatched {
    let (step_deadline, shutdown) = (Duration::from_secs(2), MINUTE);
    AsyncBatched { step_deadline, shutdown, min_ready: rows, window, ..AsyncBatched::default() }
}

#[test]
fn x10_a_row_that_hangs_stops_the_collection_by_name() {
    let gate = Gate::default();
    let held = gate.clone();
    let builder =
        slow(4, move |row, episode, t| if (row, episode, t) == (5, 1, 2) { held.wait() } else { uneven(row, 0, t) });
    let builder = builder.rows(8).frames_per_batch(100).seed(77);
    let mut collector = builder.async_batched(within(8, MINUTE)).build().unwrap();
    let begun = Instant::now();
    let error = collector.by_ref().find_map(Result::err).expect("row 5 hangs");
    let Error::StepDeadline { row, episode, step, seed, worker, .. } = error else { panic!("{error}") };
    assert_eq!((row, episode, step, seed, worker), (5, 1, 2, 77, 0));
    assert!(error.to_string().contains("row 5, episode 1, step 2, seed 77"), "{error}");
    assert!(collector.next().is_none());
    let stats = collector.stats();
    balance(&stats).unwrap();
    assert_eq!((stats.abandoned, stats.in_flight_frames), (Some(1), 0));
    for _ in 0..3 {
        collector.shutdown();
    }
    drop(collector);
    assert!(begun.elapsed() < Duration::from_secs(30));
    gate.open();
}

#[test]
fn x10_a_row_that_hangs_starts_anew_and_its_late_frame_is_dropped() {
    let gate = Gate::default();
    let held = gate.clone();
    let act = move |row, episode, t| if (row, episode, t) == (2, 1, 3) { held.wait() } else { uneven(row, episode, t) };
    let builder = slow(6, act).rows(4).frames_per_batch(40).on_fault(FaultPolicy::RestartRow { retries: 1 });
    let options = within(4, Duration::from_millis(100));
    let mut collector = builder.async_batched(options).build().unwrap();
    let mut frames = Vec::<(u32, u32, u32, TrajectoryId)>::new();
    let mut ended = Vec::new();
    let until = Instant::now() + MINUTE;
    // The others go on until the row has started anew.
    while !frames.iter().any(|(row, episode, ..)| (*row, *episode) == (2, 2)) {
        assert!(Instant::now() < until, "{:?}", collector.stats());
        let batch = collector.next().unwrap().unwrap();
        for i in 0..batch.len() {
            let seen = batch.observations()[i];
            assert_eq!(seen[2] as u32, batch.steps()[i].0, "a late frame came through");
            frames.push((seen[0] as u32, seen[1] as u32, batch.steps()[i].0, batch.trajectory_ids()[i]));
        }
        ended.extend_from_slice(batch.trajectories());
        balance(&collector.stats()).unwrap();
        if collector.stats().row_restarts == 1 {
            gate.open();
        }
    }
    let cut: Vec<_> = ended.iter().filter(|t| t.end.truncation() == Some(Truncation::Timeout)).collect();
    assert_eq!(cut.len(), 1, "{ended:?}");
    assert_eq!((cut[0].row.0, cut[0].length), (2, 3));
    let of = |episode| frames.iter().filter(|frame| (frame.0, frame.1) == (2, episode)).collect::<Vec<_>>();
    assert_eq!(of(1).iter().map(|frame| frame.2).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(of(1).iter().all(|frame| frame.3 == cut[0].id));
    let next: Vec<TrajectoryId> = of(2).iter().map(|frame| frame.3).collect();
    assert!(!next.is_empty() && next.iter().all(|id| *id == next[0] && *id != cut[0].id), "{next:?}");
    collector.shutdown();
    let stats = collector.stats();
    assert_eq!(
        (stats.abandoned, stats.row_restarts, stats.discarded.fault, stats.in_flight_frames),
        (Some(1), 1, 1, 0)
    );
    assert_eq!(stats.frames, frames.len() as u64);
    assert_eq!(stats.frames + stats.discarded.total(), stats.stepped_frames);
    while collector.stats().late_frames == Some(0) && Instant::now() < until {
        sleep(Duration::from_millis(1));
    }
    assert_eq!(collector.stats().late_frames, Some(1));
}

#[test]
fn x10_a_row_that_hangs_again_and_again_stops_the_collection() {
    let gate = Gate::default();
    let held = gate.clone();
    let builder = slow(9, move |row, _, _| {
        if row == 1 {
            held.wait()
        }
    })
    .rows(3)
    .frames_per_batch(5_000)
    .on_fault(FaultPolicy::RestartRow { retries: 2 });
    let options = within(3, MINUTE);
    let mut collector = builder.async_batched(options).build().unwrap();
    let error = loop {
        match collector.next() {
            Some(Ok(_)) => {}
            Some(Err(error)) => break error,
            None => panic!("endless"),
        }
    };
    let Error::StepDeadline { row, episode, step, .. } = error else { panic!("{error}") };
    assert_eq!((row, episode, step), (1, 0, 0), "the first error is kept");
    let stats = collector.stats();
    balance(&stats).unwrap();
    assert_eq!((stats.abandoned, stats.row_restarts, gate.came()), (Some(3), 2, 3));
    gate.open();
}

#[test]
fn h2_the_end_comes_within_its_deadline_whatever_threads_do() {
    // Dropped before the first batch, after one, while a thread is stuck; shut down twice.
    let end = |batches, shutdown| {
        let gate = Gate::default();
        let held = gate.clone();
        let builder = slow(9, move |row, _, t| {
            if row == 0 && t == 1 {
                held.wait()
            }
        })
        .rows(3)
        .frames_per_batch(30);
        // Long enough that no thread but the one that is stuck is left behind.
        let options = AsyncBatched { shutdown: Duration::from_secs(4), ..AsyncBatched::default() };
        let mut collector = builder.async_batched(options).build().unwrap();
        for _ in 0..batches {
            collector.next().unwrap().unwrap();
            gate.wait_for(1);
        }
        let begun = Instant::now();
        if shutdown {
            collector.shutdown();
            collector.shutdown();
            let stats = collector.stats();
            balance(&stats).unwrap();
            assert_eq!((stats.abandoned, stats.in_flight_frames), (Some(1), 0));
            assert!(collector.next().is_none());
        }
        let monitor = collector.monitor();
        drop(collector);
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        assert_eq!(monitor.stats().abandoned, Some(batches), "{batches} batches, shutdown {shutdown}");
        gate.open();
    };
    // At once: together they wait no longer than one.
    thread::scope(|scope| {
        for (batches, shutdown) in [(0, false), (1, false), (1, true)] {
            scope.spawn(move || end(batches, shutdown));
        }
    });
}
