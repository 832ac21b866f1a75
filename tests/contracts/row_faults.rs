//! X1, X7, X12: a row whose environment panics or cannot start gets a new one, if that is wanted: it costs the frame that
//! failed, other rows keep their bits, the ledger closes, and the first error is kept. In one world and with workers.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use bevy_ecs::prelude::Component;
use gleaner::{
    components::{End, Truncation, WorkerStatus},
    config::CollectorBuilder,
    env::{Env, RowStepper, Transition},
    prelude::{
        Collector, Delivery, Error, Executor, FaultPolicy, OnWorkerFault, Overlap, Replay, ReplayWriteMode, Rows,
        Space, Stream, Task,
    },
};

use crate::support::{ANY, Call, Ending, Fault, Faulty, Kind, Script, Tag, balance};

type Builder = CollectorBuilder<Faulty, RowStepper<Faulty>>;

const RETRY: FaultPolicy = FaultPolicy::RestartRow { retries: 1 };

/// The row that fails.
const ROW: usize = 3;
const ROWS: usize = 8;

fn panics(call: Call, row: u32, episode: u32, step: u32) -> Fault {
    Fault { call, kind: Kind::Panic, row, episode, step }
}

/// Every way in which rows step together.
fn in_step() -> Vec<fn(Builder) -> Builder> {
    vec![
        |builder| builder,
        |builder| builder.threads(2).step_rows_per_thread(1).executor(Executor::MultiThreaded),
        |builder| builder.overlap(Overlap::Two),
        |builder| builder.workers(2),
        |builder| builder.workers(3),
    ]
}

/// What a row had, slot by slot: whether there is a frame, observation, action, reward, end, step.
type Slot = (bool, [f32; 2], i32, f32, End, u32);

/// By row. Looks at the ledger after each batch.
fn play<T>(mut collector: Collector<T>) -> Vec<Vec<Slot>>
where
    T: Task<Observation = [f32; 2], Action = i32>,
{
    let (mut rows, mut frames) = (vec![Vec::new(); collector.rows()], 0);
    while let Some(batch) = collector.next() {
        let batch = batch.unwrap();
        for i in 0..batch.len() {
            let slot = (batch.observations()[i], batch.actions()[i], batch.rewards()[i]);
            let (seen, action, reward) = slot;
            rows[i % ROWS].push((batch.flags()[i].valid(), seen, action, reward, batch.ends()[i], batch.steps()[i].0));
        }
        frames += batch.frames() as u64;
        balance(&collector.stats()).unwrap();
    }
    let stats = collector.stats();
    assert_eq!((stats.frames, stats.in_flight_frames), (frames, 0));
    assert_eq!(stats.frames + stats.discarded.total(), stats.stepped_frames);
    assert_eq!(stats.stepped_frames, stats.total_frames.unwrap());
    // The last tick steps as many rows as the budget leaves.
    let slots = rows.iter().map(Vec::len).sum::<usize>() as u64;
    assert_eq!(stats.discarded.fault, stats.stepped_frames - frames, "{slots} slots");
    rows
}

#[test]
fn x12_a_row_that_fails_starts_anew_and_the_others_keep_their_bits() {
    let faults = [
        (Call::Step, Kind::Panic, 2, 4),
        (Call::Step, Kind::Panic, 0, 0),
        (Call::Reset, Kind::Panic, 2, 0),
        (Call::Reset, Kind::Nan, 2, 0),
        (Call::Mask, Kind::Panic, 1, 3),
        (Call::Mask, Kind::Panic, 1, 0),
        (Call::Mask, Kind::Forbid, 1, 3),
        (Call::Reset, Kind::Panic, 0, 0),
    ];
    // Batches whose edges lie before, at and behind the frame that is lost.
    for ((call, kind, episode, step), horizon) in faults.into_iter().flat_map(|fault| [(fault, 10), (fault, 1)]) {
        let fault = Fault { call, kind, row: ROW as u32, episode, step };
        for (way, shape) in in_step().into_iter().enumerate() {
            let build = |fault| {
                let builder = Faulty::builder(6, fault).rows(ROWS).frames_per_batch(ROWS * horizon).seed(5);
                shape(builder.total_frames((ROWS * 40 - 3) as u64).on_fault(RETRY)).build().unwrap()
            };
            let sound = play(build(None));
            let failing = build(Some(fault));
            let monitor = failing.monitor();
            let played = play(failing);
            let what = format!("{fault:?}, horizon {horizon}, way {way}");
            assert_eq!(monitor.stats().row_restarts, 1, "{what}");
            for row in (0..ROWS).filter(|row| *row != ROW) {
                assert_eq!(played[row], sound[row], "{what}, row {row}");
            }
            check_failed(&played[ROW], fault, horizon, &what);
        }
    }
}

