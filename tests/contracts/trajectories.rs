//! Batches of whole trajectories: exactly as many as asked for, in order of completion, none cut, none lost; the same
//! episodes are entities and events.

use std::sync::{Arc, Mutex};

use crate::support::{Ending, Script, Tag, balance, tags};
use bevy_ecs::prelude::*;
use gleaner::{
    components::Trajectory,
    config::TrajFormat,
    prelude::{Batch, Layout},
    rollout::EpisodeEnded,
};

/// Rows and episodes of a batch's trajectories.
fn listed(batch: &Batch<Tag>) -> Vec<(u32, u32)> {
    batch.trajectories().iter().map(|trajectory| (trajectory.row.0, trajectory.length)).collect()
}

#[test]
fn ta1_ta8_exactly_n_in_order_of_completion() {
    let builder = tags(Script::lengths(&[2, 3], Ending::Terminated)).rows(2).frames_per_batch(24);
    let mut collector = builder.trajs_per_batch(4).build().unwrap();
    // Ends at ticks 1, 2, 3, 5 and 5, 7, 8, 9: one poll of twelve ticks gives ten trajectories, two batches of four.
    let first = collector.next().unwrap().unwrap();
    assert_eq!(listed(&first), [(0, 2), (1, 3), (0, 2), (0, 2)]);
    assert_eq!(collector.stats().stepped_frames, 24);
    let second = collector.next().unwrap().unwrap();
    assert_eq!(listed(&second), [(1, 3), (0, 2), (1, 3), (0, 2)]);
    assert_eq!(collector.stats().stepped_frames, 24, "several batches come from one poll");
    let third = collector.next().unwrap().unwrap();
    assert_eq!(listed(&third), [(0, 2), (1, 3), (0, 2), (1, 3)]);
    assert_eq!(collector.stats().stepped_frames, 48);
}

#[test]
fn ta3_flat_trajectories_lie_one_behind_the_other() {
    let builder = tags(Script::lengths(&[2, 3, 50], Ending::Truncated)).rows(3).frames_per_batch(30);
    let batch = builder.trajs_per_batch(3).build().unwrap().next().unwrap().unwrap();
    assert_eq!(batch.layout(), Layout::Flat { frames: 7 });
    let mut at = 0;
    for trajectory in batch.trajectories() {
        let end = at + trajectory.length as usize;
        assert!(batch.trajectory_ids()[at..end].iter().all(|id| *id == trajectory.id));
        assert!(batch.ends()[at..end - 1].iter().all(|end| !end.done()) && batch.ends()[end - 1].done());
        at = end;
    }
    assert_eq!(at, batch.len());
    assert!(batch.rows().is_empty() && batch.last_observations().is_empty());
}

#[test]
fn ta2_padding_is_zeros_up_to_the_longest() {
    let builder = tags(Script::lengths(&[2, 5], Ending::Truncated)).rows(2).frames_per_batch(20);
    let builder = builder.trajs_per_batch(3).traj_format(TrajFormat::Padded);
    let batch = builder.build().unwrap().next().unwrap().unwrap();
    // Row 0 ends at ticks 1 and 3, row 1 at tick 4.
    assert_eq!(batch.layout(), Layout::Padded { trajectories: 3, length: 5 });
    let valid: Vec<bool> = batch.flags().iter().map(|flags| flags.valid()).collect();
    let wanted = [[true, true, false, false, false], [true, true, false, false, false], [true; 5]].concat();
    assert_eq!((valid, batch.frames()), (wanted, 9));
    assert_eq!(batch.array::<f32>("reward").unwrap().shape(), [3, 5]);
}

#[test]
fn ta7_a_trajectory_across_polls_is_joined() {
    let builder = tags(Script::all(100, Ending::Terminated)).rows(2).frames_per_batch(6);
    let batch = builder.trajs_per_batch(1).build().unwrap().next().unwrap().unwrap();
    assert_eq!(batch.frames(), 100);
    assert!(batch.observations().iter().enumerate().all(|(i, seen)| seen.t == i as f32 && seen.row == 1.0));
}

#[test]
fn ta9_leftovers_come_in_a_last_smaller_batch() {
    let builder = tags(Script::all(4, Ending::Terminated)).rows(3).frames_per_batch(30).total_frames(3 * 14);
    let mut collector = builder.trajs_per_batch(5).build().unwrap();
    let sizes: Vec<usize> = collector.by_ref().map(|batch| batch.unwrap().trajectories().len()).collect();
    assert_eq!(sizes, [5, 4]);
    let stats = collector.stats();
    assert_eq!((stats.frames, stats.discarded.shutdown, stats.completed_trajectories), (36, 6, 9));
    balance(&stats).unwrap();
}

