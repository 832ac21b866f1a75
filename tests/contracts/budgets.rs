//! Budgets are exact: frames of a batch, of the warm-up and of the whole run are what the documented rule says, and the
//! counters, the iterator's length and the sum of the rows all give the same number.

use std::sync::{Arc, Mutex};

use crate::support::{Ending, Script, Tag, balance, tags};
use gleaner::{
    components::Flags,
    config::TrajFormat,
    policy::Policy,
    prelude::{Collector, Error, Executor},
    stats::Counters,
};
use tracing::{Level, Subscriber, span};

/// Collects warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl tracing::field::Visit for Warnings {
    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.lock().unwrap().push(format!("{value:?}"));
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn b1_batches_are_whole_ticks_and_the_last_one_is_smaller() {
    let warnings = Warnings::default();
    let build = || tags(Script::all(4, Ending::Terminated)).rows(10).frames_per_batch(145).total_frames(290).build();
    // Whoever warns first, on whatever thread, makes the warning known; only then can a subscriber be sure to hear it.
    build().unwrap();
    let sizes: Vec<usize> = tracing::subscriber::with_default(warnings.clone(), || {
        let mut collector = build().unwrap();
        assert_eq!((collector.frames_per_batch(), collector.len()), (150, Some(2)));
        let sizes = collector.by_ref().map(|batch| batch.unwrap().frames()).collect();
        let stats = collector.stats();
        assert_eq!((stats.frames, stats.stepped_frames, stats.batches, stats.completed), (290, 290, 2, true));
        assert_eq!(stats.requested_frames_per_batch, Some(150));
        sizes
    });
    assert_eq!(sizes, [150, 140]);
    let warnings = warnings.0.lock().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("145") && warnings[0].contains("150"), "{warnings:?}");
}

#[test]
fn b2_the_budget_is_the_same_on_every_path() {
    let script = Script::all(7, Ending::Truncated);
    for (threads, executor) in
        [(1, Executor::SingleThreaded), (2, Executor::SingleThreaded), (2, Executor::MultiThreaded)]
    {
        let builder = tags(script.clone()).rows(4).frames_per_batch(10).total_frames(60).threads(threads);
        let collector = builder.executor(executor).step_rows_per_thread(1).build().unwrap();
        assert_eq!(collector.map(|batch| batch.unwrap().frames()).collect::<Vec<_>>(), [12; 5]);
    }
    let simulator = Collector::with_simulator(Tag::simulator(&script, 4)).rows(4).frames_per_batch(10).total_frames(60);
    assert_eq!(simulator.build().unwrap().map(|batch| batch.unwrap().frames()).collect::<Vec<_>>(), [12; 5]);
    for format in [TrajFormat::Cat, TrajFormat::Padded] {
        let builder = tags(script.clone()).rows(4).frames_per_batch(10).total_frames(60);
        let mut collector = builder.trajs_per_batch(3).traj_format(format).build().unwrap();
        let frames: usize = collector.by_ref().map(|batch| batch.unwrap().frames()).sum();
        let stats = collector.stats();
        // Fifteen ticks: two whole episodes of each row, and one frame of the third.
        assert_eq!((frames, stats.stepped_frames, stats.discarded.shutdown), (56, 60, 4));
    }
}

#[test]
fn b2_the_last_tick_steps_the_first_rows() {
    let builder = tags(Script::all(9, Ending::Terminated)).rows(4).frames_per_batch(12).total_frames(14);
    let batches: Vec<_> = builder.build().unwrap().map(|batch| batch.unwrap()).collect();
    assert_eq!(batches[1].flags(), [Flags::VALID, Flags::VALID, Flags::INVALID, Flags::INVALID]);
    assert_eq!((batches[1].frames(), batches[1].len()), (2, 4));
    assert_eq!(batches[1].observations()[1].row, 2.0);
}

/// A policy that acts 7, which the warm-up's uniform numbers up to a million never do.
fn seven() -> Policy<Tag> {
    Policy::function(|_, _, _, actions: &mut [f32]| actions.fill(7.0))
}

#[test]
fn b4_the_warm_up_is_exactly_as_long_as_it_says() {
    let builder = tags(Script::all(11, Ending::Terminated)).frames_per_batch(64).total_frames(128);
    let collector = builder.init_random_frames(70).policy(seven()).build().unwrap();
    let batches: Vec<_> = collector.map(|batch| batch.unwrap()).collect();
    assert_eq!(batches.iter().map(|batch| batch.frames()).sum::<usize>(), 128);
    let frames = batches.iter().flat_map(|batch| batch.actions().iter().zip(batch.flags()));
    for (i, (action, flags)) in frames.enumerate() {
        assert_eq!(flags.random(), i < 70, "frame {i}");
        assert_eq!(*action != 7.0, i < 70, "frame {i} acts {action}");
    }
}

#[test]
fn o20_the_warm_up_ends_within_a_tick_in_row_order() {
    let builder = tags(Script::all(11, Ending::Terminated)).rows(5).frames_per_batch(20);
    let mut collector = builder.init_random_frames(7).policy(seven()).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    let random: Vec<_> = (0..20).filter(|i| batch.flags()[*i].random()).collect();
    assert_eq!(random, [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn b5_counters_go_on_in_a_new_collector() {
    let build = || {
        let builder = tags(Script::all(4, Ending::Terminated)).frames_per_batch(10).total_frames(100);
        builder.init_random_frames(40).policy(seven()).build().unwrap()
    };
    let mut first = build();
    let old: Vec<_> = first.by_ref().take(3).flat_map(|batch| batch.unwrap().trajectory_ids().to_vec()).collect();
    let saved = serde_json::to_string(&first.counters()).unwrap();
    let mut second = build();
    second.load_counters(&serde_json::from_str::<Counters>(&saved).unwrap()).unwrap();
    let (mut frames, mut random) = (0, 0);
    for batch in &mut second {
        let batch = batch.unwrap();
        assert_eq!(batch.index(), 3 + frames as u64 / 10);
        frames += batch.frames();
        random += batch.flags().iter().filter(|flags| flags.random()).count();
        assert!(batch.trajectory_ids().iter().all(|id| !old.contains(id)), "an id came back");
    }
    assert_eq!((frames, random), (70, 10));
    let stats = second.stats();
    assert_eq!((stats.frames, stats.stepped_frames, stats.batches), (100, 100, 10));
    balance(&stats).unwrap();
    assert!(matches!(second.load_counters(&Counters::default()), Err(Error::State { call: "load_counters", .. })));
}
