//! X7: a worker whose environments panic when they are dropped is restarted or left out like any other, also if it was stuck
//! and ends late. What went wrong at the end is told.

use std::{
    thread,
    time::{Duration, Instant},
};

use bevy_ecs::prelude::{IntoScheduleConfigs, Query};
use gleaner::{
    components::WorkerStatus,
    config::{CollectorBuilder, Delivery, OnWorkerFault},
    env::RowStepper,
    prelude::{CollectSystems, Collector, Error, RowIndex},
};

use crate::support::{ANY, Call, Fault, Faulty, Kind, balance, slow::Gate};

const MINUTE: Duration = Duration::from_secs(60);

/// Long enough that no worker but one that hangs is ever late, however busy the machine is.
const LATE: Duration = Duration::from_secs(4);

fn panics(call: Call, row: u32, episode: u32, step: u32) -> Fault {
    Fault { call, kind: Kind::Panic, row, episode, step }
}

/// Workers 0 and 1 of two rows each.
fn builder(faults: impl IntoIterator<Item = Fault>) -> CollectorBuilder<Faulty, RowStepper<Faulty>> {
    let faults = faults.into_iter().chain([panics(Call::Drop, ANY, ANY, ANY)]);
    Faulty::builder(6, faults).rows(4).workers(2).frames_per_batch(40).worker_deadline(LATE)
}

/// Calls `test` with every delivery and what is done about a fault, at once.
fn each(test: impl Fn(Delivery, OnWorkerFault) + Sync) {
    let test = &test;
    thread::scope(|scope| {
        for delivery in [Delivery::Sync, Delivery::Async] {
            for on_fault in [OnWorkerFault::Drop, OnWorkerFault::Restart { most: 1 }] {
                scope.spawn(move || test(delivery, on_fault));
            }
        }
    });
}

/// Collects until the second worker is lost, or its second life is heard of.
fn lose_second(collector: &mut Collector<Faulty>) {
    let (until, mut second_life) = (Instant::now() + MINUTE, false);
    while collector.workers()[1] == WorkerStatus::Working && !second_life {
        assert!(Instant::now() < until, "{:?}", collector.workers());
        let batch = collector.next().unwrap().unwrap();
        second_life = batch.observations().iter().any(|seen| seen[0] >= (1 << 24) as f32);
    }
}

/// Ends it; both workers say what went wrong, once.
fn end(mut collector: Collector<Faulty>) {
    let row = |error| match error {
        Error::EnvPanic { call: "drop", row, .. } => row,
        error => panic!("{error}"),
    };
    let rows: Vec<_> = collector.shutdown_within(MINUTE).into_iter().map(row).collect();
    assert_eq!(rows, [0, 2]);
    assert!(collector.shutdown_within(MINUTE).is_empty());
    let stats = collector.stats();
    balance(&stats).unwrap();
    assert_eq!((stats.workers_alive, stats.in_flight_frames), (Some(0), 0));
}

#[test]
fn x7_a_worker_that_failed_is_dropped_like_any_other() {
    each(|delivery, on_fault| {
        let builder = builder([panics(Call::Step, 3, 2, 1)]).delivery(delivery).on_worker_fault(on_fault);
        let mut collector = builder.build().unwrap();
        lose_second(&mut collector);
        end(collector);
    });
}

#[test]
fn x7_one_that_was_stuck_is_dropped_where_it_wakes() {
    each(|delivery, on_fault| {
        let gate = Gate::default();
        let held = gate.clone();
        // The second worker's first life.
        let stand = move |rows: Query<&RowIndex>| {
            if held.came() == 0 && rows.iter().any(|row| row.0 == 3) {
                held.wait();
            }
        };
        let builder = builder([]).delivery(delivery).on_worker_fault(on_fault).worker_deadline(LATE / 2);
        let builder = builder.setup(move |_, schedule| {
            schedule.add_systems(stand.clone().in_set(CollectSystems::Record));
        });
        let mut collector = builder.build().unwrap();
        lose_second(&mut collector);
        let (alive, until) = (collector.stats().workers_alive, Instant::now() + MINUTE);
        gate.open();
        while collector.stats().workers_alive == alive {
            assert!(Instant::now() < until, "its thread has not ended");
            thread::yield_now();
        }
        end(collector);
    });
}
