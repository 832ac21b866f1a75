//! A worker that fails is named at once; it ends the collection, or the others go on; nothing hangs and every frame is
//! accounted for.

mod late;

use std::time::{Duration, Instant};

use super::delayed;
use crate::support::{
    Call, Fault, Faulty, Kind, balance,
    slow::{Gate, slow},
};
use gleaner::{
    components::{Truncation, WorkerStatus},
    config::{Delivery, OnWorkerFault},
    prelude::{CartPole, Collector, Error, Rows, Task},
};

const BOTH: [Delivery; 2] = [Delivery::Sync, Delivery::Async];

const MINUTE: Duration = Duration::from_secs(60);

/// Long enough that no worker but one that hangs is ever late, however busy the machine is.
const LATE: Duration = Duration::from_secs(4);

/// Tests that wait until a worker is late do so for both at once.
fn both(test: impl Fn(Delivery) + Sync) {
    let test = &test;
    std::thread::scope(|scope| {
        for delivery in BOTH {
            scope.spawn(move || test(delivery));
        }
    });
}

fn panics(call: Call, row: u32, episode: u32, step: u32) -> Option<Fault> {
    Some(Fault { call, kind: Kind::Panic, row, episode, step })
}

/// The ledger of a collection that is over.
fn closed<T: Task>(collector: &Collector<T>) {
    let stats = collector.stats();
    balance(&stats).unwrap();
    assert_eq!(stats.in_flight_frames, 0, "{stats:?}");
    assert_eq!(stats.frames + stats.discarded.total(), stats.stepped_frames, "{stats:?}");
}

