//! Slices by the priority of their first frame.

use gleaner::{
    components::End,
    replay::{Replay, sampler::PrioritizedSlices},
};

use crate::made::{Block, Frame, Made};

/// J1: a full ring of 10 whose places hold the trajectories 3 3 0 1 1 1 2 2 2 3, the last of which goes on at place 0.
fn places_of_starts(cursor: u32) -> Vec<u64> {
    let place = [(3, 1), (3, 2), (0, 0), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (3, 0)];
    let frame = |serial: u32| {
        let (id, step) = place[serial as usize % 10];
        Frame { serial, id, step, end: End::RUNNING }
    };
    let other = |serial| Frame { serial, id: 9, step: serial, end: End::RUNNING };
    let slots: Vec<_> = (0..cursor).map(other).chain((cursor..cursor + 10).map(frame)).map(Some).collect();
    let replay = Replay::<Made>::new(10).expect("a buffer");
    replay.extend(&Block::new(&slots, None)).expect("room");
    let slices = PrioritizedSlices { slice_len: 3, ..PrioritizedSlices::default() };
    let mut sampler = replay.sampler().sampling(slices).batch_size(10_000).build().expect("a sampler");
    // The highest priorities are where no slice begins.
    let late: Vec<u64> = replay.frames().filter(|frame| ![3, 6, 9].contains(&(frame % 10))).collect();
    sampler.update_priorities(&late, &vec![1e9; late.len()]).expect("there");
    let sample = sampler.sample().expect("slices");
    let mut starts: Vec<_> = (0..sample.picks()).map(|i| sample.index(sample.pick(i).start)).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

#[test]
fn j1_slices_stay_in_their_trajectory_at_the_wrap() {
    assert_eq!(places_of_starts(2), [3, 6, 9]);
    assert_eq!(places_of_starts(0), [3, 6]);
}

#[test]
fn what_is_too_short_is_said() {
    let replay = Replay::<Made>::new(10).expect("a buffer");
    let frame = |serial| Some(Frame { serial, id: 1, step: serial, end: End::RUNNING });
    replay.extend(&Block::new(&[frame(0), frame(1)], None)).expect("room");
    let slices = PrioritizedSlices { slice_len: 3, ..PrioritizedSlices::default() };
    let mut sampler = replay.sampler().sampling(slices).batch_size(1).build().expect("a sampler");
    assert!(sampler.sample().expect_err("too short").to_string().contains("no 3 frames of a trajectory"));
    // The third frame makes the first one begin a slice, with the priority it was given meanwhile.
    sampler.update_priorities(&[0], &[0.5]).expect("there");
    replay.extend(&Block::new(&[frame(2)], None)).expect("room");
    assert_eq!(sampler.sample().expect("a slice").frames(), [0, 1, 2]);
    let none = PrioritizedSlices { slice_len: 0, ..slices };
    assert!(replay.sampler().sampling(none).build().is_err());
}
