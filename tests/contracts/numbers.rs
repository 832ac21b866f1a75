//! Numbers that are not finite stay out: the frame is discarded and counted, its episode ends at the frame before, its row
//! starts anew, and nothing else notices.

use crate::support::{Call, Ending, Fault, Faulty, Kind, Log, Script, Tag, balance, sampling_network, tags};
use gleaner::{
    components::{Flags, Truncation},
    policy::{NetworkSpec, Normalize, Policy},
    prelude::{Batch, Collector, Error, Layout},
};

/// Rows of which row 5 gives NaN as the fourth observation of its first episode.
fn script(rows: usize, nan: bool) -> std::sync::Arc<Script> {
    let sound = vec![(6, Ending::Truncated)];
    let mut lists = vec![sound; rows];
    if nan {
        lists[5].insert(0, (4, Ending::Nan));
        lists[5].extend(vec![(6, Ending::Truncated); 100]);
    }
    std::sync::Arc::new(Script(lists))
}

fn run(nan: bool) -> (Batch<Tag>, Collector<Tag>) {
    let builder = tags(script(64, nan)).rows(64).frames_per_batch(64 * 20).policy(sampling_network());
    let mut collector = builder.build().unwrap();
    (collector.next().unwrap().unwrap(), collector)
}

#[test]
fn m2_one_broken_row_does_not_touch_the_others() {
    let ((sound, _), (broken, collector)) = (run(false), run(true));
    for i in (0..sound.len()).filter(|i| i % 64 != 5) {
        assert_eq!(sound.observations()[i], broken.observations()[i]);
        assert_eq!(sound.next_observation(i), broken.next_observation(i));
        assert_eq!(sound.actions()[i], broken.actions()[i]);
        assert_eq!(sound.ends()[i], broken.ends()[i]);
    }
    let at = |tick: usize| tick * 64 + 5;
    assert_eq!(broken.ends()[at(2)].truncation(), Some(Truncation::Fault));
    assert_eq!(broken.final_observation(at(2)).unwrap().t, 3.0);
    assert_eq!(broken.flags()[at(3)], Flags::INVALID);
    assert_eq!((broken.observations()[at(4)].t, broken.observations()[at(4)].resets), (0.0, 2.0));
    assert_ne!(broken.trajectory_ids()[at(4)], broken.trajectory_ids()[at(2)]);
    let fault = broken.trajectories().iter().find(|t| t.end.truncation() == Some(Truncation::Fault)).unwrap();
    assert_eq!((fault.row.0, fault.length, fault.total_reward, fault.tick), (5, 3, 3.0, 2));
    let stats = collector.stats();
    assert_eq!((stats.discarded.fault, stats.frames), (1, 64 * 20 - 1));
    balance(&stats).unwrap();
    assert!(stats.episodes.mean_return.unwrap().is_finite() && stats.episodes.running_return.unwrap().is_finite());
}

#[test]
fn m2_a_simulator_is_held_to_the_same() {
    let build = || Collector::with_simulator(Tag::simulator(&script(8, true), 8)).rows(8).frames_per_batch(8 * 20);
    let mut rows = tags(script(8, true)).rows(8).frames_per_batch(8 * 20).build().unwrap();
    let mut simulator = build().build().unwrap();
    let (a, b) = (rows.next().unwrap().unwrap(), simulator.next().unwrap().unwrap());
    assert_eq!(a.observations(), b.observations());
    assert_eq!((a.ends(), a.flags()), (b.ends(), b.flags()));
    assert_eq!(rows.stats().discarded, simulator.stats().discarded);
}

#[test]
fn m2_running_statistics_stay_finite() {
    let spec = NetworkSpec {
        normalize: Some(Normalize::default()),
        ..NetworkSpec::mlp(&[], gleaner::policy::plan::Activation::Tanh)
    };
    let norm = |nan| {
        let builder = tags(script(6, nan)).rows(6).frames_per_batch(60).policy(Policy::network(spec.clone()));
        let mut collector = builder.build().unwrap();
        collector.next().unwrap().unwrap();
        collector.normalization().unwrap()
    };
    let (sound, broken) = (norm(false), norm(true));
    assert_eq!(sound.count, broken.count, "every observation that the policy saw counts");
    assert!(broken.mean.iter().chain(&broken.m2).all(|x| x.is_finite()), "{broken:?}");
}

#[test]
fn m2_infinity_and_rewards_count_too() {
    for kind in [Kind::Nan, Kind::Infinity, Kind::NanReward] {
        let fault = Fault { call: Call::Step, kind, row: 1, episode: 0, step: 2 };
        let mut collector = Faulty::builder(9, Some(fault)).rows(2).frames_per_batch(16).build().unwrap();
        let batch = collector.next().unwrap().unwrap();
        assert_eq!(batch.ends()[3].truncation(), Some(Truncation::Fault), "{kind:?}");
        assert_eq!((batch.frames(), batch.flags()[5]), (15, Flags::INVALID), "{kind:?}");
        assert_eq!(batch.observations()[7], [1.0, 0.0], "{kind:?}");
        assert!(batch.rewards().iter().all(|reward| reward.is_finite()), "{kind:?}");
    }
}