#[test]
fn h1_x1_a_panic_of_one_of_eight_workers_is_named_at_once() {
    for delivery in BOTH {
        let builder = Faulty::builder(6, panics(Call::Step, 11, 0, 3)).rows(16).workers(8).seed(77);
        let mut collector = builder.frames_per_batch(160).delivery(delivery).build().unwrap();
        let begin = Instant::now();
        let error = loop {
            match collector.next().expect("the error comes first") {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(begin.elapsed() < Duration::from_secs(30));
        let text = error.to_string();
        assert!(text.contains("boom 42") && text.contains("worker 5, row 11, episode 0, step 3, seed 77"), "{text}");
        assert!((0..3).all(|_| collector.next().is_none()));
        assert_eq!(collector.stats().workers_alive, Some(0));
        closed(&collector);
    }
}

#[test]
fn x7_what_fails_while_workers_are_built_is_an_error() {
    for call in [Call::Build, Call::Reset, Call::Mask] {
        let built = Faulty::builder(6, panics(call, 5, 0, 0)).rows(8).workers(4).build();
        let text = built.expect_err("it fails").to_string();
        assert!(text.contains("boom 42") && text.contains("worker 2, row 5"), "{text}");
    }
    let fault = Fault { call: Call::Build, kind: Kind::Nan, row: 7, episode: 0, step: 0 };
    let text = Faulty::builder(6, Some(fault)).rows(8).workers(4).build().expect_err("it fails").to_string();
    assert!(text.contains("row 7") && text.contains("no such level"), "{text}");
}

#[test]
fn the_others_go_on_without_a_worker_that_failed() {
    for delivery in BOTH {
        let builder = Faulty::builder(6, panics(Call::Step, 3, 2, 1)).rows(8).workers(4).frames_per_batch(80);
        let builder = builder.delivery(delivery).on_worker_fault(OnWorkerFault::Drop);
        // On their own, the others could use up a budget before the second one comes to its fault.
        let in_step = delivery == Delivery::Sync;
        let mut collector = if in_step { builder.total_frames(1_600) } else { builder }.build().unwrap();
        let (mut last, mut without, deadline) = (vec![0; 8], 0, Instant::now() + MINUTE);
        for i in 0.. {
            let Some(batch) = collector.next() else { break };
            let batch = batch.unwrap();
            for slot in (0..batch.len()).filter(|slot| batch.flags()[*slot].valid()) {
                last[batch.rows()[slot % batch.rows().len()].0 as usize] = i;
            }
            // Some batches were on their way when it failed.
            without += u32::from(collector.workers()[1] == WorkerStatus::Dead);
            if !in_step && without == 20 {
                break;
            }
            assert!(Instant::now() < deadline, "{delivery:?}: {last:?}");
        }
        // Rows 2 and 3 are the second worker's.
        let others = [last[0], last[4], last[6]].into_iter();
        let longest = if in_step { others.min() } else { others.max() };
        assert!(last[2] < 4 && last[3] < 4 && longest >= Some(4), "{delivery:?}: {last:?}");
        assert_eq!(collector.workers()[1], WorkerStatus::Dead);
        if in_step {
            assert_eq!(collector.stats().stepped_frames, 1_600);
        } else {
            collector.shutdown();
        }
        assert!(collector.stats().discarded.fault > 0);
        closed(&collector);
    }
}

#[test]
fn a_worker_that_failed_is_restarted() {
    for delivery in BOTH {
        // The second life plays other episodes, in which nothing fails.
        let builder = Faulty::builder(6, panics(Call::Step, 3, 2, 1)).rows(8).workers(4).frames_per_batch(80);
        let builder = builder.delivery(delivery).on_worker_fault(OnWorkerFault::Restart { most: 1 });
        // On their own, workers go on until all have had their turn.
        let builder = if delivery == Delivery::Sync { builder.total_frames(1_600) } else { builder };
        let mut collector = builder.build().unwrap();
        let (mut ids, mut last, deadline) = (std::collections::HashSet::new(), vec![0; 8], Instant::now() + MINUTE);
        for (i, batch) in collector.by_ref().enumerate() {
            let batch = batch.unwrap();
            for slot in (0..batch.len()).filter(|slot| batch.flags()[*slot].valid()) {
                last[batch.rows()[slot % batch.rows().len()].0 as usize] = i;
                if batch.is_init(slot) {
                    assert!(ids.insert(batch.trajectory_ids()[slot]), "an id is given twice");
                }
            }
            if delivery == Delivery::Async && last.iter().all(|last| *last >= 4) {
                break;
            }
            assert!(Instant::now() < deadline, "{delivery:?}: {last:?}");
        }
        assert!(last.iter().all(|last| *last >= 4), "{delivery:?}: {last:?}");
        assert_eq!(collector.workers(), [WorkerStatus::Working; 4]);
        // The thread of the first life may not have ended yet.
        while collector.stats().workers_alive > Some(4) && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!((collector.stats().workers, collector.stats().workers_alive), (Some(4), Some(4)));
        if delivery == Delivery::Sync {
            assert_eq!(collector.stats().stepped_frames, 1_600);
        } else {
            collector.shutdown();
        }
        closed(&collector);
    }
}

#[test]
fn the_first_worker_may_be_the_one_that_is_lost() {
    for trajs in [None, Some(3)] {
        for on_fault in [OnWorkerFault::Drop, OnWorkerFault::Restart { most: 2 }] {
            let builder = Faulty::builder(6, panics(Call::Step, 1, 2, 1)).rows(8).workers(4).frames_per_batch(80);
            let builder = builder.on_worker_fault(on_fault).total_frames(1_602);
            let builder = if let Some(n) = trajs { builder.trajs_per_batch(n) } else { builder };
            let mut collector = builder.build().unwrap();
            for batch in collector.by_ref() {
                let batch = batch.unwrap();
                assert!(batch.frames() > 0);
                if trajs.is_some() {
                    let mut frames = 0;
                    for episode in batch.trajectories() {
                        let own = batch.trajectory_ids().iter().filter(|id| **id == episode.id).count();
                        assert_eq!(own, episode.length as usize, "{episode:?}");
                        frames += own;
                    }
                    assert_eq!(frames, batch.frames());
                }
            }
            assert_eq!(collector.stats().stepped_frames, 1_602, "{on_fault:?}, {trajs:?}");
            closed(&collector);
        }
    }
}

#[test]
fn endless_episodes_do_not_hold_orders_up() {
    for delivery in BOTH {
        let builder = Faulty::builder(u32::MAX, None).rows(4).workers(2).frames_per_batch(40).delivery(delivery);
        let replay = gleaner::prelude::Replay::new(1 << 20).unwrap();
        let mode = gleaner::prelude::ReplayWriteMode::Trajectory;
        let builder = builder.replay(&replay).replay_write_mode(mode);
        let mut running = builder.build().unwrap().start().unwrap();
        let deadline = Instant::now() + MINUTE;
        while running.stats().stepped_frames < 400 {
            assert!(Instant::now() < deadline, "{:?}", running.stats());
            std::thread::yield_now();
        }
        drop(running.pause(MINUTE).unwrap());
        let begin = Instant::now();
        let mut collector = running.shutdown(MINUTE).unwrap();
        collector.shutdown();
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
        assert_eq!(collector.stats().workers_alive, Some(0));
        closed(&collector);
    }
}

#[test]
fn the_first_error_is_kept_when_restarts_are_used_up() {
    // Always row 3 in its first step: a restart does not help.
    let builder = delayed(|row| if row == 3 { Duration::from_secs(3_600) } else { Duration::ZERO });
    // Three times, so not too long; in step, the other worker has done its share at once.
    let builder = builder.rows(4).workers(2).frames_per_batch(40).worker_deadline(LATE / 2);
    let mut collector = builder.on_worker_fault(OnWorkerFault::Restart { most: 2 }).build().unwrap();
    let error = collector.by_ref().find_map(Result::err).expect("it fails for the third time");
    assert!(matches!(error, Error::Worker { worker: 1, .. }), "{error}");
    assert!(collector.next().is_none());
}

#[test]
fn the_last_worker_that_fails_ends_the_collection() {
    for delivery in BOTH {
        let builder = Faulty::builder(6, panics(Call::Step, 1, 2, 1)).rows(4).workers(1).frames_per_batch(80);
        let mut collector = builder.delivery(delivery).on_worker_fault(OnWorkerFault::Drop).build().unwrap();
        let error = collector.by_ref().find_map(Result::err).expect("it fails");
        assert!(matches!(error, Error::EnvPanic { row: 1, .. }), "{error}");
        closed(&collector);
    }
}

#[test]
fn ms06_those_that_are_lost_do_not_count_among_those_that_are_enough() {
    // With all four 3 are enough, of the three that are left 2. In whole a batch of the straggler takes 10 s.
    let act = |row, _, _| match row {
        2 => std::thread::sleep(Duration::from_millis(500)),
        3 => panic!("boom 42"),
        _ => {}
    };
    let builder = slow(5, act).rows(4).workers(4).frames_per_batch(80).preemptive_threshold(0.75);
    let mut collector = builder.on_worker_fault(OnWorkerFault::Drop).build().unwrap();
    for _ in 0..3 {
        let begin = Instant::now();
        let batch = collector.next().unwrap().unwrap();
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        assert!((41..60).contains(&batch.frames()), "{}", batch.frames());
    }
    assert_eq!(collector.workers()[3], WorkerStatus::Dead);
}

#[test]
fn what_a_lost_worker_gives_back_is_stepped_by_one_that_was_done() {
    let (failing, done) = (Gate::default(), Gate::default());
    let held = (failing.clone(), done.clone());
    // Worker 1 has its share of the budget before worker 0 begins, and fails while worker 0 steps what is left.
    let act = move |row, episode, t| match (row, episode, t) {
        (1, ..) => {
            held.0.wait();
            panic!("boom 42");
        }
        (_, 0, 0) => held.0.wait_for(1),
        (_, 0, 4) => held.1.wait(),
        _ => {}
    };
    let builder = slow(100, act).rows(2).workers(2).frames_per_batch(4).total_frames(12);
    let builder = builder.delivery(Delivery::Async).on_worker_fault(OnWorkerFault::Drop);
    let mut collector = builder.build().unwrap();
    assert_eq!(collector.next().unwrap().unwrap().frames(), 4);
    // A learner that is slow: behind the error worker 0 says that the budget is used up, before either is heard.
    failing.open();
    std::thread::sleep(Duration::from_millis(200));
    done.open();
    std::thread::sleep(Duration::from_millis(200));
    collector.by_ref().for_each(|batch| drop(batch.unwrap()));
    assert_eq!(collector.workers()[1], WorkerStatus::Dead);
    assert_eq!(collector.stats().stepped_frames, 12);
    closed(&collector);
}

#[test]
fn h2_shutdown_keeps_one_deadline_from_every_state() {
    both(|delivery| {
        let build = |delay: Duration| {
            let builder = delayed(move |_| delay).rows(4).workers(4).frames_per_batch(40).delivery(delivery);
            builder.worker_deadline(LATE).build().unwrap()
        };
        // Before the first batch, between two, and three times.
        let mut collector = build(Duration::ZERO);
        collector.shutdown();
        let mut collector = build(Duration::ZERO);
        drop(collector.next());
        (0..3).for_each(|_| collector.shutdown());
        assert!(collector.next().is_none());
        closed(&collector);
        // While one sleeps.
        let mut collector = build(Duration::from_secs(3_600));
        let begin = Instant::now();
        drop(collector.next());
        collector.shutdown();
        drop(collector);
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    });
}

#[test]
fn a_batch_outlives_its_workers() {
    for delivery in BOTH {
        let builder = Collector::<CartPole>::builder().rows(4).workers(2).frames_per_batch(40).delivery(delivery);
        let mut collector = builder.build().unwrap();
        let batch = collector.next().unwrap().unwrap();
        let monitor = collector.monitor();
        drop(collector);
        assert_eq!(batch.frames(), 40);
        assert_eq!(monitor.stats().workers_alive, Some(0));
    }
}

#[test]
fn d1_resets_reach_the_rows_they_name() {
    for delivery in BOTH {
        let builder = Faulty::builder(50, None).rows(6).workers(3).frames_per_batch(60).delivery(delivery);
        let mut collector = builder.build().unwrap();
        drop(collector.next());
        collector.reset(Rows::Some(&[1, 4])).unwrap();
        let before = collector.stats();
        // Workers on their own go on meanwhile, so that other episodes end too, or have not begun yet.
        if delivery == Delivery::Sync {
            assert_eq!(before.completed_trajectories, 2);
        }
        assert!(collector.reset(Rows::Some(&[6])).unwrap_err().to_string().contains("row is 6; legal: 0 to 5"));
        balance(&collector.stats()).unwrap();
        if delivery == Delivery::Sync {
            let batch = collector.next().unwrap().unwrap();
            let steps: Vec<_> = batch.steps()[..6].iter().map(|step| step.0).collect();
            assert_eq!(steps, [10, 0, 10, 10, 0, 10]);
        }
    }
}

#[test]
fn se01_a_seed_gives_the_same_data_again() {
    let builder = Collector::<CartPole>::builder().rows(4).workers(2).frames_per_batch(40).seed(5);
    let mut collector = builder.build().unwrap();
    let play = |collector: &mut Collector<CartPole>| format!("{:?}", collector.next().unwrap().unwrap().observations());
    let first = play(&mut collector);
    assert_ne!(play(&mut collector), first);
    assert_eq!(collector.set_seed_static(5).unwrap(), 5);
    assert_eq!(play(&mut collector), first);
    let next = collector.set_seed(5).unwrap();
    assert_ne!(next, 5);
    assert_eq!(play(&mut collector), first);
}
