//! The same seed gives the same data: for any number of threads, either executor, and every run.

use std::{
    collections::{HashSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    path::Path,
};

use crate::support::{Case, Ending, Publish, Script, tags};
use bevy_ecs::{prelude::*, schedule::LogLevel};
use gleaner::prelude::{CartPole, Collect, CollectSystems, Collector, Executor};

/// The first draw of each of six rows.
fn first_draws(seed: u64, threads: usize) -> Vec<u32> {
    let builder = tags(Script::all(4, Ending::Terminated)).rows(6).frames_per_batch(6).seed(seed);
    let mut collector = builder.threads(threads).step_rows_per_thread(1).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    batch.observations().iter().map(|seen| seen.noise.to_bits()).collect()
}

#[test]
fn f1_every_row_has_a_stream_of_its_own() {
    let draws = first_draws(7, 1);
    assert_eq!(draws.iter().collect::<HashSet<_>>().len(), 6, "{draws:?}");
    assert_eq!(draws, first_draws(7, 1));
    assert_eq!(draws, first_draws(7, 2));
    assert_eq!(draws, first_draws(7, 3));
    assert_ne!(draws, first_draws(8, 1));
}

#[test]
fn f2_no_two_rows_play_the_same_game() {
    let log = Case { rows: 8, horizon: 60, total: 480, sample: true, threads: 2, ..Case::default() }.run();
    let frames: HashSet<_> = log.frames.iter().map(|frame| frame.observation.noise.to_bits()).collect();
    let actions: HashSet<_> = log.frames.iter().map(|frame| frame.action.to_bits()).collect();
    // Draws have 24 bits: of 480, a pair may be equal by chance, more than two are not.
    assert!(frames.len() > 477 && actions.len() > 470, "{} and {}", frames.len(), actions.len());
}

#[test]
fn f3_the_warm_up_is_under_the_seed() {
    let run = |seed| {
        let builder = tags(Script::all(4, Ending::Terminated)).rows(3).frames_per_batch(60).seed(seed);
        let mut collector = builder.init_random_frames(60).build().unwrap();
        let batch = collector.next().unwrap().unwrap();
        batch.actions().iter().map(|action| action.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert_eq!(run(1).iter().collect::<HashSet<_>>().len(), 60);
}

/// Every Rust file under `folder`.
fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn f3_no_source_has_another_generator() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    assert!(files.len() > 20);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for word in ["thread_rng", "rand::", "getrandom", "fastrand", "RandomState", "SystemTime::now"] {
            assert!(!text.contains(word), "{} has {word}", file.display());
        }
    }
}

fn hash(case: &Case) -> u64 {
    let mut hasher = DefaultHasher::new();
    for frame in case.run().essence() {
        format!("{frame:?}").hash(&mut hasher);
    }
    hasher.finish()
}

#[test]
fn f6_twenty_runs_on_four_threads_are_equal() {
    let script = std::sync::Arc::new(Script(vec![vec![(3, Ending::Terminated)], vec![(7, Ending::Truncated)]]));
    let case = Case { rows: 13, total: 13 * 20, script, sample: true, threads: 4, random: 17, ..Case::default() };
    let first = hash(&case);
    assert!((0..20).all(|_| hash(&case) == first));
}

#[derive(Resource, Default)]
struct Shared(u32);

fn one(mut shared: ResMut<Shared>) {
    shared.0 += 1;
}

fn other(mut shared: ResMut<Shared>) {
    shared.0 *= 2;
}

#[test]
fn f9_an_ambiguous_system_is_an_error() {
    let mut world = World::new();
    world.init_resource::<Shared>();
    let mut schedule = Collect::base_schedule(Executor::SingleThreaded, LogLevel::Error);
    schedule.add_systems((one.in_set(CollectSystems::Step), other.in_set(CollectSystems::Step)));
    let error = schedule.initialize(&mut world).err().expect("two systems write one resource");
    let text = error.to_string(schedule.graph(), &world);
    assert!(text.contains("1 pairs") && text.contains("in set Step"), "{text}");
    // Gleaner's own systems are built under that rule, so a collector that is built has none.
    for executor in [Executor::SingleThreaded, Executor::MultiThreaded] {
        tags(Script::all(4, Ending::Terminated)).executor(executor).build().unwrap();
    }
}

#[test]
fn f9_a_thousand_ticks_are_equal_on_any_executor() {
    let script = Script::lengths(&[3, 17, 40], Ending::Truncated);
    let base = Case { rows: 16, horizon: 50, total: 16_000, script, sample: true, random: 99, ..Case::default() };
    let base = Case { publish: Publish::Nobody, ..base };
    let wanted = hash(&base);
    for threads in [1, 2, 8, 16] {
        for executor in [Executor::SingleThreaded, Executor::MultiThreaded] {
            let case = Case { threads, executor, ..base.clone() };
            let repetitions = if executor == Executor::MultiThreaded { 5 } else { 1 };
            for _ in 0..repetitions {
                assert_eq!(hash(&case), wanted, "{threads} threads, {executor:?}");
            }
        }
    }
}

/// Where the schedule is as it was built, Step writes the frames; where a host had its hands on it, Record does.
#[test]
fn whoever_writes_the_frames_they_are_the_same() {
    // Three strips, the last not full; a budget that ends within a tick and a warm-up that does.
    let run = |hosted: bool, threads| {
        let builder = Collector::<CartPole>::builder().rows(300).frames_per_batch(9_000).total_frames(26_950);
        let builder = builder.init_random_frames(450).max_frames_per_traj(25).reset_at_each_iter(true);
        let builder = builder.threads(threads).step_rows_per_thread(100);
        let builder = if hosted { builder.setup(|_, _| {}) } else { builder };
        let batches = builder.build().unwrap().map(|batch| {
            let batch = batch.unwrap();
            let finals: Vec<_> = (0..batch.len()).map(|frame| batch.final_observation(frame).copied()).collect();
            let played = (batch.observations(), batch.last_observations(), batch.actions(), batch.rewards(), finals);
            let noted = (batch.ends(), batch.steps(), batch.trajectory_ids(), batch.flags(), batch.versions());
            format!("{played:?} {noted:?} {:?}", batch.trajectories())
        });
        batches.collect::<Vec<_>>()
    };
    let wanted = run(true, 1);
    assert_eq!(wanted.len(), 3);
    for threads in [1, 2, 3] {
        assert!(run(false, threads) == wanted, "{threads} threads");
    }
}

#[test]
fn o1_batches_are_cut_from_one_stream_of_frames() {
    let base = Case { rows: 4, horizon: 1, total: 80, sample: true, ..Case::default() };
    let wanted = base.run().essence();
    for horizon in [3, 10, 20] {
        assert_eq!(Case { horizon, ..base.clone() }.run().essence(), wanted, "horizon {horizon}");
    }
}
