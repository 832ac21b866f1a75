//! The invariants of what is collected hold for any rows, horizon, mode, options, threads and executor; and each checker
//! rejects a log in which one thing is wrong.

mod support;

use std::sync::Arc;

use gleaner::{
    components::{End, Truncation},
    prelude::TrajectoryId,
};
use proptest::{prelude::*, test_runner::Config};
use support::{
    Case, Ending, Log, Mode, Publish, Script, case, check_blanks, check_flags, check_ids, check_ledger, check_links,
    check_streams, check_versions, mixed, mixed_with_workers, with_async_workers, with_workers,
};

fn cases() -> Config {
    Config { cases: 256, failure_persistence: None, ..Config::default() }
}

fn holds(check: Result<(), String>) -> Result<(), TestCaseError> {
    check.map_err(TestCaseError::fail)
}

proptest! {
    #![proptest_config(cases())]

    /// O-03 too.
    #[test]
    fn i1_links(case in case()) {
        holds(check_links(&case.run()))?;
    }

    #[test]
    fn i2_flags(case in case()) {
        holds(check_flags(&case.run()))?;
    }

    /// O-05 too.
    #[test]
    fn i3_ledger(case in case()) {
        holds(check_ledger(&case.run()))?;
    }

    /// O-04 too.
    #[test]
    fn i3_i4_ledger_and_ids_over_resets_seeds_and_reloads((case, acts) in mixed()) {
        let log = case.act(&acts).map_err(TestCaseError::fail)?;
        holds(check_ids(&log))?;
    }

    #[test]
    fn i5_versions(case in case()) {
        holds(check_versions(&case.run()))?;
    }

    #[test]
    fn i6_streams(case in case(), horizon in 1..=33_usize) {
        holds(check_streams(&case, horizon))?;
    }

    #[test]
    fn i13_blanks(case in case()) {
        holds(check_blanks(&case.run()))?;
    }
}

