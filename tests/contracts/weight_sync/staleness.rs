//! C4, E12: how old the weights are that a frame acted under, and that this is kept by pacing: nothing is discarded, and no
//! worker starves.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use super::{of_kind, refusal};
use crate::support::{
    Call, Ending, Fault, Faulty, Kind, Script, Tag, balance, stamp, stamped_network, stamped_weights, tags,
};
use bevy_ecs::prelude::IntoScheduleConfigs;
use gleaner::{
    components::{Worker, WorkerStatus},
    config::{CollectorBuilder, Delivery, OnWorkerFault, ReplayWriteMode},
    env::RowStepper,
    policy::Exploration,
    prelude::*,
    schedule::CollectSystems,
};

const SOON: Duration = Duration::from_secs(60);

/// Workers on their own of two rows each and ten ticks a batch, the first of which is slow.
fn paced(workers: usize, most: u64) -> CollectorBuilder<Tag, RowStepper<Tag>> {
    let builder = tags(Script::all(7, Ending::Terminated)).rows(2 * workers).frames_per_batch(20);
    let builder = builder.policy(stamped_network()).exploration(Exploration::Mode);
    let builder = builder.workers(workers).delivery(Delivery::Async).max_staleness(most);
    builder.setup(|world, schedule| {
        let is_first = world.query::<&Worker>().single(world).is_ok_and(|worker| worker.index == 0);
        if is_first {
            schedule.add_systems((|| thread::sleep(Duration::from_micros(20))).in_set(CollectSystems::Step));
        }
    })
}

/// The worker of a batch.
fn worker_of(batch: &Batch<Tag>) -> usize {
    batch.rows()[0].0 as usize / 2
}

#[test]
fn c4_e12_no_frame_is_older_than_asked_for_and_no_worker_starves() {
    const BATCHES: u64 = 400;
    for (workers, most) in (1..=3).flat_map(|workers| [0, 1, 4].map(|most| (workers, most))) {
        let mut collector = paced(workers, most).build().unwrap();
        let weights = collector.weights().unwrap();
        let (mut of_worker, mut oldest) = (vec![0; workers], 0);
        for number in 0..BATCHES {
            let batch = collector.next().unwrap().unwrap();
            for (version, action) in batch.versions().iter().zip(batch.actions()) {
                oldest = oldest.max(number - version);
                assert_eq!(*action, stamp(*version));
            }
            assert!(oldest <= most, "{workers} workers, at most {most}: {oldest}");
            of_worker[worker_of(&batch)] += 1;
            // As long as a worker needs for some batches.
            if number % 100 == 0 {
                thread::sleep(Duration::from_millis(5));
            }
            weights.publish(stamped_weights(number + 1)).unwrap();
        }
        let least = BATCHES / (most + workers as u64 + 1);
        assert!(of_worker.iter().all(|batches| *batches >= least), "at most {most}: {of_worker:?}");
        let stats = collector.stats();
        balance(&stats).unwrap();
        assert_eq!(stats.discarded.total(), 0);
        // At 0 nobody steps while a batch is used.
        assert!(most > 0 || stats.stepped_frames == stats.frames, "{stats:?}");
        let ahead = stats.stepped_frames - stats.frames;
        assert!(ahead <= most * 20, "{ahead} frames, at most {most} batches");
        collector.shutdown();
        let stats = collector.stats();
        balance(&stats).unwrap();
        assert_eq!((stats.in_flight_frames, stats.frames), (0, BATCHES * 20));
    }
}

