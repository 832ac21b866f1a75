//! I7 over workers in step: a run that was saved and goes on in new workers yields what it would have yielded.

use std::{
    collections::HashSet,
    fmt::Debug,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::support::{Call, Ending, Fault, Faulty, Kind, Script, Tag, balance, sampling_network, tags};
use gleaner::{
    components::WorkerStatus,
    config::{Delivery, OnWorkerFault},
    env::AsyncBatched,
    policy::{Exploration, plan::Activation},
    prelude::{Batch, CartPole, Collector, Error, NetworkSpec, Policy, Task},
};

fn collector(workers: usize, trajs: Option<usize>) -> Collector<CartPole> {
    let policy = Policy::network(NetworkSpec::mlp(&[8], Activation::Tanh)).seed(3);
    let builder = Collector::<CartPole>::builder().rows(5).frames_per_batch(50).total_frames(730).seed(11);
    let builder = builder.workers(workers).policy(policy).exploration(Exploration::Sample).init_random_frames(123);
    match trajs {
        Some(n) => builder.trajs_per_batch(n).build().unwrap(),
        None => builder.build().unwrap(),
    }
}

fn read<T: Task<Observation: Debug, Action: Debug>>(batch: &Batch<T>) -> String {
    let played = (batch.observations(), batch.actions(), batch.rewards(), batch.ends(), batch.log_probs());
    let noted = (batch.steps(), batch.trajectory_ids(), batch.versions(), batch.flags(), batch.trajectories());
    format!("{} {played:?} {noted:?}", batch.index())
}

#[test]
fn i7_it_goes_on_in_new_workers() {
    for trajs in [None, Some(3)] {
        for workers in [1, 2, 5] {
            let whole: Vec<_> = collector(workers, trajs).map(|batch| read(&batch.unwrap())).collect();
            for k in 0..whole.len().min(8) {
                let mut first = collector(workers, trajs);
                let mut read_all: Vec<_> = first.by_ref().take(k).map(|batch| read(&batch.unwrap())).collect();
                let mut file = Vec::new();
                first.save_to(&mut file).unwrap();
                let mut second = collector(workers, trajs);
                second.load_from(&mut &file[..]).unwrap();
                assert_eq!(second.stats(), first.stats());
                drop(first);
                read_all.extend(second.by_ref().map(|batch| read(&batch.unwrap())));
                assert_eq!(read_all, whole, "{workers} workers, saved behind {k} batches, {trajs:?}");
                balance(&second.stats()).unwrap();
            }
        }
    }
}

/// Three workers of two rows each. The second one fails whenever its second row plays an episode whose number is 2 more than
/// a multiple of 4: after 12 of its frames, and after as many of each further life.
fn failing(on_fault: OnWorkerFault, trajs: Option<usize>) -> Collector<Tag> {
    let [short, long] = [4, 7].map(|length| vec![(length, Ending::Terminated)]);
    let own = vec![(4, Ending::Terminated), (5, Ending::Truncated), (3, Ending::Panic), (6, Ending::Truncated)];
    let script = Arc::new(Script(vec![short, long.clone(), long, own]));
    let builder = tags(script).rows(6).workers(3).frames_per_batch(60).total_frames(725).on_worker_fault(on_fault);
    let builder = builder.policy(sampling_network()).init_random_frames(100);
    match trajs {
        Some(n) => builder.trajs_per_batch(n).build().unwrap(),
        None => builder.build().unwrap(),
    }
}

#[test]
fn i7_a_restarted_worker_goes_on_and_a_lost_one_stays_lost() {
    for on_fault in [OnWorkerFault::Drop, OnWorkerFault::Restart { most: 100 }] {
        for trajs in [None, Some(3)] {
            for k in [1, 2, 3, 6] {
                let what = format!("{on_fault:?}, {trajs:?}, saved behind {k} batches");
                let mut first = failing(on_fault, trajs);
                first.by_ref().take(k).for_each(|batch| drop(batch.unwrap()));
                let mut file = Vec::new();
                first.save_to(&mut file).unwrap();
                let mut second = failing(on_fault, trajs);
                second.load_from(&mut &file[..]).unwrap_or_else(|error| panic!("{what}: {error}"));
                let works = |collector: &Collector<Tag>| {
                    collector.workers().iter().map(|status| *status == WorkerStatus::Working).collect::<Vec<_>>()
                };
                assert_eq!(works(&second), works(&first), "{what}");
                // Threads of lives before may not have ended yet.
                let until = Instant::now() + Duration::from_secs(60);
                while first.stats().workers_alive != second.stats().workers_alive && Instant::now() < until {
                    thread::yield_now();
                }
                assert_eq!(second.stats(), first.stats(), "{what}");
                let [went_on, wanted] = [&mut second, &mut first]
                    .map(|collector| collector.map(|batch| read(&batch.unwrap())).collect::<Vec<_>>());
                assert_eq!(went_on, wanted, "{what}");
                for collector in [&first, &second] {
                    let stats = collector.stats();
                    balance(&stats).unwrap();
                    assert_eq!((stats.stepped_frames, stats.in_flight_frames), (725, 0), "{what}");
                    assert_eq!(stats.frames + stats.discarded.total(), 725, "{what}");
                    assert!(stats.discarded.fault > 0, "{what}: nothing failed");
                }
                assert_eq!(first.stats().frames, second.stats().frames, "{what}");
            }
        }
    }
}

#[test]
fn i7_a_life_behind_a_checkpoint_plays_episodes_of_its_own() {
    let life = |life: u32| life << 24;
    let fails = |episode| Fault { call: Call::Step, kind: Kind::Panic, row: 3, episode, step: 1 };
    let new = || {
        let builder = Faulty::builder(6, [fails(2), fails(life(1) + 5)]).rows(4).workers(2).frames_per_batch(40);
        builder.on_worker_fault(OnWorkerFault::Restart { most: 1 }).build().unwrap()
    };
    let mut ids = HashSet::new();
    // Until a row of the second worker plays an episode from this one on.
    let mut play = |collector: &mut Collector<Faulty>, episode: u32| {
        for batch in collector.by_ref().take(100) {
            let batch = batch.unwrap();
            for slot in (0..batch.len()).filter(|slot| batch.is_init(*slot)) {
                assert!(ids.insert(batch.trajectory_ids()[slot]), "an id is given twice");
            }
            if batch.observations().iter().any(|seen| seen[0] >= episode as f32) {
                return;
            }
        }
        panic!("no row comes to episode {episode}");
    };
    let mut first = new();
    play(&mut first, life(1));
    let mut file = Vec::new();
    first.save_to(&mut file).unwrap();
    drop(first);
    let mut second = new();
    second.load_from(&mut &file[..]).unwrap();
    play(&mut second, life(2));
    balance(&second.stats()).unwrap();
}

/// Why a collector does not load a file; it goes on as if nothing had been.
fn refused<T: Task>(mut other: Collector<T>, file: &[u8]) -> String {
    let before = other.stats();
    let error = other.load_from(&mut &file[..]).unwrap_err();
    assert_eq!(other.stats(), before, "{error}");
    assert!(other.next().unwrap().is_ok());
    error.to_string()
}

/// What a collector saves behind some batches.
fn saved<T: Task>(mut collector: Collector<T>, batches: usize) -> Vec<u8> {
    let mut file = Vec::new();
    collector.by_ref().take(batches).for_each(|batch| drop(batch.unwrap()));
    collector.save_to(&mut file).unwrap();
    file
}

/// Cut short or with a wrong bit it is refused.
fn check_spoilt<T: Task>(new: impl Fn() -> Collector<T>, file: &[u8]) {
    for cut in (0..file.len()).step_by(file.len() / 32) {
        refused(new(), &file[..cut]);
        let mut flipped = file.to_vec();
        flipped[cut] ^= 0x40;
        refused(new(), &flipped);
    }
}

#[test]
fn ck03_what_does_not_fit_changes_nothing() {
    let file = saved(collector(2, None), 1);
    assert!(refused(collector(3, None), &file).contains("it has 2 workers; legal: 3"));
    assert!(refused(collector(2, Some(3)), &file).contains("joins whole trajectories"));
    refused(collector(0, None), &file);
    check_spoilt(|| collector(2, None), &file);
    let without_one = || failing(OnWorkerFault::Drop, None);
    check_spoilt(without_one, &saved(without_one(), 3));
}

#[test]
fn ck06_rows_under_way_are_not_saved() {
    let script = || Script::all(4, Ending::Terminated);
    let own = tags(script()).rows(4).workers(2).delivery(Delivery::Async).build().unwrap();
    let pooled = tags(Arc::clone(&script())).rows(4).async_batched(AsyncBatched::default()).build().unwrap();
    for collector in [own, pooled] {
        let error = collector.save_to(&mut Vec::new()).unwrap_err();
        assert!(matches!(error, Error::State { call: "save", .. }), "{error}");
    }
    let joined = tags(script()).rows(4).workers(2).policy(sampling_network()).trajs_per_batch(2).build().unwrap();
    joined.save_to(&mut Vec::new()).unwrap();
}
