//! FD-03 to FD-06: what goes with workers, and what does not, is known when a collector is built.

use std::time::Duration;

use crate::support::{Ending, Script, Tag, tags};
use gleaner::{
    config::{Delivery, OnWorkerFault},
    prelude::{Collector, Executor, NetworkSpec, Overlap, Policy},
};

fn script() -> std::sync::Arc<Script> {
    Script::all(4, Ending::Terminated)
}

/// The message of the error that a builder of 8 rows gives.
macro_rules! refused {
    ($($option:ident($value:expr)).*) => {{
        let built = tags(script()).rows(8)$(.$option($value))*.build();
        built.err().expect("the options do not go together").to_string()
    }};
}

#[test]
fn fd05_options_of_workers_need_workers() {
    let messages = [
        refused!(delivery(Delivery::Async)),
        refused!(worker_rows(vec![4, 4])),
        refused!(preemptive_threshold(0.5)),
        refused!(worker_deadline(Duration::from_secs(1))),
        refused!(on_worker_fault(OnWorkerFault::Drop)),
    ];
    let names = ["delivery", "worker_rows", "preemptive_threshold", "worker_deadline", "on_worker_fault"];
    for (message, name) in messages.iter().zip(names) {
        assert!(message.contains(name) && message.contains("workers"), "{message}");
    }
}

#[test]
fn fd04_options_of_one_world_exclude_workers() {
    let messages = [
        refused!(workers(2).threads(2)),
        refused!(workers(2).executor(Executor::MultiThreaded)),
        refused!(workers(2).overlap(Overlap::Two)),
        refused!(workers(2).worker(1)),
        refused!(workers(2).delivery(Delivery::Async).preemptive_threshold(0.5)),
        refused!(workers(2).reset_at_each_iter(true).preemptive_threshold(0.5)),
    ];
    let names = ["threads", "executor", "overlap", "worker", "preemptive_threshold", "reset_at_each_iter"];
    for (message, name) in messages.iter().zip(names) {
        assert!(message.contains(name), "{message}");
    }
    // All are waited for.
    tags(script()).rows(8).workers(2).reset_at_each_iter(true).preemptive_threshold(1.0).build().unwrap();
    let simulator = Collector::with_simulator(Tag::simulator(&script(), 8)).rows(8).workers(2).build();
    let message = simulator.expect_err("one simulator").to_string();
    assert!(message.contains("with_simulator") && message.contains("workers"), "{message}");
    let spec = NetworkSpec::from_ron_str("(normalize: Some((clip: 10)))").unwrap();
    let normalized = tags(script()).rows(8).workers(2).policy(Policy::network(spec)).build();
    let message = normalized.expect_err("statistics of each worker").to_string();
    assert!(message.contains("normalize") && message.contains("workers"), "{message}");
}

#[test]
fn fd03_numbers_of_workers_and_their_rows() {
    assert!(refused!(workers(9)).contains("workers is 9; legal: 1 to 8"));
    for rows in [vec![4], vec![4, 5], vec![8, 0], vec![3, 3, 2]] {
        let message = refused!(workers(2).worker_rows(rows.clone()));
        assert!(message.contains(&format!("worker_rows is {rows:?}")), "{message}");
    }
    for share in [0.0, -1.0, 1.1, f32::NAN] {
        assert!(refused!(workers(2).preemptive_threshold(share)).contains("preemptive_threshold"));
    }
    assert!(refused!(workers(2).worker_deadline(Duration::ZERO)).contains("worker_deadline"));
    let given = tags(script()).rows(8).workers(3).worker_rows(vec![5, 1, 2]).frames_per_batch(8).build().unwrap();
    assert_eq!(given.rows(), 8);
    assert_eq!(given.workers().len(), 3);
}

#[test]
fn b2_every_kind_keeps_its_budget() {
    for delivery in [None, Some(Delivery::Sync), Some(Delivery::Async)] {
        let builder = tags(script()).rows(4).frames_per_batch(10).total_frames(60);
        let builder = match delivery {
            None => builder,
            Some(delivery) => builder.workers(2).delivery(delivery),
        };
        let frames: Vec<_> = builder.build().unwrap().map(|batch| batch.unwrap().frames()).collect();
        assert_eq!(frames.iter().sum::<usize>(), 60, "{delivery:?}: {frames:?}");
        if delivery != Some(Delivery::Async) {
            assert_eq!(frames, [12; 5], "{delivery:?}");
        }
    }
}