#[test]
fn e12_what_is_written_to_a_buffer_is_no_older() {
    let replay = Replay::<Tag>::new(10_000).unwrap();
    let seen = Arc::new(Mutex::new(0));
    let to = seen.clone();
    let builder = paced(3, 2).replay(&replay).total_frames(20 * 300);
    let builder = builder.post_collect(move |batch| {
        *to.lock().unwrap() = batch.versions().iter().copied().min().unwrap_or(0);
        Ok(())
    });
    let mut collector = builder.build().unwrap();
    let weights = collector.weights().unwrap();
    let mut writes = 0;
    while let Some(receipt) = collector.next_receipt() {
        receipt.unwrap();
        let oldest = *seen.lock().unwrap();
        assert!(weights.version() - oldest <= 2, "{oldest} at {}", weights.version());
        weights.publish(stamped_weights(weights.version() + 1)).unwrap();
        writes += 1;
    }
    assert_eq!((writes, replay.write_count()), (300, 6_000));
}

#[test]
fn a_paced_collection_in_the_background_can_be_paused() {
    for most in [0, 3] {
        let replay = Replay::<Tag>::new(100_000).unwrap();
        let mut running = paced(2, most).replay(&replay).build().unwrap().start().unwrap();
        let mut frames = 400;
        for _ in 0..5 {
            running.wait_written(frames, SOON).unwrap();
            let paused = running.pause(SOON).unwrap();
            frames = replay.write_count() + 400;
            drop(paused);
        }
        let version = running.weights().unwrap().publish(stamped_weights(1)).unwrap();
        running.weights().unwrap().wait_adopted(version, SOON).unwrap();
        let mut collector = running.shutdown(SOON).unwrap();
        let before = collector.stats().frames;
        collector.next_receipt().unwrap().unwrap();
        assert!(collector.stats().frames > before);
    }
}

#[test]
fn b2_a_paced_collection_keeps_its_budget() {
    for (most, total) in [(0, 1), (0, 333), (1, 400), (5, 777)] {
        let mut collector = paced(3, most).total_frames(total).build().unwrap();
        let frames: usize = collector.by_ref().map(|batch| batch.unwrap().frames()).sum();
        let stats = collector.stats();
        assert_eq!((frames as u64, stats.stepped_frames, stats.discarded.total()), (total, total, 0), "at most {most}");
    }
}

#[test]
fn a_paced_collection_goes_on_without_a_worker_that_failed() {
    let fault = Fault { call: Call::Step, kind: Kind::Panic, row: 3, episode: 2, step: 1 };
    for (most, on_fault) in [0, 3]
        .into_iter()
        .flat_map(|most| [OnWorkerFault::Drop, OnWorkerFault::Restart { most: 1 }].map(|on_fault| (most, on_fault)))
    {
        let builder = Faulty::builder(6, Some(fault)).rows(8).workers(4).frames_per_batch(80).total_frames(1_600);
        let builder = builder.delivery(Delivery::Async).on_worker_fault(on_fault).max_staleness(most);
        let mut collector = builder.build().unwrap();
        collector.by_ref().for_each(|batch| drop(batch.unwrap()));
        let stats = collector.stats();
        balance(&stats).unwrap();
        assert_eq!((stats.stepped_frames, stats.in_flight_frames), (1_600, 0), "{most}, {on_fault:?}");
        let status = if on_fault == OnWorkerFault::Drop { WorkerStatus::Dead } else { WorkerStatus::Working };
        assert_eq!(collector.workers()[1], status);
    }
}

#[test]
fn fd05_pacing_is_for_workers_on_their_own() {
    let pace = |kind| of_kind(kind, 4).policy(stamped_network()).max_staleness(1);
    assert_eq!(refusal(pace((0, Delivery::Sync))), ("max_staleness", "workers"));
    assert_eq!(refusal(pace((2, Delivery::Sync))), ("max_staleness", "delivery"));
    assert_eq!(refusal(pace((2, Delivery::Async)).trajs_per_batch(2)), ("max_staleness", "trajs_per_batch"));
    let replay = Replay::new(100).unwrap();
    let whole = pace((2, Delivery::Async)).replay(&replay).replay_write_mode(ReplayWriteMode::Trajectory);
    assert_eq!(refusal(whole), ("max_staleness", "replay_write_mode"));
    assert!(pace((2, Delivery::Async)).replay(&replay).build().is_ok());
}
