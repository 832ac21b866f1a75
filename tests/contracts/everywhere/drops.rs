//! X7: an environment that panics when it is dropped ends no process and holds nobody up, whoever steps the rows: at the
//! end, in the background, beside another failure and in `build()`.

use std::{sync::Arc, thread, time::Instant};

use bevy_ecs::prelude::{IntoScheduleConfigs, Query};
use gleaner::{config::CollectorBuilder, env::RowStepper, prelude::*};

use super::SOON;
use crate::support::{ANY, Call, Fault, Faulty, Kind, Stepping, balance, slow::Gate};

fn panics(call: Call, row: u32, episode: u32, step: u32) -> Fault {
    Fault { call, kind: Kind::Panic, row, episode, step }
}

/// Rows that all fail at the end, and maybe before.
fn builder(before: Option<Fault>) -> CollectorBuilder<Faulty, RowStepper<Faulty>> {
    let faults = [before, Some(panics(Call::Drop, ANY, ANY, ANY))].into_iter().flatten();
    Faulty::builder(6, faults).rows(4).frames_per_batch(40)
}

#[test]
fn x7_it_ends_like_any_other() {
    for stepping in Stepping::ALL {
        for batches in [0, 2] {
            let mut collector = stepping.set(builder(None)).build().unwrap();
            collector.by_ref().take(batches).for_each(|batch| drop(batch.unwrap()));
            if batches > 0 {
                collector.shutdown();
                balance(&collector.stats()).unwrap();
            }
        }
        let replay = Replay::new(10_000).unwrap();
        let start = || stepping.set(builder(None).replay(&replay)).build().unwrap().start().unwrap();
        let mut running = start();
        running.wait_written(100, SOON).unwrap();
        drop(running.shutdown(SOON).unwrap().start().unwrap());
        drop(start());
    }
}

#[test]
fn x7_beside_another_failure_that_one_is_told() {
    for stepping in Stepping::ALL {
        let fault = panics(Call::Step, 2, 1, 3);
        let mut collector = stepping.set(builder(Some(fault))).build().unwrap();
        let error = collector.by_ref().find_map(Result::err).expect("row 2 fails");
        assert!(matches!(error, Error::EnvPanic { call: "step", row: 2, .. }), "{error}");
        balance(&collector.stats()).unwrap();
        drop(collector);
        let replay = Replay::new(10_000).unwrap();
        let running = stepping.set(builder(Some(fault)).replay(&replay)).build().unwrap().start().unwrap();
        while running.is_running() {
            thread::yield_now();
        }
        // Its rows come back with the error.
        let error = running.shutdown(SOON).expect_err("row 2 has failed");
        assert!(matches!(error, Error::EnvPanic { call: "step", row: 2, .. }), "{error}");
    }
}

#[test]
fn x7_what_was_built_before_an_error_is_dropped() {
    for stepping in Stepping::ALL {
        for (call, name) in [(Call::Build, "build"), (Call::Reset, "reset"), (Call::Mask, "action_mask")] {
            let built = stepping.set(builder(Some(panics(call, 3, 0, 0)))).build();
            // A pool's first episodes begin with the first batch.
            let error = built.and_then(|mut collector| collector.next().expect("endless")).expect_err("row 3 fails");
            assert!(matches!(error, Error::EnvPanic { call, row: 3, .. } if call == name), "{stepping:?}: {error}");
        }
    }
}

#[test]
fn x7_two_lanes_are_two_tables() {
    let mut collector = builder(None).overlap(Overlap::Two).build().unwrap();
    collector.next().unwrap().unwrap();
}

#[test]
fn x7_a_collector_that_was_stuck_ends_by_itself() {
    let (gate, token, replay) = (Gate::default(), Arc::new(()), Replay::new(10_000).unwrap());
    let held = (gate.clone(), token.clone());
    let stand = move |_: Query<&Action<Faulty>>| {
        let (gate, _token) = &held;
        gate.wait();
    };
    let builder = builder(None).replay(&replay).setup(move |_, schedule| {
        schedule.add_systems(stand.clone().in_set(CollectSystems::Record));
    });
    let running = builder.build().unwrap().start().unwrap();
    gate.wait_for(1);
    let error = running.shutdown(std::time::Duration::from_millis(50)).expect_err("it is stuck");
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    gate.open();
    // What the systems hold goes last.
    let until = Instant::now() + SOON;
    while Arc::strong_count(&token) > 1 {
        assert!(Instant::now() < until, "its thread has not ended");
        thread::yield_now();
    }
}