/// What the row that failed went through.
fn check_failed(slots: &[Slot], fault: Fault, horizon: usize, what: &str) {
    // A step that fails, or what follows a step, costs its frame; the first reset follows none.
    let lost = match (fault.call, fault.episode, fault.step) {
        (Call::Step, episode, step) => Some(6 * episode + step),
        (Call::Reset, 0, _) => None,
        (_, episode, step) => Some(6 * episode + step - 1),
    };
    // The next episode has the next number, and begins in the next tick.
    let (from, first) = lost.map_or((0, 1), |lost| (lost as usize + 1, fault.episode + 1));
    for (i, slot) in slots.iter().enumerate() {
        let (valid, seen, action, reward, end, step) = *slot;
        if lost == Some(i as u32) {
            assert_eq!((valid, seen, action, reward, end, step), (false, [0.0; 2], 0, 0.0, End::RUNNING, 0), "{what}");
            continue;
        }
        let (episode, t) = match i.checked_sub(from) {
            Some(since) => (first as usize + since / 6, since % 6),
            None => (i / 6, i % 6),
        };
        assert!(valid && step as usize == t && reward == 1.0, "{what}, slot {i}: {slot:?}");
        assert_eq!(seen, [episode as f32, t as f32], "{what}, slot {i}");
        let cut = lost == Some(i as u32 + 1) && t < 5;
        // A batch that is out already says nothing of what comes.
        let end_of_fault = cut && (i + 1) % horizon != 0;
        let wanted = match (end_of_fault, t) {
            (true, _) => Some(Truncation::Fault),
            (false, 5) => Some(Truncation::Env),
            _ => None,
        };
        assert_eq!(end.truncation(), wanted, "{what}, slot {i}");
    }
}

#[test]
fn x12_the_episode_of_a_row_that_fails_ends_before_the_frame_that_is_lost() {
    for (call, episode, step, length) in [(Call::Step, 2, 4, 4), (Call::Reset, 2, 0, 5), (Call::Mask, 1, 3, 2)] {
        for workers in [0, 2] {
            let fault = panics(call, ROW as u32, episode, step);
            let builder = || {
                let builder = Faulty::builder(6, Some(fault)).rows(ROWS).frames_per_batch(ROWS * 5).on_fault(RETRY);
                let builder = builder.total_frames(ROWS as u64 * 60);
                if workers > 0 { builder.workers(workers) } else { builder }
            };
            let cut = |end: End| end.truncation() == Some(Truncation::Fault);
            let mut whole = builder().trajs_per_batch(4).build().unwrap();
            let mut found = Vec::new();
            while let Some(batch) = whole.next() {
                let batch = batch.unwrap();
                for i in 0..batch.len() {
                    assert_eq!(batch.observations()[i][1] as u32, batch.steps()[i].0);
                }
                let faults = batch.trajectories().iter().filter(|trajectory| cut(trajectory.end));
                found.extend(faults.map(|trajectory| (trajectory.row.0, trajectory.length)));
                balance(&whole.stats()).unwrap();
            }
            assert_eq!(found, [(ROW as u32, length)], "{call:?}, {workers} workers");
            assert_eq!(whole.stats().discarded.fault, 1);
            // The same in a buffer.
            let replay = Replay::new(10_000).unwrap();
            let mode = ReplayWriteMode::Trajectory;
            let mut written = builder().replay(&replay).replay_write_mode(mode).build().unwrap();
            while let Some(receipt) = written.next_receipt() {
                receipt.unwrap();
                balance(&written.stats()).unwrap();
            }
            let stats = written.stats();
            assert_eq!((stats.row_restarts, stats.discarded.fault), (1, 1), "{call:?}, {workers} workers");
            assert_eq!(stats.frames + stats.discarded.total(), stats.stepped_frames);
        }
    }
}

#[test]
fn x12_workers_on_their_own_restart_their_rows() {
    let fault = panics(Call::Step, ROW as u32, 2, 4);
    let builder = Faulty::builder(6, Some(fault)).rows(ROWS).workers(4).frames_per_batch(ROWS * 4).on_fault(RETRY);
    let mut collector = builder.delivery(Delivery::Async).build().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let mut newest = 0.0;
    while newest < 5.0 {
        let batch = collector.next().unwrap().unwrap();
        let own = |slot: &usize| batch.rows()[slot % batch.rows().len()].0 == ROW as u32;
        let seen = (0..batch.len()).filter(own).map(|slot| batch.observations()[slot][0]);
        newest = seen.fold(newest, f32::max);
        assert!(std::time::Instant::now() < until, "{:?}", collector.stats());
    }
    assert_eq!(collector.workers(), [WorkerStatus::Working; 4]);
    collector.shutdown();
    let stats = collector.stats();
    balance(&stats).unwrap();
    assert_eq!((stats.row_restarts, stats.discarded.fault, stats.in_flight_frames), (1, 1, 0));
    assert_eq!(stats.frames + stats.discarded.total(), stats.stepped_frames);
}