#[test]
fn ta10_shutdown_counts_what_it_drops() {
    let builder = tags(Script::lengths(&[4, 50], Ending::Terminated)).rows(2).frames_per_batch(20);
    let mut collector = builder.trajs_per_batch(1).build().unwrap();
    collector.next().unwrap().unwrap();
    collector.shutdown();
    let stats = collector.stats();
    assert_eq!((stats.in_flight_frames, stats.trajectory_pending_frames, stats.discarded.shutdown), (0, 0, 16));
    balance(&stats).unwrap();
    assert!(collector.next().is_none());
}

#[test]
fn ta11_a_simulators_rows_are_taken_apart() {
    let script = Script::lengths(&[2, 3, 7], Ending::Truncated);
    let flat =
        |batch: &[crate::support::Seen]| batch.iter().map(|seen| (seen.row, seen.resets, seen.t)).collect::<Vec<_>>();
    let sim = gleaner::prelude::Collector::with_simulator(Tag::simulator(&script, 3)).rows(3).frames_per_batch(33);
    let mut sim = sim.trajs_per_batch(5).build().unwrap();
    let mut rows = tags(script).rows(3).frames_per_batch(33).trajs_per_batch(5).build().unwrap();
    for _ in 0..6 {
        let (a, b) = (sim.next().unwrap().unwrap(), rows.next().unwrap().unwrap());
        assert_eq!(flat(a.observations()), flat(b.observations()));
        assert_eq!(a.trajectories(), b.trajectories());
    }
}

/// What a host heard.
#[derive(Resource, Clone, Default)]
struct Heard(Arc<Mutex<Vec<Trajectory>>>);

#[test]
fn episodes_are_events_on_request() {
    for asked in [false, true] {
        let heard = Heard::default();
        let resource = heard.clone();
        let builder = tags(Script::lengths(&[2, 3], Ending::Truncated)).rows(2).frames_per_batch(24);
        let builder = builder.episode_events(asked).setup(move |world, _| {
            world.insert_resource(resource.clone());
            world.add_observer(|event: On<EpisodeEnded<Tag>>, heard: Res<Heard>| {
                heard.0.lock().unwrap().push(event.trajectory);
            });
        });
        let mut collector = builder.build().unwrap();
        let mut wanted = Vec::new();
        for _ in 0..3 {
            wanted.extend_from_slice(collector.next().unwrap().unwrap().trajectories());
        }
        assert_eq!(*heard.0.lock().unwrap(), if asked { wanted } else { Vec::new() });
    }
}

#[test]
fn episodes_are_entities_until_the_next_rollout() {
    let builder = tags(Script::lengths(&[2, 3, 40], Ending::Truncated)).rows(3).frames_per_batch(30);
    let mut collector = builder.build().unwrap();
    for _ in 0..6 {
        let batch = collector.next().unwrap().unwrap();
        let world = collector.world_mut();
        let mut query = world.query::<&Trajectory>();
        let mut found: Vec<_> = query.iter(world).filter(|trajectory| trajectory.id.0 != 0).copied().collect();
        found.sort_by_key(|trajectory| (trajectory.tick, trajectory.row));
        assert_eq!(found, batch.trajectories());
    }
}

#[test]
fn ta20_a_block_is_split_where_episodes_change() {
    let builder = tags(Script::lengths(&[2, 3], Ending::Terminated)).rows(2).frames_per_batch(8).total_frames(15);
    let collector = builder.build().unwrap();
    let batches: Vec<_> = collector.map(Result::unwrap).collect();
    let split = batches[0].split_trajectories().unwrap();
    // Row 0: 2, 2. Row 1: 3 and the first frame of an episode that goes on.
    assert_eq!(split.layout(), Layout::Padded { trajectories: 4, length: 3 });
    let lengths: Vec<_> = split.flags().chunks(3).map(|piece| piece.iter().filter(|f| f.valid()).count()).collect();
    assert_eq!(lengths, [2, 2, 3, 1]);
    assert_eq!(split.frames(), 8);
    for (piece, length) in lengths.iter().enumerate() {
        let slots = piece * 3..piece * 3 + length;
        let id = split.trajectory_ids()[slots.start];
        assert!(split.trajectory_ids()[slots.clone()].iter().all(|other| *other == id), "one episode a piece");
        for slot in slots {
            let (seen, next) = (split.observations()[slot].place(), split.next_observation(slot).place());
            assert_eq!(next.0, seen.0, "what follows is of the same row");
        }
    }
    assert_eq!(split.trajectory_ids()[9], batches[1].trajectory_ids()[1], "the cut episode goes on in the next batch");
    assert!(split.split_trajectories().is_err(), "trajectories are apart already");
    // Fifteen frames: the last tick has one row only, and the split leaves the empty slot out.
    let last = batches[1].split_trajectories().unwrap();
    assert_eq!((batches[1].frames(), last.frames()), (7, 7));
    assert_eq!(last.flags().iter().filter(|flags| flags.valid()).count(), 7);
}
