//! Edits change what they say and nothing else, while others draw.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use gleaner::{
    prelude::*,
    replay::{
        Newer, Patch, Sample, Updated,
        sampler::{Best, Groups, Share, Staleness},
    },
};

use crate::made::{Block, Made, Source};

/// A buffer of 10 frames that got 14: frames 4 to 13 are there.
fn filled() -> Replay<Made> {
    let replay = Replay::new(10).unwrap();
    replay.extend(&Block::new(&Source::new(1, 0).episodes(&[5, 5, 4]), None)).unwrap();
    replay
}

fn rewards(replay: &Replay<Made>) -> Vec<f32> {
    replay.read(&replay.frames().collect::<Vec<_>>()).unwrap().rewards().to_vec()
}

#[test]
fn rb6_columns_are_set_by_frame() {
    let replay = filled();
    replay.set("reward", &[5, 13], &[-1.0_f32, -2.0]).unwrap();
    replay.update("reward", &[6, 6], |frame, reward: &mut f32| *reward += 10.0 * frame as f32).unwrap();
    assert_eq!(rewards(&replay), [4.0, -1.0, 126.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, -2.0]);
    let sample = replay.read(&[5]).unwrap();
    assert_eq!((sample.actions()[0], sample.versions()[0]), (5, u64::from(!5_u32)), "nothing else changed");
    for (error, wanted) in [
        (replay.set("reward", &[13, 3], &[0.0_f32, 0.0]), "frame is 3; legal: those that are there, 4..14"),
        (replay.set("reward", &[13, 14], &[0.0_f32, 0.0]), "frame is 14"),
        (replay.set("rewards", &[13], &[0.0_f32]), "column is rewards; legal: observation, action, reward, version"),
        (replay.set("step", &[13], &[0_u32]), "column is step; legal: observation"),
        (replay.set("reward", &[13], &[0.0_f64]), "values is 8 bytes each; legal: 4"),
        (replay.set("reward", &[13], &[0.0_f32, 1.0]), "values is 2 of \"reward\"; legal: one for each of 1"),
        (Replay::<Made>::new(4).unwrap().set("reward", &[0], &[0.0_f32]), "frame is 0; legal: none"),
    ] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    assert_eq!(rewards(&replay)[9], -2.0, "an error changes nothing");
}

/// What samplers keep of columns is read again once those were edited.
#[test]
fn edits_reach_the_samplers_that_keep_what_they_read() {
    let replay = filled();
    let newest = Staleness { max_staleness: Some(0), version: None, ..Staleness::default() };
    let best = Groups { column: "trajectory".into(), share: Share::Groups(1), best: Best::Reward };
    let mut by_version = replay.sampler().sampling(newest).batch_size(20).build().unwrap();
    let mut by_reward = replay.sampler().sampling(best).batch_size(2).build().unwrap();
    // Versions fall with the serial number here: the oldest frame, number 4, is of the newest weights.
    assert!(by_version.sample().unwrap().frames().iter().all(|frame| *frame == 4));
    assert!(by_reward.sample().unwrap().frames().iter().all(|frame| *frame >= 10));
    replay.set("version", &[7], &[u64::MAX]).unwrap();
    replay.set("reward", &[6], &[500.0_f32]).unwrap();
    let sample = by_version.sample().unwrap();
    assert!(sample.frames().iter().all(|frame| *frame == 7), "{:?}", sample.frames());
    assert_eq!(sample.staleness(0), Some(0));
    assert!(by_reward.sample().unwrap().frames().iter().all(|frame| (5..10).contains(frame)));
}

#[test]
fn rb21_late_results_reach_what_is_there() {
    let replay = filled();
    let patch = |values: &'static [f32]| Patch::new().column("reward", values);
    let done = replay.update_if_present(&[2, 5, 99, 7], &patch(&[1.5, 2.5, 3.5, 4.5]), None).unwrap();
    assert_eq!(done.updated, [false, true, false, true]);
    assert_eq!((done.updated_count, done.rejected_count), (2, 0));
    assert_eq!(rewards(&replay)[..4], [4.0, 2.5, 6.0, 4.5]);
    // Of a frame that is named twice the last counts.
    let done = replay.update_if_present(&[5, 5], &patch(&[7.0, 8.0]), None).unwrap();
    assert_eq!((done.updated, done.version_rejected), (vec![false, true], vec![false, false]));
    assert_eq!(rewards(&replay)[1], 8.0);
}

#[test]
fn rb21_only_newer_versions_count() {
    let replay = filled();
    replay.set("version", &[4, 5, 6], &[10_u64, 10, 10]).unwrap();
    let frames = [4, 5, 6, 4, 4, 1];
    let values = [0.1_f32, 0.2, 0.3, 0.4, 0.5, 0.6];
    let patch = Patch::new().column("reward", &values);
    let versions = [11, 10, 9, 12, 12, 99];
    let newer = |require_newer| Some(Newer { column: "version", versions: &versions, require_newer });
    let done = replay.update_if_present(&frames, &patch, newer(true)).unwrap();
    // Frame 4: the last of the two highest. Frame 5 has an equal version, frame 6 an older one, frame 1 is gone.
    let wanted = Updated {
        updated: vec![false, false, false, false, true, false],
        version_rejected: vec![true, true, true, true, false, false],
        updated_count: 1,
        rejected_count: 4,
    };
    assert_eq!(done, wanted);
    assert_eq!(rewards(&replay)[..3], [0.5, 5.0, 6.0]);
    assert_eq!(replay.read(&[4, 5]).unwrap().versions(), [12, 10]);
    let done = replay.update_if_present(&frames, &patch, newer(false)).unwrap();
    assert_eq!(done.updated, [false, true, false, false, true, false], "equal is new enough");
    assert_eq!(rewards(&replay)[..3], [0.5, 0.2, 6.0]);
}

