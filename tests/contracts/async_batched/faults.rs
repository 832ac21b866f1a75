//! X1, X7, X12 and H1: panics and failures of environments on the pool's threads end the collection by name, or restart
//! their row; the threads stay.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use gleaner::{
    components::Truncation,
    prelude::{AsyncBatched, Collector, Error, FaultPolicy},
};

use crate::support::{ANY, Call, Fault, Faulty, Kind, balance};

#[test]
fn x1_a_panic_names_call_row_episode_step_and_seed() {
    for (call, name, row, episode, step) in [
        (Call::Step, "step", 3, 0, 0),
        (Call::Step, "step", 0, 2, 4),
        (Call::Reset, "reset", 5, 0, 0),
        (Call::Reset, "reset", 5, 3, 0),
        (Call::Mask, "action_mask", 1, 1, 0),
        (Call::Mask, "action_mask", 7, 2, 3),
    ] {
        let fault = Fault { call, kind: Kind::Panic, row, episode, step };
        for trajectories in [false, true] {
            let builder = Faulty::builder(6, Some(fault)).rows(8).frames_per_batch(40).seed(77);
            let builder = if trajectories { builder.trajs_per_batch(3) } else { builder };
            let mut collector = builder.async_batched(AsyncBatched::default()).build().unwrap();
            let begun = Instant::now();
            let error = collector.by_ref().find_map(Result::err).expect("a panic");
            let Error::EnvPanic { call, ref message, .. } = error else { panic!("{error}") };
            assert_eq!((call, message.as_str()), (name, "boom 42"));
            let place = format!("row {row}, episode {episode}, step {step}, seed 77");
            assert!(error.to_string().contains(&place), "{error} is not of {place}");
            assert!(collector.next().is_none());
            let stats = collector.stats();
            balance(&stats).unwrap();
            assert_eq!((stats.in_flight_frames, stats.abandoned), (0, Some(0)));
            drop(collector);
            assert!(begun.elapsed() < Duration::from_secs(30));
        }
    }
}

#[test]
fn x7_a_factory_and_a_first_reset_that_fail_are_errors() {
    let fault = |call, kind| Some(Fault { call, kind, row: 1, episode: 0, step: 0 });
    for kind in [Kind::Panic, Kind::Nan] {
        let builder = Faulty::builder(6, fault(Call::Build, kind)).rows(2).async_batched(AsyncBatched::default());
        assert!(builder.build().is_err(), "the first environments are built by build()");
        let builder = Faulty::builder(6, fault(Call::Reset, kind)).rows(2).async_batched(AsyncBatched::default());
        let error = builder.build().unwrap().next().unwrap().unwrap_err();
        assert!(error.to_string().contains("row 1, episode 0"), "{error}");
    }
}

#[test]
fn x12_a_row_that_panics_starts_anew_and_the_others_go_on() {
    for (call, episode, step) in [(Call::Step, 2, 4), (Call::Reset, 2, 0), (Call::Mask, 1, 3), (Call::Reset, 0, 0)] {
        let fault = Fault { call, kind: Kind::Panic, row: 1, episode, step };
        // The environment counts episodes by its stream, so the fault comes once.
        let builder = Faulty::builder(6, Some(fault)).rows(3).frames_per_batch(50).total_frames(500).trajs_per_batch(4);
        // In step, so that none takes the budget before row 1 has come to its fault.
        let options = AsyncBatched { min_ready: 3, window: Duration::from_secs(60), ..AsyncBatched::default() };
        let builder = builder.on_fault(FaultPolicy::RestartRow { retries: 1 });
        let mut collector = builder.async_batched(options).build().unwrap();
        let mut cut = Vec::new();
        while let Some(batch) = collector.next() {
            let batch = batch.unwrap();
            for i in 0..batch.len() {
                assert_eq!(batch.observations()[i][1] as u32, batch.steps()[i].0);
            }
            cut.extend(batch.trajectories().iter().filter(|t| t.end.truncation() == Some(Truncation::Fault)).copied());
            balance(&collector.stats()).unwrap();
        }
        let stats = collector.stats();
        assert_eq!((stats.stepped_frames, stats.row_restarts, stats.abandoned), (500, 1, Some(0)), "{call:?}");
        // A step that fails, or the reset behind it, costs its frame; the frames before it are a trajectory.
        let steps = (call, episode) != (Call::Reset, 0);
        assert_eq!(stats.discarded.fault, u64::from(steps));
        let lengths: Vec<_> = cut.iter().map(|t| (t.row.0, t.length)).collect();
        let before = match call {
            Call::Reset => 5,
            Call::Mask => step - 1,
            _ => step,
        };
        assert_eq!(lengths, if steps { vec![(1, before)] } else { vec![] }, "{call:?}");
    }
}

#[test]
fn x12_a_row_that_never_starts_ends_the_collection_with_the_first_error() {
    let built = Arc::new(AtomicU32::new(0));
    let count = built.clone();
    let fault = Fault { call: Call::Reset, kind: Kind::Panic, row: 0, episode: ANY, step: 0 };
    let factory = Collector::<Faulty>::with_factory(move |context| {
        count.fetch_add(1, Relaxed);
        Ok(Faulty::new(6, Some(fault), context.row))
    });
    let builder = factory.rows(1).seed(4).on_fault(FaultPolicy::RestartRow { retries: 3 });
    let mut collector = builder.async_batched(AsyncBatched::default()).build().unwrap();
    let error = collector.next().unwrap().unwrap_err();
    assert!(matches!(error, Error::EnvPanic { call: "reset", row: 0, episode: 0, .. }), "{error}");
    assert!(error.to_string().contains("boom 42"), "{error}");
    assert_eq!((built.load(Relaxed), collector.stats().row_restarts), (4, 3));
}

#[test]
fn h2_an_environment_whose_drop_panics_ends_like_any_other() {
    let fault = Fault { call: Call::Drop, kind: Kind::Panic, row: ANY, episode: ANY, step: ANY };
    let builder = Faulty::builder(6, Some(fault)).rows(4).frames_per_batch(20);
    let mut collector = builder.async_batched(AsyncBatched::default()).build().unwrap();
    collector.next().unwrap().unwrap();
    collector.shutdown();
    drop(collector);
}
