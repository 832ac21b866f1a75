//! Checkpoints of a collector: what is in them, what becomes of what is not, and files that are wrong.

use std::{fs, path::PathBuf};

use gleaner::{
    policy::{Layer, Normalize},
    prelude::*,
    rollout::Layout,
};

use crate::support::{Ending, Faulty, Script, Tag, balance, tags};

fn saved<T: Task>(collector: &Collector<T>) -> Vec<u8> {
    let mut file = Vec::new();
    collector.save_to(&mut file).unwrap();
    file
}

/// A path in a folder of its own.
fn path(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("gleaner-checkpoints-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder.join("state")
}

fn spec() -> NetworkSpec {
    let spec =
        NetworkSpec { trunk: vec![Layer::Gru(3)], actor: vec![], critic: Some(vec![]), ..NetworkSpec::default() };
    NetworkSpec { normalize: Some(Normalize::default()), ..spec }
}

fn new(rows: usize, spec: NetworkSpec) -> Collector<Tag> {
    let builder = tags(Script::lengths(&[3, 40, 7], Ending::Terminated)).rows(rows).frames_per_batch(rows * 5);
    builder.policy(Policy::network(spec).backend(Backend::Cpu)).total_frames(300).seed(3).build().unwrap()
}

fn doubled(weights: &WeightsHandle) -> Weights {
    let mut weights = (*weights.latest().1).clone();
    weights.0.values_mut().flat_map(|tensor| &mut tensor.data).for_each(|x| *x *= 2.0);
    weights
}

/// Three batches, two publications.
fn run(mut collector: Collector<Tag>) -> Collector<Tag> {
    for _ in 0..3 {
        collector.next().unwrap().unwrap();
        let weights = collector.weights().unwrap();
        weights.publish(doubled(&weights)).unwrap();
    }
    collector
}

#[test]
fn ck01_weights_statistics_counters_and_ids_are_in_it() {
    let (mut first, mut second) = (run(new(4, spec())), new(4, spec()));
    // A handle from before the load is the same one after.
    let weights = second.weights().unwrap();
    second.load_from(&mut &saved(&first)[..]).unwrap();
    assert_eq!(weights.latest(), first.weights().unwrap().latest());
    assert_eq!((weights.version(), second.stats().policy_version), (3, Some(2)));
    assert_eq!(second.normalization(), first.normalization());
    assert_eq!(second.normalization().unwrap().count, 60);
    assert_eq!(second.stats(), first.stats());
    let before = first.stats();
    let newest = |batch: &Batch<Tag>| batch.trajectory_ids().iter().max().copied().unwrap();
    let (one, other) = (first.next().unwrap().unwrap(), second.next().unwrap().unwrap());
    assert_eq!((newest(&other), other.index()), (newest(&one), before.batches));
    assert_eq!(weights.publish(doubled(&weights)).unwrap(), 4);
}

#[test]
fn ck01_finished_stays_finished_and_more_may_be_asked_for() {
    let mut first = new(4, spec());
    first.by_ref().for_each(|batch| drop(batch.unwrap()));
    let file = saved(&first);
    let mut second = new(4, spec());
    second.load_from(&mut &file[..]).unwrap();
    assert!(second.stats().completed && second.next().is_none());
    let builder = tags(Script::lengths(&[3, 40, 7], Ending::Terminated)).rows(4).frames_per_batch(20).seed(3);
    let mut more = builder.policy(Policy::network(spec()).backend(Backend::Cpu)).total_frames(310).build().unwrap();
    more.load_from(&mut &file[..]).unwrap();
    assert_eq!(more.map(|batch| batch.unwrap().frames()).collect::<Vec<_>>(), [10]);
}

/// The budget's end discards what runs where whole trajectories are joined: nothing can be joined to it later.
#[test]
fn ck01_episodes_behind_the_end_begin_anew() {
    let new = |total| {
        let builder = tags(Script::all(7, Ending::Terminated)).rows(3).frames_per_batch(30).trajs_per_batch(2);
        builder.total_frames(total).build().unwrap()
    };
    let mut first: Collector<Tag> = new(30);
    first.by_ref().for_each(|batch| drop(batch.unwrap()));
    assert_eq!((first.stats().discarded.shutdown, first.stats().trajectory_pending_frames), (9, 9));
    let mut second = new(72);
    second.load_from(&mut &saved(&first)[..]).unwrap();
    assert_eq!(second.stats().trajectory_pending_frames, 0);
    for batch in second.by_ref() {
        let batch = batch.unwrap();
        assert!(batch.trajectories().iter().all(|trajectory| trajectory.length == 7), "{:?}", batch.trajectories());
        assert!(batch.ends().iter().all(|end| !end.truncated()));
    }
    balance(&second.stats()).unwrap();
    assert_eq!((second.stats().completed_trajectories, second.stats().discarded.shutdown), (9, 9));
}

/// CK-02, G4: an environment whose state is not in the file ends its episode there, and says so.
#[test]
fn ck02_g4_an_episode_that_cannot_go_on_is_truncated() {
    let new = || Faulty::builder(8, None).rows(3).frames_per_batch(3 * 5).seed(2).build().unwrap();
    let mut first = new();
    let before = first.next().unwrap().unwrap();
    assert_eq!(first.stats().trajectory_pending_frames, 15);
    let mut second = new();
    second.load_from(&mut &saved(&first)[..]).unwrap();
    let stats = second.stats();
    assert_eq!((stats.trajectory_pending_frames, stats.in_flight_frames, stats.stepped_frames), (0, 0, 15));
    assert_eq!((stats.completed_trajectories, stats.trajectory_completed_frames), (3, 15));
    let batch = second.next().unwrap().unwrap();
    for (row, trajectory) in batch.trajectories().iter().enumerate() {
        assert_eq!((trajectory.row.0 as usize, trajectory.length, trajectory.total_reward), (row, 5, 5.0));
        assert_eq!(trajectory.end, End::truncated_by(Truncation::Checkpoint));
        assert_eq!(trajectory.id, before.trajectory_ids()[row]);
    }
    assert_eq!(batch.trajectories().len(), 3);
    assert!(batch.trajectory_ids().iter().all(|id| !before.trajectory_ids().contains(id)));
    // Its stream goes on: a new episode of the row, not the first one again.
    assert!(batch.observations()[..3].iter().all(|seen| *seen == [1.0, 0.0]), "{:?}", batch.observations());
    balance(&second.stats()).unwrap();
}

#[test]
fn ck02_frames_that_wait_are_delivered_with_their_end() {
    let new = || Faulty::builder(8, None).rows(3).frames_per_batch(3 * 5).trajs_per_batch(3).build().unwrap();
    let mut first = new();
    let whole = first.next().unwrap().unwrap();
    assert_eq!((whole.frames(), first.stats().trajectory_pending_frames), (24, 6));
    let mut second = new();
    second.load_from(&mut &saved(&first)[..]).unwrap();
    assert_eq!((second.stats().trajectory_pending_frames, second.stats().in_flight_frames), (0, 6));
    let batch = second.next().unwrap().unwrap();
    assert_eq!(batch.layout(), Layout::Flat { frames: 6 });
    for (i, trajectory) in batch.trajectories().iter().enumerate() {
        assert_eq!((trajectory.length, trajectory.end), (2, End::truncated_by(Truncation::Checkpoint)));
        assert_eq!(batch.ends()[2 * i + 1], trajectory.end);
        assert_eq!(batch.final_observation(2 * i + 1), Some(&[1.0, 2.0]));
    }
    balance(&second.stats()).unwrap();
    assert_eq!(second.next().unwrap().unwrap().frames(), 24);
}

#[test]
fn ck05_a_partial_load_takes_what_both_have() {
    let mut first = run(new(4, spec()));
    let (file, stats) = (path("partial"), first.stats());
    first.save(&file).unwrap();
    // Other rows: weights, statistics and counters.
    let mut other = new(6, spec());
    assert!(other.load(&file).unwrap_err().to_string().contains("rows is 6; legal: that of the checkpoint, 4"));
    assert_eq!(other.stats(), new(6, spec()).stats(), "a failed load changes nothing");
    let skipped = other.load_partial(&file).unwrap();
    assert!(skipped.len() == 1 && skipped[0].contains("rows is 6"), "{skipped:?}");
    assert_eq!(other.normalization(), first.normalization());
    assert_eq!(other.weights().unwrap().latest(), first.weights().unwrap().latest());
    assert_eq!((other.stats().stepped_frames, other.stats().batches), (stats.stepped_frames, stats.batches));
    assert_eq!(other.next().unwrap().unwrap().index(), stats.batches);
    balance(&other.stats()).unwrap();
    // No statistics here: the rest, rows with all they remember among it.
    let plain = NetworkSpec { normalize: None, ..spec() };
    let mut other = new(4, plain);
    let problem = other.load(&file).unwrap_err().to_string();
    assert!(problem.contains("policy 0: normalises true; legal: false"), "{problem}");
    assert_eq!(other.load_partial(&file).unwrap().len(), 1);
    let (one, two) = (first.next().unwrap().unwrap(), other.next().unwrap().unwrap());
    assert_eq!(one.observations()[..4], two.observations()[..4]);
    // A tensor of another shape is not absent.
    let mut wide = new(4, NetworkSpec { trunk: vec![Layer::Gru(4)], ..spec() });
    let problem = wide.load_partial(&file).unwrap_err().to_string();
    assert!(problem.contains("tensor") && problem.contains("shape"), "{problem}");
    assert_eq!(wide.stats().stepped_frames, 0);
    // Whole trajectories cannot go on from rows whose frames were delivered.
    let builder = tags(Script::all(7, Ending::Terminated)).rows(4).frames_per_batch(20).trajs_per_batch(2);
    let mut joined = builder.policy(Policy::network(spec()).backend(Backend::Cpu)).build().unwrap();
    assert!(joined.load(&file).unwrap_err().to_string().contains("trajs_per_batch is whole trajectories"));
    assert!(joined.load_partial(&file).unwrap()[0].contains("trajs_per_batch"));
    joined.next().unwrap().unwrap();
    balance(&joined.stats()).unwrap();
    fs::remove_dir_all(file.parent().unwrap()).unwrap();
}

#[test]
fn ck06_it_is_saved_and_loaded_in_its_place_only() {
    let mut first = run(new(4, spec()));
    let file = saved(&first);
    let problem = first.load_from(&mut &file[..]).unwrap_err().to_string();
    assert!(problem.contains("60 frames were stepped") && problem.contains("legal: a new collector"), "{problem}");
    first.shutdown();
    assert!(first.save_to(&mut Vec::new()).unwrap_err().to_string().contains("shut down"));
    let mut second = new(4, spec());
    let row = second_row(&second);
    second.world_mut().despawn(row);
    assert!(second.save_to(&mut Vec::new()).unwrap_err().to_string().contains("a row has left"));
    assert!(second.load_from(&mut &file[..]).unwrap_err().to_string().contains("a row has left"));
}

fn second_row(collector: &Collector<Tag>) -> bevy_ecs::entity::Entity {
    let world = collector.world();
    let mut rows = world.try_query::<(bevy_ecs::entity::Entity, &RowIndex)>().unwrap();
    rows.iter(world).find(|(_, row)| row.0 == 1).unwrap().0
}

/// G11: whatever happens while it is saved, the old file or the new one is there.
#[test]
fn g11_the_old_file_survives_a_failed_save() {
    let (first, file) = (run(new(4, spec())), path("old"));
    first.save(&file).unwrap();
    let old = fs::read(&file).unwrap();
    let mut shut = new(4, spec());
    shut.shutdown();
    assert!(shut.save(&file).is_err());
    assert_eq!(fs::read(&file).unwrap(), old);
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    fs::remove_dir_all(file.parent().unwrap()).unwrap();
}

#[test]
fn another_collection_is_named() {
    let file = saved(&run(new(4, spec())));
    let wrong = |collector: &mut Collector<Tag>, part: &str| {
        let problem = collector.load_from(&mut &file[..]).unwrap_err().to_string();
        assert!(problem.contains(part), "{problem} lacks {part}");
        assert_eq!(collector.stats().stepped_frames, 0);
    };
    wrong(&mut new(5, spec()), "rows is 5");
    let base = || tags(Script::lengths(&[3, 40, 7], Ending::Terminated)).rows(4).frames_per_batch(20).seed(3);
    let policy = || Policy::network(spec()).backend(Backend::Cpu);
    let mut same = base().policy(policy()).threads(2).total_frames(77).seed(9).build().unwrap();
    same.load_from(&mut &file[..]).unwrap();
    wrong(&mut base().policy(policy()).worker(3).build().unwrap(), "worker is 3");
    wrong(&mut base().policy(policy()).frames_per_batch(40).build().unwrap(), "option frames_per_batch is 40");
    wrong(&mut base().policy(policy()).max_frames_per_traj(9).build().unwrap(), "option max_frames_per_traj is 9");
    wrong(&mut base().policy(policy()).record_states(true).build().unwrap(), "columns is");
    wrong(&mut base().build().unwrap(), "policies is");
    let mut cart = Collector::<CartPole>::builder().rows(4).build().unwrap();
    let problem = cart.load_from(&mut &file[..]).unwrap_err().to_string();
    assert!(problem.contains("it is of task") && problem.contains("CartPole"), "{problem}");
    let replay = gleaner::replay::Replay::<Tag>::new(10).unwrap();
    let mut other = Vec::new();
    replay.save_to(&mut other, &[]).unwrap();
    assert!(new(4, spec()).load_from(&mut &other[..]).unwrap_err().to_string().contains("does not begin with"));
}