/// All that must hold of what was collected.
fn all_hold(log: &Log) -> Result<(), TestCaseError> {
    for check in [check_links, check_flags, check_ledger, check_ids, check_versions, check_blanks] {
        holds(check(log))?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    /// The same invariants over workers.
    #[test]
    fn i16_workers_in_step(case in with_workers()) {
        all_hold(&case.run())?;
    }

    #[test]
    fn i16_workers_on_their_own(case in with_async_workers()) {
        all_hold(&case.run())?;
    }

    #[test]
    fn i16_workers_over_resets_and_seeds((case, acts) in mixed_with_workers()) {
        let log = case.act(&acts).map_err(TestCaseError::fail)?;
        holds(check_ids(&log))?;
    }

    /// Workers in step yield what one world with all rows yields.
    #[test]
    fn o02_i6_workers_are_like_one_world(case in with_workers()) {
        let case = Case { publish: Publish::Nobody, sample: true, ..case };
        let (workers, one) = (case.run(), Case { workers: 0, threads: 1, ..case.clone() }.run());
        prop_assert_eq!(frames(&workers), frames(&one));
        prop_assert_eq!(trajectories(&workers), trajectories(&one));
    }
}

/// The frames in their order, but for the numbers of episodes.
fn frames(log: &Log) -> Vec<String> {
    let frame = |frame: &support::Frame| format!("{:?}", support::Frame { id: TrajectoryId(0), ..frame.clone() });
    log.frames.iter().map(frame).collect()
}

fn trajectories(log: &Log) -> Vec<gleaner::components::Trajectory> {
    let numbered = |trajectory: &gleaner::components::Trajectory| gleaner::components::Trajectory {
        id: TrajectoryId(0),
        ..*trajectory
    };
    log.trajectories.iter().map(numbered).collect()
}

#[test]
fn i6_another_seed_gives_other_data() {
    let first = Case { sample: true, ..Case::default() };
    let second = Case { seed: first.seed + 1, ..first.clone() };
    assert_ne!(first.run().essence(), second.run().essence());
}

/// A collection with something of everything, for the mutations.
fn plain() -> Log {
    let script = Script(vec![vec![(3, Ending::Terminated), (4, Ending::Truncated)], vec![(6, Ending::Nan)]]);
    let case = Case { rows: 3, horizon: 8, total: 65, script: Arc::new(script), random: 5, ..Case::default() };
    Case { publish: Publish::Between, edge: true, ..case }.run()
}

/// Asserts that `check` accepts the log and rejects it after `mutate`.
fn rejects(check: fn(&Log) -> Result<(), String>, mutate: impl FnOnce(&mut Log)) {
    let mut log = plain();
    assert_eq!(check(&log), Ok(()));
    mutate(&mut log);
    assert!(check(&log).is_err(), "the mutation went unseen");
}

#[test]
fn i1_rejects_a_mutation() {
    // Rows shifted by one, an observation of the next episode as the last one, a lost frame, a lost end.
    rejects(check_links, |log| (log.frames[0].next, log.frames[1].next) = (log.frames[1].next, log.frames[0].next));
    rejects(check_links, |log| {
        let end = log.frames.iter().position(|frame| frame.end.terminated()).expect("an end");
        let reset = log.frames.iter().find(|frame| frame.step == 0).expect("a start").observation;
        (log.frames[end].next, log.frames[end].last) = (reset, Some(reset));
    });
    rejects(check_links, |log| {
        log.frames.remove(3);
    });
    rejects(check_links, |log| log.frames.swap(0, 3));
}

#[test]
fn i2_rejects_a_mutation() {
    // A cleared flag, an overwritten one, one without need.
    let own = |log: &Log| log.frames.iter().position(|frame| frame.end.terminated()).expect("an end");
    rejects(check_flags, |log| {
        let end = own(log);
        log.frames[end].end = End::RUNNING;
    });
    rejects(check_flags, |log| {
        let end = own(log);
        log.frames[end].end = End::truncated_by(Truncation::BatchEdge);
    });
    rejects(check_flags, |log| log.frames[0].end = End::truncated_by(Truncation::StepLimit));
}

#[test]
fn i3_rejects_a_mutation() {
    // A dropped frame, a frame counted twice, a trajectory that is too long, one that is not listed.
    rejects(check_ledger, |log| {
        log.frames.pop();
    });
    rejects(check_ledger, |log| log.notes[1].stats.stepped_frames += 1);
    rejects(check_ledger, |log| log.trajectories[0].length += 1);
    rejects(check_ledger, |log| log.trajectories.truncate(log.trajectories.len() - 1));
}

#[test]
fn i4_rejects_a_mutation() {
    // One id for two episodes, two ids for one.
    rejects(check_ids, |log| {
        let id = log.frames[0].id;
        log.frames.iter_mut().rev().for_each(|frame| frame.id = id);
    });
    rejects(check_ids, |log| log.frames[3].id = TrajectoryId::new(0, 1 << 40));
}

#[test]
fn i5_rejects_a_mutation() {
    // Weights that came one batch late, a policy that ran in the warm-up.
    rejects(check_versions, |log| log.frames.last_mut().expect("frames").version -= 1);
    rejects(check_versions, |log| log.frames[0].value = Some(1.0));
    rejects(check_versions, |log| log.frames[0].random = false);
}

#[test]
fn i6_rejects_a_mutation() {
    let log = Case { sample: true, rows: 3, ..Case::default() }.run();
    let mut other = log.clone();
    other.frames.swap(0, 1);
    let noise = other.frames[0].observation.noise;
    assert_eq!(log.essence(), other.essence(), "order within a tick is no matter");
    other.frames[1].observation.noise = noise;
    assert_ne!(log.essence(), other.essence());
}

#[test]
fn i13_rejects_a_mutation() {
    rejects(check_blanks, |log| log.notes[0].dirty.push(1));
    rejects(check_blanks, |log| log.notes[0].drawn.truncate(3));
    rejects(check_blanks, |log| log.notes[0].frames += 1);
}

/// O-06: both layouts hold the same trajectories in the same order.
#[test]
fn o6_padded_and_flat_hold_the_same() {
    let script = Arc::new(Script(vec![vec![(3, Ending::Terminated), (7, Ending::Truncated)], vec![(5, Ending::Nan)]]));
    let flat = Case { rows: 5, total: 400, script, mode: Mode::Cat(4), sample: true, ..Case::default() };
    let padded = Case { mode: Mode::Padded(4), ..flat.clone() }.run();
    let flat = flat.run();
    assert_eq!(flat.trajectories, padded.trajectories);
    assert_eq!(flat.frames, padded.frames);
    assert!(padded.notes.iter().any(|note| note.layout.slots() > note.frames), "no padding was needed");
}
