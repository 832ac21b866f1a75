//! User code that fails ends the iteration with one error that says where, after a clean shutdown; the ledger closes.

use std::sync::Arc;

use bevy_ecs::prelude::{IntoScheduleConfigs, Query};

use crate::support::{ANY, Call, Ending, Fault, Faulty, Kind, Script, Seen, Tag, balance, tags};
use gleaner::{
    policy::Policy,
    prelude::{Action, CollectSystems, Collector, Error, Executor, Observation, Rows, Task},
};

fn panics(call: Call, row: u32, episode: u32, step: u32) -> Fault {
    Fault { call, kind: Kind::Panic, row, episode, step }
}

/// Collects until the error, and checks what must hold behind it.
fn error_of<T: Task>(mut collector: Collector<T>) -> Error {
    let error = loop {
        match collector.next() {
            Some(Ok(_)) => {}
            Some(Err(error)) => break error,
            None => panic!("the iteration ended without the error"),
        }
    };
    assert!((0..3).all(|_| collector.next().is_none()));
    assert!(matches!(collector.rollout(), Err(Error::State { call: "rollout", .. })));
    let stats = collector.stats();
    balance(&stats).unwrap();
    assert_eq!(stats.in_flight_frames, 0);
    assert_eq!(stats.frames + stats.discarded.total(), stats.stepped_frames);
    assert_eq!(stats.trajectory_pending_frames, 0);
    for _ in 0..3 {
        collector.shutdown();
    }
    assert_eq!(collector.stats(), stats);
    error
}

#[test]
fn sc40_a_panic_names_call_worker_row_episode_step_and_seed() {
    let faults = [
        (panics(Call::Step, 3, 0, 0), "step"),
        (panics(Call::Step, 0, 2, 4), "step"),
        (panics(Call::Reset, 5, 3, 0), "reset"),
        (panics(Call::Mask, 1, 1, 0), "action_mask"),
        (panics(Call::Mask, 7, 2, 3), "action_mask"),
    ];
    for (fault, name) in faults {
        for (threads, executor) in [(1, Executor::SingleThreaded), (2, Executor::MultiThreaded)] {
            for trajectories in [false, true] {
                let builder = Faulty::builder(6, Some(fault)).rows(8).frames_per_batch(40).seed(77);
                let builder = builder.threads(threads).step_rows_per_thread(1).executor(executor);
                let builder = if trajectories { builder.trajs_per_batch(3) } else { builder };
                let error = error_of(builder.build().unwrap());
                let Error::EnvPanic { call, ref message, worker, row, episode, step, seed } = error else {
                    panic!("{error}")
                };
                assert_eq!((call, message.as_str(), worker, seed), (name, "boom 42", 0, 77));
                assert_eq!((row, episode, step), (fault.row, fault.episode, fault.step), "{fault:?}");
                let place = format!("row {row}, episode {episode}, step {step}, seed 77");
                assert!(error.to_string().contains(&place), "{error}");
            }
        }
    }
}

#[test]
fn sc40_frames_before_the_panic_are_delivered_or_counted() {
    let fault = panics(Call::Step, 1, 0, 12);
    let mut collector = Faulty::builder(20, Some(fault)).rows(2).frames_per_batch(10).build().unwrap();
    let batches: Vec<_> = collector.by_ref().collect();
    assert_eq!(batches.len(), 3);
    assert!(batches[0].is_ok() && batches[1].is_ok() && batches[2].is_err());
    // Two ticks of the third rollout, and row 0 in the tick that failed.
    let stats = collector.stats();
    assert_eq!((stats.frames, stats.stepped_frames), (20, 25));
    assert_eq!((stats.discarded.shutdown, stats.discarded.fault), (4, 1));
}

#[test]
fn sc40_the_lowest_row_of_several_is_reported() {
    let build = || {
        tags(Script::all(4, Ending::Terminated)).rows(16).frames_per_batch(160).policy(Policy::function(
            |observations: &[crate::support::Seen], _, _, actions: &mut [f32]| {
                for (seen, action) in observations.iter().zip(actions) {
                    *action = if seen.row > 5.0 && seen.t == 2.0 { f32::NAN } else { 0.0 };
                }
            },
        ))
    };
    for threads in [1, 2, 8] {
        let error = error_of(build().threads(threads).infer_rows_per_thread(1).build().unwrap());
        assert!(matches!(error, Error::IllegalAction { row: 5, tick: 2, .. }), "{error}");
    }
    build().policy(Policy::function(|_, _, _, actions: &mut [f32]| actions.fill(f32::NAN)).trusted()).build().unwrap();
}

#[test]
fn sc41_a_failure_is_never_a_silent_end() {
    // On the very first frame, and on the very last of the budget.
    for step in [0, 9] {
        let fault = panics(Call::Step, 0, 0, step);
        let mut collector = Faulty::builder(50, Some(fault)).frames_per_batch(10).total_frames(10).build().unwrap();
        assert!(matches!(collector.next(), Some(Err(Error::EnvPanic { .. }))));
        assert!(collector.next().is_none());
    }
}

#[test]
fn x7_a_row_that_cannot_be_built_is_a_build_error() {
    let error = Faulty::builder(6, Some(panics(Call::Build, 2, 0, 0))).rows(4).seed(9).build().unwrap_err();
    assert!(matches!(error, Error::EnvPanic { call: "build", row: 2, seed: 9, .. }), "{error}");
    let refused = Fault { kind: Kind::Nan, ..panics(Call::Build, 2, 0, 0) };
    let error = Faulty::builder(6, Some(refused)).rows(4).build().unwrap_err();
    assert!(matches!(error, Error::Factory { row: 2, .. }), "{error}");
    assert!(error.to_string().contains("no such level"));
    let error = Faulty::builder(6, Some(panics(Call::Reset, 1, 0, 0))).rows(4).build().unwrap_err();
    assert!(matches!(error, Error::EnvPanic { call: "reset", row: 1, episode: 0, step: 0, .. }), "{error}");
    let error = Faulty::builder(6, Some(panics(Call::Mask, 3, 0, 0))).rows(4).build().unwrap_err();
    assert!(matches!(error, Error::EnvPanic { call: "action_mask", row: 3, .. }), "{error}");
}