#[test]
fn rb21_a_wrong_patch_changes_nothing() {
    let replay = filled();
    let before = rewards(&replay);
    let (good, versions) = ([1.0_f32], [u64::MAX]);
    let newer = |column, versions| Some(Newer { column, versions, require_newer: false });
    let patch = || Patch::new().column("reward", &good);
    for (error, wanted) in [
        (replay.update_if_present(&[5], &patch().column("reword", &good), None), "column is reword"),
        (replay.update_if_present(&[5], &patch().column("action", &[1_u64]), None), "values is 8 bytes each"),
        (replay.update_if_present(&[5, 6], &patch(), None), "values is 1 of"),
        (replay.update_if_present(&[5], &patch(), newer("version", &[])), "versions is 0"),
        (replay.update_if_present(&[5], &patch(), newer("reward", &versions)), "patch is reward"),
        (replay.update_if_present(&[5], &patch(), newer("observation", &versions)), "column is observation; legal: a"),
        (
            replay.update_if_present(&[5], &patch().column("version", &[1_u64]), newer("version", &versions)),
            "patch is version",
        ),
    ] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    assert_eq!(rewards(&replay), before);
}

#[test]
fn rb7_an_emptied_buffer_goes_on() {
    for keep in [true, false] {
        let replay = filled();
        let mut sampler = replay.sampler().batch_size(4).build().unwrap();
        sampler.sample().unwrap();
        let memory = replay.stats().memory;
        replay.empty(keep).unwrap();
        assert_eq!((replay.len(), replay.write_count()), (0, if keep { 14 } else { 0 }));
        assert!(replay.trajectories().is_empty() && replay.frames().is_empty());
        assert!(sampler.sample().is_err());
        let written = replay.extend(&Block::new(&Source::new(1, 0).episodes(&[3]), None)).unwrap();
        assert_eq!((written.frames, written.trajectories, written.write_count), (3, 1, replay.write_count()));
        assert_eq!((written.first..written.first + 3), replay.frames());
        assert_eq!(replay.write_count(), if keep { 17 } else { 3 });
        // But for what a hash table says of its room.
        assert!(replay.stats().memory.abs_diff(memory) < 64, "the memory stays");
        let sample = sampler.sample().unwrap();
        assert!(sample.frames().iter().all(|frame| (14..17).contains(frame)));
        let stored = replay.trajectories();
        assert!(stored.len() == 1 && stored[0].complete && !stored[0].beheaded);
    }
}

#[test]
fn wr3_a_read_only_handle_changes_nothing() {
    let replay = filled();
    let reader = replay.read_only().clone();
    let block = Block::new(&Source::new(1, 1).episodes(&[3]), None);
    let errors = [
        reader.extend(&block).map(drop),
        reader.set("reward", &[5], &[0.0_f32]),
        reader.update("reward", &[5], |_, _: &mut f32| ()),
        reader.update_if_present(&[5], &Patch::new(), None).map(drop),
        reader.empty(true),
    ];
    for error in errors {
        assert!(error.unwrap_err().to_string().contains("read-only"));
    }
    assert_eq!(rewards(&reader), rewards(&replay));
    reader.sampler().batch_size(4).build().unwrap().sample().unwrap();
    replay.extend(&block).unwrap();
    assert_eq!(reader.write_count(), 17, "it sees what others write");
}

/// Two columns of a frame are always changed together: a sample never has one new and one old.
#[test]
fn edits_are_never_seen_by_halves() {
    let replay = Replay::<Made>::new(64).unwrap();
    replay.extend(&Block::new(&Source::new(1, 0).ticks(64, 0, &mut || 9), Some(1))).unwrap();
    let frames: Vec<u64> = replay.frames().collect();
    let set = |value: u32| {
        let (actions, rewards) = ([value as i32; 64], [value as f32; 64]);
        let patch = Patch::new().column("action", &actions).column("reward", &rewards);
        replay.update_if_present(&frames, &patch, None).unwrap();
    };
    set(0);
    let (done, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for seed in 0..2 {
            let mut sampler = replay.sampler().batch_size(200).seed(seed).build().unwrap();
            let (done, seen) = (&done, &seen);
            scope.spawn(move || {
                let mut sample = Sample::default();
                while !done.load(Relaxed) {
                    sampler.sample_into(&mut sample).unwrap();
                    let value = sample.actions()[0];
                    assert!(sample.actions().iter().all(|action| *action == value), "a torn edit");
                    assert!(sample.rewards().iter().all(|reward| *reward == value as f32), "a torn edit");
                    seen.fetch_max(value as u64, Relaxed);
                }
            });
        }
        // On a quick machine four hundred edits are over before a sampler begins.
        let end = Instant::now() + Duration::from_secs(60);
        for value in (1..).take_while(|value| *value < 400 || seen.load(Relaxed) == 0 && Instant::now() < end) {
            set(value);
            thread::yield_now();
        }
        done.store(true, Relaxed);
    });
    assert!(seen.load(Relaxed) > 0, "nobody looked meanwhile");
}
