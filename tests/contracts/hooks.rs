//! User code around batches: called once each, replaceable at any time, and heard when it fails.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread::sleep,
    time::Duration,
};

use crate::support::{Ending, Script, Tag, balance, slow::slow, tags};
use gleaner::{
    BoxError,
    prelude::{AsyncBatched, Batch, Collector, Delivery, Error, Replay, ReplayWriteMode},
};

fn builder() -> gleaner::config::CollectorBuilder<Tag, gleaner::env::RowStepper<Tag>> {
    tags(Script::all(5, Ending::Terminated)).rows(2).frames_per_batch(20).total_frames(100)
}

const SOON: Duration = Duration::from_secs(60);

/// A hook that counts its calls.
fn count(calls: Arc<AtomicUsize>) -> impl FnMut() -> Result<(), BoxError> + Send {
    move || {
        calls.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// A counter and a clone of it.
fn counter() -> (Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let counter = Arc::new(AtomicUsize::new(0));
    (counter.clone(), counter)
}

#[test]
fn hk1_pre_collect_runs_before_each_rollout() {
    let ((calls, inside), (stepped, log)) = (counter(), counter());
    let mut collector = builder().reset_at_each_iter(true).build().unwrap();
    let monitor = collector.monitor();
    collector.set_pre_collect(move || {
        log.store(monitor.stats().stepped_frames as usize, Relaxed);
        inside.fetch_add(1, Relaxed);
        Ok(())
    });
    for number in 0..5 {
        collector.next().unwrap().unwrap();
        assert_eq!((calls.load(Relaxed), stepped.load(Relaxed)), (number + 1, number * 20));
    }
    assert!(collector.next().is_none());
    assert_eq!(calls.load(Relaxed), 5);
}

#[test]
fn hk1_pre_collect_runs_once_for_each_batch_of_rows_that_do_not_step_together() {
    let pooled = || builder().total_frames(1_000).async_batched(AsyncBatched::default());
    for pool in [pooled(), pooled().trajs_per_batch(3)] {
        let (calls, inside) = counter();
        let mut collector = pool.pre_collect(count(inside)).build().unwrap();
        for number in 1..20 {
            collector.next().unwrap().unwrap();
            assert_eq!(calls.load(Relaxed), number);
        }
    }
    for mode in [ReplayWriteMode::Rollout, ReplayWriteMode::Trajectory] {
        let (replay, (calls, inside)) = (Replay::new(2_000).unwrap(), counter());
        let pool = pooled().replay(&replay).replay_write_mode(mode).pre_collect(count(inside));
        let collector = pool.build().unwrap();
        let mut running = collector.start().unwrap();
        running.wait_written(500, SOON).unwrap();
        let batches = running.shutdown(SOON).unwrap().stats().batches as usize;
        // One may have begun.
        assert!((batches..=batches + 1).contains(&calls.load(Relaxed)), "{mode:?}: {calls:?} of {batches}");
    }
    // A worker on its own whose batches take longer than looks for them.
    let (replay, (calls, inside)) = (Replay::new(2_000).unwrap(), counter());
    let slow = slow(5, |_, _, _| sleep(Duration::from_millis(15))).rows(2).frames_per_batch(40).workers(1);
    let slow = slow.delivery(Delivery::Async).replay(&replay).pre_collect(count(inside));
    let mut running = slow.build().unwrap().start().unwrap();
    running.wait_written(80, SOON).unwrap();
    let batches = running.shutdown(SOON).unwrap().stats().batches as usize;
    assert!((batches..=batches + 1).contains(&calls.load(Relaxed)), "{calls:?} of {batches}");
}

#[test]
fn hk2_post_collect_sees_the_very_batch() {
    let (place, inside) = counter();
    let mut collector = builder()
        .post_process(|batch| Ok(batch.select(&[3, 1])?))
        .post_collect(move |batch| {
            inside.store(batch.rewards().as_ptr() as usize, Relaxed);
            assert_eq!(batch.frames(), 2, "it comes behind post-processing");
            Ok(())
        })
        .build()
        .unwrap();
    for _ in 0..3 {
        let batch = collector.next().unwrap().unwrap();
        assert_eq!(batch.rewards().as_ptr() as usize, place.load(Relaxed));
    }
}

#[test]
fn hk3_hooks_are_replaced_at_any_time() {
    let ((first, a), (second, b), (whole, c)) = (counter(), counter(), counter());
    let count = |counter: Arc<AtomicUsize>| {
        move |_: &Batch<Tag>| {
            counter.fetch_add(1, Relaxed);
            Ok(())
        }
    };
    let mut collector = builder().post_collect(count(a)).build().unwrap();
    collector.next().unwrap().unwrap();
    collector.rollout().unwrap();
    collector.set_post_collect(count(b));
    collector.set_post_process(move |batch| {
        c.fetch_add(batch.frames(), Relaxed);
        Ok(batch)
    });
    let frames: usize = collector.by_ref().map(|batch| batch.unwrap().frames()).sum();
    assert_eq!((first.load(Relaxed), second.load(Relaxed), frames), (2, 3, 60));
    assert_eq!(whole.load(Relaxed), 60);
}

#[test]
fn hk3_hooks_see_batches_of_trajectories() {
    let (calls, inside) = counter();
    let mut collector = builder()
        .trajs_per_batch(3)
        .post_collect(move |batch| {
            assert!(batch.trajectories().len() <= 3);
            inside.fetch_add(1, Relaxed);
            Ok(())
        })
        .build()
        .unwrap();
    let batches = collector.by_ref().filter(|batch| batch.is_ok()).count();
    assert_eq!((calls.load(Relaxed), collector.stats().batches), (batches, batches as u64));
}

/// Two batches, then the hook's error, then nothing.
fn fails(mut collector: Collector<Tag>, name: &str) {
    let results: Vec<_> = collector.by_ref().collect();
    assert_eq!(results.iter().filter(|batch| batch.is_ok()).count(), 2, "{name}");
    let Some(Err(Error::Hook { hook, source })) = results.last() else { panic!("{name}: {results:?}") };
    assert_eq!((*hook, source.to_string().as_str()), (name, "disk full"));
    assert!(collector.next().is_none());
    let stats = collector.stats();
    balance(&stats).unwrap();
    assert_eq!(stats.in_flight_frames, 0);
    let lost = if name == "pre_collect" { 0 } else { 20 };
    assert_eq!((stats.discarded.post_processing, stats.stepped_frames), (lost, 40 + lost));
}

#[test]
fn hk4_errors_reach_the_caller_and_stop() {
    let third = || {
        let mut calls = 0;
        move || {
            calls += 1;
            if calls == 3 { Err("disk full") } else { Ok(()) }
        }
    };
    let (mut pre, mut post, mut process) = (third(), third(), third());
    fails(builder().pre_collect(move || Ok(pre()?)).build().unwrap(), "pre_collect");
    fails(builder().post_collect(move |_| Ok(post()?)).build().unwrap(), "post_collect");
    fails(builder().post_process(move |batch| Ok(process().map(|()| batch)?)).build().unwrap(), "post_process");
}

#[test]
fn sc14_post_processing_may_change_a_batchs_size() {
    let keep = |batch: Batch<Tag>| {
        let slots: Vec<usize> = (0..batch.len()).filter(|i| batch.ends()[*i].done()).collect();
        Ok(batch.select(&slots)?)
    };
    let mut collector = builder().post_process(keep).build().unwrap();
    for batch in &mut collector {
        let batch = batch.unwrap();
        assert_eq!(batch.frames(), 4);
        assert!((0..4).all(|i| batch.ends()[i].terminated() && batch.next_observation(i).t == 5.0));
        assert!((0..4).all(|i| batch.final_observation(i) == Some(batch.next_observation(i))));
    }
    // Frames are counted before.
    let stats = collector.stats();
    assert_eq!((stats.frames, stats.discarded.post_processing, stats.batches), (100, 80, 5));
    balance(&stats).unwrap();
}

#[test]
fn sc14_a_batch_may_be_emptied_or_doubled() {
    let mut collector = builder().post_process(|batch| Ok(batch.select(&[])?)).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    assert!(batch.is_empty() && batch.trajectories().is_empty());
    assert_eq!(batch.minibatches(2, 0).map(|part| part.len()).sum::<usize>(), 0);
    collector.set_post_process(|batch| Ok(batch.select(&[0, 0, 1, 1].repeat(10))?));
    assert_eq!(collector.next().unwrap().unwrap().frames(), 40);
    let stats = collector.stats();
    assert_eq!((stats.frames, stats.discarded.post_processing), (40, 20));
    balance(&stats).unwrap();
}

/// The panic of a hook is an error like any other: the arena and the ledger are in order behind it.
#[test]
fn hk4_a_panic_is_an_error() {
    for name in ["pre_collect", "post_process", "post_collect"] {
        let builder = builder().max_arenas(1);
        let built = match name {
            "pre_collect" => builder.pre_collect(|| panic!("boom 42")).build(),
            "post_process" => builder.post_process(|_| panic!("boom 42")).build(),
            _ => builder.post_collect(|_| panic!("boom 42")).build(),
        };
        let mut collector = built.unwrap();
        let error = collector.next().unwrap().expect_err("the hook panics");
        assert!(matches!(error, Error::Hook { hook, .. } if hook == name), "{error}");
        assert!(error.to_string().contains("boom 42"), "{error}");
        balance(&collector.stats()).unwrap();
    }
}
