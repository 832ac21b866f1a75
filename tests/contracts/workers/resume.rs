//! I7 over workers in step: a run that was saved and goes on in new workers yields what it would have yielded.

use std::sync::Arc;

use crate::support::{Ending, Script, balance, sampling_network, tags};
use gleaner::{
    config::Delivery,
    env::AsyncBatched,
    policy::{Exploration, plan::Activation},
    prelude::{Batch, CartPole, Collector, Error, NetworkSpec, Policy},
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

fn read(batch: &Batch<CartPole>) -> String {
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

#[test]
fn ck03_what_does_not_fit_changes_nothing() {
    let mut file = Vec::new();
    let mut saved = collector(2, None);
    drop(saved.next());
    saved.save_to(&mut file).unwrap();
    let refused = |mut other: Collector<CartPole>, file: &[u8]| {
        let before = other.stats();
        let error = other.load_from(&mut &file[..]).unwrap_err();
        assert_eq!(other.stats(), before, "{error}");
        // It goes on as if nothing had been.
        assert!(other.next().unwrap().is_ok());
        error.to_string()
    };
    assert!(refused(collector(3, None), &file).contains("it has 2 workers; legal: 3"));
    assert!(refused(collector(2, Some(3)), &file).contains("joins whole trajectories"));
    refused(collector(0, None), &file);
    for cut in (0..file.len()).step_by(file.len() / 64) {
        refused(collector(2, None), &file[..cut]);
        let mut flipped = file.clone();
        flipped[cut] ^= 0x40;
        refused(collector(2, None), &flipped);
    }
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