#[test]
fn a_reset_by_hand_that_panics_ends_the_collection() {
    let fault = panics(Call::Reset, 1, 1, 0);
    let mut collector = Faulty::builder(50, Some(fault)).rows(2).frames_per_batch(10).build().unwrap();
    collector.next().unwrap().unwrap();
    let error = collector.reset(Rows::All).unwrap_err();
    assert!(matches!(error, Error::EnvPanic { call: "reset", row: 1, episode: 1, step: 0, .. }), "{error}");
    assert!(collector.next().is_none(), "a row without a first observation goes on");
    balance(&collector.stats()).unwrap();
}

#[test]
fn a_policy_that_panics_is_named() {
    let policy = Policy::function(|observations: &[crate::support::Seen], _, _, _: &mut [f32]| {
        assert!(observations[0].t < 3.0, "no idea");
    });
    let builder = tags(Script::all(9, Ending::Terminated)).rows(4).frames_per_batch(40).policy(policy);
    let error = error_of(builder.build().unwrap());
    assert!(matches!(error, Error::PolicyPanic { first_row: 0, last_row: 3, tick: 3, .. }), "{error}");
    assert!(error.to_string().contains("no idea"));
}

#[test]
fn sc40_a_simulator_is_held_to_the_same() {
    let build = |lists: Vec<Vec<(u32, Ending)>>| {
        let simulator = Tag::simulator(&Arc::new(Script(lists)), 5);
        Collector::with_simulator(simulator).rows(5).frames_per_batch(50).seed(3).build().unwrap()
    };
    let error = error_of(build(vec![vec![(3, Ending::Panic)]]));
    assert!(matches!(error, Error::EnvPanic { call: "step", episode: 0, step: 2, seed: 3, .. }), "{error}");
    // The second episode of row 2 fails as it begins.
    let row = |second| vec![(4, Ending::Truncated), second];
    let [sound, fails] = [row((4, Ending::Truncated)), row((0, Ending::Panic))];
    let error = error_of(build(vec![sound.clone(), sound.clone(), fails, sound.clone(), sound]));
    assert!(matches!(error, Error::EnvPanic { call: "reset", row: 2, episode: 1, step: 0, .. }), "{error}");
}

#[test]
fn a_mask_that_allows_nothing_is_named() {
    let fault = Fault { call: Call::Mask, kind: Kind::Forbid, row: ANY, episode: 1, step: 1 };
    let error = error_of(Faulty::builder(4, Some(fault)).rows(3).worker(7).frames_per_batch(30).build().unwrap());
    assert!(matches!(error, Error::NoLegalAction { row: 0, episode: 1, step: 1, .. }), "{error}");
}

#[test]
fn a_workers_number_is_in_ids_and_errors() {
    let fault = panics(Call::Step, 1, 0, 2);
    let mut collector = Faulty::builder(5, Some(fault)).rows(2).frames_per_batch(2).worker(3).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    assert!(batch.trajectory_ids().iter().all(|id| id.worker() == 3 && id.serial() > 0));
    assert_eq!(collector.worker(), Some(3));
    assert!(matches!(error_of(collector), Error::EnvPanic { worker: 3, row: 1, .. }));
}

/// The step as an action, and in step 2 of rows from 2 on one that no space allows.
fn illegal_at_two(seen: &Seen) -> f32 {
    if seen.row > 2.0 && seen.t == 2.0 { f32::INFINITY } else { seen.t }
}

/// Four ticks of four rows, for which a host's system acts.
fn illegal(policy: Policy<Tag>) -> Collector<Tag> {
    let builder = tags(Script::all(9, Ending::Terminated)).rows(4).frames_per_batch(16).policy(policy);
    let act = |mut rows: Query<(&mut Action<Tag>, &Observation<Tag>)>| {
        rows.iter_mut().for_each(|(mut action, seen)| action.0 = illegal_at_two(&seen.0));
    };
    builder.setup(move |_, schedule| _ = schedule.add_systems(act.in_set(CollectSystems::Infer))).build().unwrap()
}

#[test]
fn an_illegal_action_of_a_hosts_system_is_an_error_that_names_the_row() {
    let error = error_of(illegal(Policy::system()));
    assert!(matches!(error, Error::IllegalAction { row: 2, tick: 2, .. }), "{error}");
    assert!(error.to_string().contains("element 0 is inf"), "{error}");
}

#[test]
fn who_is_trusted_is_not_checked() {
    let function = || {
        Policy::function(|seen: &[Seen], _, _, actions: &mut [f32]| {
            seen.iter().zip(actions).for_each(|(seen, action)| *action = illegal_at_two(seen));
        })
    };
    let build = |policy| tags(Script::all(9, Ending::Terminated)).rows(4).frames_per_batch(16).policy(policy);
    let error = error_of(build(function()).build().unwrap());
    assert!(matches!(error, Error::IllegalAction { row: 2, tick: 2, .. }), "{error}");
    for mut collector in [build(function().trusted()).build().unwrap(), illegal(Policy::system().trusted())] {
        let batch = collector.next().unwrap().unwrap();
        let given: Vec<f32> = batch.observations().iter().map(illegal_at_two).collect();
        assert_eq!(batch.actions(), given);
        assert_eq!(given.iter().filter(|action| action.is_infinite()).count(), 2);
    }
}
