//! Workers that do not come in time.

use super::*;

#[test]
fn x10_one_that_sleeps_for_ever_does_not_hold_the_others() {
    both(|delivery| {
        let gate = Gate::default();
        let held = gate.clone();
        // Nobody takes all of the budget before the sleeper, whose other row comes first, has its share.
        let act = move |row, _, _| match row {
            4 => {}
            5 => held.wait(),
            _ => held.wait_for(1),
        };
        let builder = slow(5, act);
        let builder = builder.rows(8).workers(4).frames_per_batch(80).total_frames(800).delivery(delivery);
        let builder = builder.on_worker_fault(OnWorkerFault::Drop).worker_deadline(LATE);
        let mut collector = builder.build().unwrap();
        let begin = Instant::now();
        let mut frames = 0;
        for batch in collector.by_ref() {
            let batch = batch.unwrap();
            let valid = |slot: &usize| batch.flags()[*slot].valid();
            assert!((0..batch.len()).filter(valid).all(|slot| !(4.0..6.0).contains(&batch.observations()[slot][0])));
            frames += batch.frames();
        }
        // What the sleeper took of the budget for its batch stays its own: it may wake and step it.
        assert_eq!(frames, if delivery == Delivery::Sync { 800 } else { 720 });
        assert!(begin.elapsed() < Duration::from_secs(30));
        assert_eq!(collector.workers()[2], WorkerStatus::Abandoned);
        let begin = Instant::now();
        collector.shutdown();
        assert!(begin.elapsed() < Duration::from_secs(30));
        balance(&collector.stats()).unwrap();
        gate.open();
    });
}

#[test]
fn x10_one_of_sixteen_that_sleeps_for_ever_is_closed_by_a_timeout() {
    const TICKS: usize = 10_000;
    let gate = Gate::default();
    let held = gate.clone();
    // The last one falls asleep behind the first part that it hands over; nobody is done, and preempts it, before.
    let act = move |row, episode, t| match (row, episode, t) {
        (15, 1_200, 0) => held.wait(),
        (0..15, 0, 0) => held.wait_for(1),
        _ => {}
    };
    let builder = slow(5, act).rows(16).workers(16).frames_per_batch(16 * TICKS).preemptive_threshold(0.9);
    let builder = builder.on_worker_fault(OnWorkerFault::Drop).worker_deadline(LATE);
    let mut collector = builder.build().unwrap();
    let begin = Instant::now();
    let batch = collector.next().unwrap().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(30));
    let prefix = |row: usize| {
        let frames = (0..TICKS).take_while(|tick| batch.flags()[tick * 16 + row].valid()).count();
        assert!((frames..TICKS).all(|tick| !batch.flags()[tick * 16 + row].valid()), "row {row}");
        frames
    };
    let frames: Vec<_> = (0..16).map(prefix).collect();
    assert!(frames[..15].iter().filter(|frames| **frames == TICKS).count() >= 14, "{frames:?}");
    assert!((1..TICKS).contains(&frames[15]), "{frames:?}");
    assert_eq!(frames.iter().sum::<usize>(), batch.frames());
    let end = batch.ends()[(frames[15] - 1) * 16 + 15];
    assert_eq!(end.truncation(), Some(Truncation::Timeout), "{end:?}");
    assert_eq!(collector.workers()[15], WorkerStatus::Abandoned);
    gate.open();
    // What it replies too late is nobody's.
    for _ in 0..2 {
        let batch = collector.next().unwrap().unwrap();
        assert!((0..TICKS).all(|tick| !batch.flags()[tick * 16 + 15].valid()));
        balance(&collector.stats()).unwrap();
    }
    collector.shutdown();
    closed(&collector);
}

#[test]
fn a_worker_whose_batch_waits_for_another_ones_turn_is_not_held_by_the_caller() {
    let gate = Gate::default();
    let held = gate.clone();
    let act = move |row, _, _| {
        if row == 1 {
            held.wait()
        }
    };
    let builder = slow(5, act).rows(2).workers(2).frames_per_batch(4).worker_deadline(LATE / 2);
    let mut collector = builder.delivery(Delivery::Async).max_arenas(1).max_staleness(2).build().unwrap();
    (0..2).for_each(|_| drop(collector.next().unwrap().unwrap()));
    // The third one of worker 0 waits for the first one of worker 1, and worker 0 for its only arena.
    let error = collector.next().unwrap().unwrap_err();
    assert!(matches!(error, Error::Worker { worker: 1, .. }), "{error}");
    gate.open();
}

#[test]
fn a_late_worker_stops_the_collection_by_default() {
    both(|delivery| {
        let delay = |row| if row == 1 { Duration::from_secs(3_600) } else { Duration::from_millis(1) };
        let builder = delayed(delay).rows(2).workers(2).frames_per_batch(20).delivery(delivery);
        let mut collector = builder.worker_deadline(LATE).build().unwrap();
        let error = collector.by_ref().find_map(Result::err).expect("it is late");
        assert!(matches!(error, Error::Worker { worker: 1, .. }), "{error}");
        assert!(collector.next().is_none());
    });
}