/// A builder of one row, and how many environments its factory has built.
fn counted(fault: Fault) -> (Builder, Arc<AtomicU32>) {
    let built = Arc::new(AtomicU32::new(0));
    let count = built.clone();
    let builder = Collector::<Faulty>::with_factory(move |context| {
        count.fetch_add(1, Relaxed);
        Ok(Faulty::new(6, Some(fault), context.row))
    });
    (builder.on_fault(FaultPolicy::RestartRow { retries: 3 }), built)
}

#[test]
fn x12_too_many_faults_without_a_frame_between_end_the_collection_with_the_first_error() {
    let (builder, built) = counted(panics(Call::Step, 0, ANY, 0));
    let mut collector = builder.seed(4).build().unwrap();
    let error = collector.next().unwrap().unwrap_err();
    assert!(matches!(error, Error::EnvPanic { call: "step", row: 0, episode: 0, step: 0, seed: 4, .. }), "{error}");
    assert!(error.to_string().contains("boom 42"), "{error}");
    assert!(collector.next().is_none());
    let stats = collector.stats();
    balance(&stats).unwrap();
    assert_eq!((built.load(Relaxed), stats.row_restarts, stats.in_flight_frames), (4, 3, 0));
    assert_eq!((stats.stepped_frames, stats.discarded.fault), (4, 4));
    // A row that never starts is known when it is built.
    let (builder, built) = counted(panics(Call::Reset, 0, ANY, 0));
    let error = builder.build().unwrap_err();
    assert!(matches!(error, Error::EnvPanic { call: "reset", row: 0, episode: 0, .. }), "{error}");
    assert_eq!(built.load(Relaxed), 4);
}

#[test]
fn x12_a_frame_between_two_faults_forgives_the_first() {
    for call in [Call::Step, Call::Mask] {
        let builder = Faulty::builder(6, Some(panics(call, ANY, ANY, 2))).rows(3).frames_per_batch(30);
        let mut collector = builder.total_frames(300).on_fault(RETRY).build().unwrap();
        let frames: usize = collector.by_ref().map(|batch| batch.unwrap().frames()).sum();
        let stats = collector.stats();
        // Every third frame, or every second one: the mask of step 2 follows step 1.
        let lost = if call == Call::Step { 99 } else { 150 };
        assert_eq!((stats.row_restarts, stats.discarded.fault, frames as u64), (lost, lost, 300 - lost), "{call:?}");
        balance(&stats).unwrap();
    }
}

#[test]
fn x7_a_reset_by_hand_that_fails_starts_anew() {
    let fault = panics(Call::Reset, 1, 1, 0);
    let builder = Faulty::builder(50, Some(fault)).rows(2).frames_per_batch(10).on_fault(RETRY);
    let mut collector = builder.build().unwrap();
    collector.next().unwrap().unwrap();
    collector.reset(Rows::All).unwrap();
    let batch = collector.next().unwrap().unwrap();
    assert_eq!(batch.observations()[..2], [[1.0, 0.0], [2.0, 0.0]]);
    let stats = collector.stats();
    assert_eq!((stats.row_restarts, stats.discarded.fault), (1, 0));
    balance(&stats).unwrap();
}

#[test]
fn what_restarts_of_a_row_do_not_mend_is_its_workers_fault() {
    for delivery in [Delivery::Sync, Delivery::Async] {
        // Whatever the fault is: a panic, or a reset that gives no numbers.
        for fault in
            [panics(Call::Step, 5, ANY, 0), Fault { call: Call::Reset, kind: Kind::Nan, row: 5, episode: 1, step: 0 }]
        {
            let on_fault = if fault.call == Call::Step { RETRY } else { FaultPolicy::Stop };
            let builder = Faulty::builder(6, Some(fault)).rows(ROWS).workers(4).frames_per_batch(ROWS * 10);
            let builder = builder.delivery(delivery).on_fault(on_fault).on_worker_fault(OnWorkerFault::Drop);
            let mut collector = builder.build().unwrap();
            let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while collector.workers()[2] == WorkerStatus::Working {
                collector.next().unwrap().unwrap();
                assert!(std::time::Instant::now() < until);
            }
            collector.next().unwrap().unwrap();
            let working = collector.workers().iter().filter(|status| **status == WorkerStatus::Working).count();
            assert_eq!((working, collector.workers()[2]), (3, WorkerStatus::Dead));
            collector.shutdown();
            let stats = collector.stats();
            balance(&stats).unwrap();
            assert_eq!(stats.row_restarts, u64::from(on_fault == RETRY), "{delivery:?}, {fault:?}");
            assert_eq!(stats.frames + stats.discarded.total(), stats.stepped_frames);
        }
    }
}