#[test]
fn m2_a_reset_that_is_not_finite_is_an_error() {
    for kind in [Kind::Nan, Kind::Infinity] {
        let fault = Fault { call: Call::Reset, kind, row: 1, episode: 2, step: 0 };
        let mut collector = Faulty::builder(3, Some(fault)).rows(2).frames_per_batch(32).seed(4).build().unwrap();
        let error = collector.next().unwrap().unwrap_err();
        assert!(matches!(error, Error::ResetNotFinite { row: 1, episode: 2, seed: 4, .. }), "{error}");
        assert!(collector.next().is_none());
        balance(&collector.stats()).unwrap();
        let first = Fault { episode: 0, ..fault };
        let error = Faulty::builder(3, Some(first)).rows(2).build().unwrap_err();
        assert!(matches!(error, Error::ResetNotFinite { row: 1, episode: 0, .. }), "{error}");
    }
}

#[test]
fn m1_slots_without_a_frame_change_no_result() {
    let lists = vec![vec![(4, Ending::Nan)], vec![(6, Ending::Truncated)], vec![(1, Ending::Nan)]];
    let script = std::sync::Arc::new(Script(lists));
    for padded in [false, true] {
        let mut builder = tags(script.clone()).rows(3).frames_per_batch(60).policy(sampling_network());
        if padded {
            builder = builder.trajs_per_batch(5).traj_format(gleaner::config::TrajFormat::Padded);
        }
        let mut collector = builder.build().unwrap();
        let batch = collector.next().unwrap().unwrap();
        let blanks = batch.flags().iter().filter(|flags| !flags.valid()).count();
        assert!(blanks > 0);
        let columns = [batch.rewards(), batch.values().unwrap(), batch.log_probs().unwrap(), batch.actions()];
        for column in columns.into_iter().chain([&batch.bootstrap_values().unwrap()[..]]) {
            let frames = (0..batch.len()).filter(|i| batch.flags()[*i].valid()).map(|i| column[i]);
            let (all, valid): (f32, f32) = (column.iter().sum(), frames.sum());
            assert!(all.is_finite() && all == valid, "{all} and {valid}");
        }
        let drawn: Vec<usize> = batch.minibatches(4, 9).flatten().collect();
        assert_eq!(drawn.len(), batch.len() - blanks);
        assert!(drawn.iter().all(|i| batch.flags()[*i].valid()));
        assert!(batch.select(&[(0..batch.len()).find(|i| !batch.flags()[*i].valid()).unwrap()]).is_err());
    }
}

#[test]
fn a_fault_across_batches_ends_the_episode_that_is_out() {
    let mut collector = tags(Script::all(4, Ending::Nan)).frames_per_batch(3).build().unwrap();
    let mut log = Log::new(crate::support::Case::default());
    for _ in 0..4 {
        let batch = collector.next().unwrap().unwrap();
        assert!(matches!(batch.layout(), Layout::TimeMajor { ticks: 3, rows: 1 }));
        log.read(&batch, collector.stats());
    }
    // Frames 0 to 2, then a fault in the next batch's first slot; the batch that is out cannot say so, the list does.
    assert!(!log.frames[2].end.done());
    let first = &log.trajectories[0];
    assert_eq!((first.id, first.length, first.tick), (log.frames[2].id, 3, u32::MAX));
    assert_eq!(first.end.truncation(), Some(Truncation::Fault));
    assert_ne!(log.frames[3].id, log.frames[2].id);
}

#[test]
fn an_arena_keeps_nothing_of_the_batch_before() {
    let builder = tags(script(64, true)).rows(64).frames_per_batch(64 * 20).policy(sampling_network());
    let mut collector = builder.init_random_frames(100).build().unwrap();
    let weights = collector.weights().unwrap();
    let mut next = || {
        let batch = collector.next().unwrap().unwrap();
        (batch.flags().to_vec(), batch.versions().to_vec())
    };
    let (flags, _) = next();
    let lost = 3 * 64 + 5;
    for (i, flag) in flags.into_iter().enumerate() {
        let expected = if i == lost {
            Flags::INVALID
        } else if i < 100 {
            Flags::RANDOM
        } else {
            Flags::VALID
        };
        assert_eq!(flag, expected, "frame {i}");
    }
    for expected in [0, 0, 1, 2, 2] {
        if weights.version() < expected {
            weights.increment_version().unwrap();
        }
        let (flags, versions) = next();
        assert!(flags.iter().all(|flag| *flag == Flags::VALID), "version {expected}");
        assert!(versions.iter().all(|version| *version == expected), "version {expected}");
    }
}

#[test]
fn minibatches_are_equal_parts_of_one_order_a_seed() {
    for (rows, parts) in [(1, 1), (3, 4), (7, 5), (10, 3), (2, 9)] {
        let batch =
            tags(Script::all(3, Ending::Nan)).rows(rows).frames_per_batch(rows * 4).build().unwrap().rollout().unwrap();
        let drawn = |seed| batch.minibatches(parts, seed).collect::<Vec<_>>();
        let sizes: Vec<usize> = drawn(1).iter().map(Vec::len).collect();
        assert_eq!((sizes.len(), sizes.iter().sum()), (parts, batch.frames()));
        assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
        assert_eq!(drawn(1), drawn(1));
        let mut all = drawn(1).concat();
        all.sort_unstable();
        assert_eq!(all, (0..batch.len()).filter(|i| batch.flags()[*i].valid()).collect::<Vec<_>>());
        assert!(batch.frames() < 8 || drawn(1) != drawn(2));
    }
}
