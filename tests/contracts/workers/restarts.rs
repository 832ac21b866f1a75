//! A worker's next life is built on its own thread and under the deadline, and is told apart from the one before.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use gleaner::{
    components::WorkerStatus,
    config::{Delivery, OnWorkerFault},
    prelude::{Collector, Error, NetworkSpec, Policy},
};

use crate::support::{
    Call, Fault, Faulty, Kind, balance,
    slow::{Gate, slow},
};

const MINUTE: Duration = Duration::from_secs(60);

/// Long enough that no worker but one that hangs is ever late, however busy the machine is.
const LATE: Duration = Duration::from_secs(4);

/// Workers 0 and 1 of two rows each. Row 3 fails once in each life; its second environment hangs as it is built, or is
/// refused.
fn failing(hangs: bool, gate: &Gate, delivery: Delivery, most: u32) -> Collector<Faulty> {
    let (built, gate) = (Arc::new(AtomicU32::new(0)), gate.clone());
    let fault = Fault { call: Call::Step, kind: Kind::Panic, row: 3, episode: 2, step: 1 };
    let factory = Collector::<Faulty>::with_factory(move |context| {
        if context.row == 3 && built.fetch_add(1, Relaxed) == 1 {
            if !hangs {
                return Err("no such level".into());
            }
            gate.wait();
        }
        Ok(Faulty::new(6, Some(fault), context.row))
    });
    let builder = factory.rows(4).workers(2).frames_per_batch(40).delivery(delivery).worker_deadline(LATE);
    builder.on_worker_fault(OnWorkerFault::Restart { most }).build().unwrap()
}

#[test]
fn x7_rows_that_cannot_be_built_again_do_not_hold_up_the_caller() {
    std::thread::scope(|scope| {
        for (hangs, delivery) in
            [false, true].into_iter().flat_map(|hangs| [(hangs, Delivery::Sync), (hangs, Delivery::Async)])
        {
            scope.spawn(move || {
                let gate = Gate::default();
                // One restart is not enough: the error is the first one.
                let mut collector = failing(hangs, &gate, delivery, 1);
                let begin = Instant::now();
                let error = collector.by_ref().find_map(Result::err).expect("it fails");
                assert!(matches!(error, Error::EnvPanic { row: 3, episode: 2, .. }), "{error}");
                assert!(begin.elapsed() < MINUTE, "{:?}", begin.elapsed());
                assert!(collector.next().is_none());
                let stats = collector.stats();
                balance(&stats).unwrap();
                assert_eq!(stats.frames + stats.discarded.total(), stats.stepped_frames);
                // The next one is, and plays other episodes than the one that came to nothing.
                let mut collector = failing(hangs, &gate, delivery, 2);
                let mut newest = 0.0;
                while newest < (1 << 25) as f32 {
                    let batch = collector.next().unwrap().unwrap();
                    newest = batch.observations().iter().map(|seen| seen[0]).fold(newest, f32::max);
                    assert!(begin.elapsed() < 2 * MINUTE, "{delivery:?}");
                }
                assert_eq!(collector.workers(), [WorkerStatus::Working; 2]);
                gate.open();
                collector.shutdown();
                let stats = collector.stats();
                balance(&stats).unwrap();
                assert_eq!(stats.frames + stats.discarded.total(), stats.stepped_frames);
            });
        }
    });
}

#[test]
fn e4_what_a_life_before_adopts_is_not_its_successors() {
    let (first, second, third) = (Gate::default(), Gate::default(), Gate::default());
    let held = [first.clone(), second.clone(), third.clone()];
    let act = move |row, episode, t| match (row, episode, t) {
        (1, 0, 0) => held[0].wait(),
        (1, 0, 1) => held[1].wait(),
        // Of the second life.
        (1, _, 0) => held[2].wait(),
        _ => std::thread::sleep(Duration::from_millis(1)),
    };
    let builder = slow(5, act).rows(2).workers(2).frames_per_batch(20).delivery(Delivery::Async);
    let builder = builder.policy(Policy::network(NetworkSpec::default())).worker_deadline(LATE / 2);
    let mut collector = builder.on_worker_fault(OnWorkerFault::Restart { most: 3 }).build().unwrap();
    let until = Instant::now() + MINUTE;
    while third.came() == 0 {
        drop(collector.next().unwrap().unwrap());
        assert!(Instant::now() < until, "{:?}", collector.workers());
    }
    // Nobody waits for a batch from here on, so nobody is late.
    let weights = collector.weights().unwrap();
    let version = weights.increment_version().unwrap();
    first.open();
    second.wait_for(1);
    // The first life has ended a tick, and adopted.
    let early = weights.wait_adopted_by(version, &[1], Duration::from_millis(200));
    assert!(matches!(early, Err(Error::Timeout { .. })), "{early:?}");
    third.open();
    weights.wait_adopted_by(version, &[1], MINUTE).unwrap();
    second.open();
}

#[test]
fn what_a_life_before_acted_by_is_not_counted_among_what_acts() {
    let fault = Fault { call: Call::Step, kind: Kind::Panic, row: 3, episode: 2, step: 1 };
    let builder = Faulty::builder(6, [fault]).rows(4).workers(2).frames_per_batch(40);
    let builder = builder.policy(Policy::network(NetworkSpec::default()));
    let mut collector = builder.on_worker_fault(OnWorkerFault::Restart { most: 1 }).build().unwrap();
    let weights = collector.weights().unwrap();
    for version in 1..10 {
        weights.increment_version().unwrap();
        drop(collector.next().unwrap().unwrap());
        assert_eq!(collector.stats().policy_version, Some(version));
    }
    assert!(collector.stats().discarded.fault > 0, "nothing failed");
}