#[test]
fn fd06_a_simulators_rows_are_not_restarted() {
    let simulator = Tag::simulator(&Script::all(4, Ending::Terminated), 8);
    let built = Collector::with_simulator(simulator).rows(8).on_fault(RETRY).build();
    let Err(Error::Conflict { first: "on_fault", second: "with_simulator", .. }) = built else { panic!("a conflict") };
}

/// Observes `[episode, t]`; steps four rows side by side; the row that fails panics again when it is dropped.
#[derive(Component)]
struct Pack {
    row: u32,
    episode: u32,
    t: u32,
    failed: bool,
}

impl Task for Pack {
    type Observation = [f32; 2];
    type Action = i32;
    type Mask = ();
    fn observation_space() -> Space {
        Space::unbounded(2)
    }
    fn action_space() -> Space {
        Space::discrete(2)
    }
}

impl Env for Pack {
    type Options = ();
    fn reset(&mut self, _: &(), stream: &mut Stream) -> [f32; 2] {
        (self.episode, self.t) = (stream.episode(), 0);
        [self.episode as f32, 0.0]
    }
    fn step(&mut self, _: &i32, _: &mut Stream) -> Transition<[f32; 2]> {
        self.failed = (self.row, self.episode, self.t) == (5, 0, 2);
        assert!(!self.failed, "boom 42");
        self.t += 1;
        let observation = [self.episode as f32, self.t as f32];
        Transition { observation, reward: 1.0, terminated: self.t == 6, truncated: false }
    }
    fn step_many(
        envs: &mut [Self],
        streams: &mut [Stream],
        action: impl Fn(usize) -> i32,
        mut done: impl FnMut(usize, Transition<[f32; 2]>),
    ) {
        for (first, (envs, streams)) in (0..).step_by(4).zip(envs.chunks_mut(4).zip(streams.chunks_mut(4))) {
            let actions: Vec<i32> = (0..envs.len()).map(|i| action(first + i)).collect();
            let steps = envs.iter_mut().zip(streams).zip(&actions);
            let outcomes: Vec<_> = steps.map(|((env, stream), action)| env.step(action, stream)).collect();
            outcomes.into_iter().enumerate().for_each(|(i, outcome)| done(first + i, outcome));
        }
    }
}

impl Drop for Pack {
    fn drop(&mut self) {
        assert!(!self.failed, "boom 43");
    }
}

#[test]
fn rows_that_step_side_by_side_may_be_lost_together_and_a_drop_that_panics_does_no_harm() {
    let build = |failing: u32| {
        let factory = Collector::<Pack>::with_factory(move |context| {
            Ok(Pack { row: context.row + failing, episode: 0, t: 0, failed: false })
        });
        let builder = factory.rows(ROWS + 4).frames_per_batch((ROWS + 4) * 5).total_frames((ROWS as u64 + 4) * 20);
        builder.on_fault(RETRY).build().unwrap()
    };
    let slots = |mut collector: Collector<Pack>| {
        let mut rows = vec![Vec::new(); ROWS + 4];
        while let Some(batch) = collector.next() {
            let batch = batch.unwrap();
            let slots =
                (0..batch.len()).map(|i| (batch.flags()[i].valid(), batch.observations()[i], batch.actions()[i]));
            slots.enumerate().for_each(|(i, slot)| rows[i % (ROWS + 4)].push(slot));
            balance(&collector.stats()).unwrap();
        }
        (rows, collector.stats())
    };
    let (sound, _) = slots(build(100));
    let (played, stats) = slots(build(0));
    // Rows 4 to 7 step together.
    for row in (0..ROWS + 4).filter(|row| !(4..8).contains(row)) {
        assert_eq!(played[row], sound[row], "row {row}");
    }
    for row in &played[4..8] {
        let (lost, begun) = (row[2], row[3]);
        assert_eq!((lost.0, begun.0, begun.1), (false, true, [1.0, 0.0]));
    }
    assert_eq!((stats.row_restarts, stats.discarded.fault), (4, 4));
}
