//! WU-07: each worker acts by weights of its own.

use std::time::{Duration, Instant};

use super::{KINDS, of_kind, refusal};
use crate::support::{Tag, stamped_network, stamped_weights};
use gleaner::{
    config::{Delivery, OnWorkerFault},
    prelude::*,
};

const SOON: Duration = Duration::from_secs(60);

fn apart(workers: usize, delivery: Delivery) -> Collector<Tag> {
    let builder = of_kind((workers, delivery), 2 * workers).policy(stamped_network());
    builder.weight_sync(WeightSync::PerWorker).build().unwrap()
}

fn publish(collector: &Collector<Tag>, worker: usize, stamp: u64) -> u64 {
    let published = collector.models_of_worker(worker).unwrap().publish([(0, stamped_weights(stamp))]).unwrap();
    published[0].1
}

#[test]
fn wu07_each_worker_changes_on_its_own_several_times() {
    for delivery in [Delivery::Sync, Delivery::Async] {
        let mut collector = apart(3, delivery);
        // By worker: what it does under each of its versions.
        let mut history = [vec![0.0], vec![0.0], vec![0.0]];
        for round in 1..10 {
            let (worker, stamp) = (round % 3, 10 * round as u64);
            let version = publish(&collector, worker, stamp);
            history[worker].push(stamp as f32);
            assert_eq!(version, history[worker].len() as u64 - 1);
            let begin = Instant::now();
            // What was begun before is taken first, where workers go on by themselves.
            while !acts_by(&collector.next().unwrap().unwrap(), &history, worker) {
                assert!(delivery == Delivery::Async && begin.elapsed() < SOON, "{delivery:?}");
            }
            let models = collector.models_of_worker(worker).unwrap();
            models.wait_adopted(&[(0, version)], Duration::ZERO).unwrap();
        }
    }
}

/// Whether all frames of `worker` in a batch are by its newest version, and there are some. Panics for a frame by a
/// version that its worker was not given.
fn acts_by(batch: &Batch<Tag>, history: &[Vec<f32>; 3], worker: usize) -> bool {
    let mut newest = None;
    for (i, (version, action)) in batch.versions().iter().zip(batch.actions()).enumerate() {
        let own = batch.rows()[i % batch.rows().len()].0 as usize / 2;
        assert_eq!(history[own].get(*version as usize), Some(action), "worker {own}, version {version}");
        if own == worker {
            newest = Some(newest.unwrap_or(true) && *version as usize + 1 == history[own].len());
        }
    }
    newest.unwrap_or(false)
}

#[test]
fn wu07_values_behind_frames_are_by_the_weights_of_their_worker() {
    for (delivery, trajs) in [(Delivery::Sync, None), (Delivery::Async, None), (Delivery::Sync, Some(4))] {
        let builder = of_kind((3, delivery), 6).policy(stamped_network()).weight_sync(WeightSync::PerWorker);
        let builder = if let Some(n) = trajs { builder.trajs_per_batch(n) } else { builder };
        let mut collector = builder.build().unwrap();
        for (worker, stamp) in [(0, 3), (1, 5), (2, 7)] {
            publish(&collector, worker, stamp);
        }
        let (mut seen, begin) = ([false; 3], Instant::now());
        while seen != [true; 3] {
            assert!(begin.elapsed() < SOON, "{delivery:?}, {trajs:?}: {seen:?}");
            let batch = collector.next().unwrap().unwrap();
            let values = batch.bootstrap_values().unwrap();
            for i in (0..batch.len()).filter(|i| batch.flags()[*i].valid()) {
                let worker = batch.trajectory_ids()[i].worker() as usize;
                // Batches may have been begun before the weights were there.
                if batch.versions()[i] == 1 {
                    assert_eq!(values[i], [3.0, 5.0, 7.0][worker], "{delivery:?}, {trajs:?}, worker {worker}");
                    seen[worker] = true;
                }
            }
        }
    }
}

#[test]
fn wu07_workers_and_models_that_do_not_exist_are_named() {
    let collector = apart(3, Delivery::Sync);
    let error = collector.models_of_worker(3).unwrap_err().to_string();
    assert_eq!(error, "worker is 3; legal: 0 to 2");
    assert!(apart(2, Delivery::Async).erase().models_of_worker(1).is_ok());
    let error = collector.models_of_worker(0).unwrap().get(1).unwrap_err().to_string();
    assert!(error.starts_with("policy is 1") && error.ends_with(": 0"), "{error}");
    // What speaks of all is none.
    assert!(collector.weights().is_none() && collector.evaluator().is_none() && collector.models().ids().len() == 0);
    for kind in KINDS {
        let shared = of_kind(kind, 4).policy(stamped_network()).build().unwrap();
        let error = shared.models_of_worker(0).unwrap_err().to_string();
        assert!(error.contains("PerWorker"), "{error}");
    }
}

#[test]
fn wu02_weights_per_worker_are_for_workers_and_for_good() {
    let inline = of_kind(KINDS[0], 4).policy(stamped_network()).weight_sync(WeightSync::PerWorker);
    assert_eq!(refusal(inline), ("weight_sync", "workers"));
    let random = of_kind(KINDS[1], 4).weight_sync(WeightSync::PerWorker);
    assert_eq!(refusal(random), ("weight_sync", "policy"));
    let mut collector = apart(2, Delivery::Sync);
    assert!(collector.set_weight_sync(WeightSync::Shared).unwrap_err().to_string().contains("for good"));
    collector.set_weight_sync(WeightSync::PerWorker).unwrap();
    let mut shared = of_kind(KINDS[1], 4).policy(stamped_network()).build().unwrap();
    assert!(shared.set_weight_sync(WeightSync::PerWorker).unwrap_err().to_string().contains("for good"));
}

#[test]
fn wu07_each_worker_goes_on_by_its_own_weights_after_a_load() {
    let mut collector = apart(2, Delivery::Sync);
    publish(&collector, 1, 5);
    collector.next().unwrap().unwrap();
    publish(&collector, 0, 6);
    publish(&collector, 0, 7);
    let mut file = Vec::new();
    collector.save_to(&mut file).unwrap();
    let mut later = apart(2, Delivery::Sync);
    later.load_from(&mut &file[..]).unwrap();
    for collector in [&mut collector, &mut later] {
        let batch = collector.next().unwrap().unwrap();
        assert!(batch.actions().chunks(4).all(|tick| tick == [7.0, 7.0, 5.0, 5.0]), "{:?}", batch.actions());
        assert_eq!(batch.versions()[..4], [2, 2, 1, 1]);
        for (worker, version) in [(0, 2), (1, 1)] {
            let models = collector.models_of_worker(worker).unwrap();
            models.wait_adopted(&[(0, version)], SOON).unwrap();
        }
    }
}

#[test]
fn wu07_a_collection_in_the_background_takes_weights_per_worker() {
    let replay = Replay::new(10_000).unwrap();
    let builder = of_kind((2, Delivery::Async), 4).policy(stamped_network()).on_worker_fault(OnWorkerFault::Drop);
    let running = builder.weight_sync(WeightSync::PerWorker).replay(&replay).build().unwrap().start().unwrap();
    assert!(running.weights().is_none());
    for worker in 0..2 {
        let models = running.models_of_worker(worker).unwrap();
        let epoch = models.publish([(0, stamped_weights(worker as u64))]).unwrap();
        models.wait_adopted(&epoch, SOON).unwrap();
    }
    assert!(running.models_of_worker(2).is_err());
    running.shutdown(SOON).unwrap();
}
