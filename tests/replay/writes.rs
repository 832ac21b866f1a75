//! What a collector writes to a buffer is what it would have yielded, and its receipts and ledger say so.

use std::{collections::HashMap, sync::Arc, time::Duration};

use gleaner::{
    components::{End, Truncation},
    config::CollectorBuilder,
    env::RowStepper,
    prelude::*,
    replay::{Limiter, ReplayConfig},
};
use proptest::prelude::*;

use crate::support::{Case, Ending, Log, Mode, NEVER, Publish, Script, Seen, Tag, balance, case, configure, tags};

/// Row, episode of the row, step.
type Place = (u32, u32, u32);
/// What is seen, what follows, the end, the action.
type Held = (Seen, Seen, End, f32);

/// All frames of a buffer.
fn held(replay: &Replay<Tag>) -> HashMap<Place, Held> {
    let numbers: Vec<u64> = replay.frames().collect();
    let sample = replay.read(&numbers).expect("frames that are there");
    let frame = |i: usize| {
        let (seen, next) = (sample.observations()[i], *sample.next_observation(i));
        let (row, resets) = seen.place();
        ((row, resets, sample.steps()[i].0), (seen, next, sample.ends()[i], sample.actions()[i]))
    };
    (0..sample.len()).map(frame).collect()
}

/// All frames of a log.
fn logged(log: &Log) -> HashMap<Place, Held> {
    let frame = |frame: &crate::support::Frame| {
        let (row, resets) = frame.observation.place();
        ((row, resets, frame.step), (frame.observation, frame.next, frame.end, frame.action))
    };
    log.frames.iter().map(frame).collect()
}

/// Every trajectory of the buffer has the frames of one id, with steps that follow each other.
fn check_trajectories(replay: &Replay<Tag>) {
    let numbers: Vec<u64> = replay.frames().collect();
    let sample = replay.read(&numbers).expect("frames that are there");
    let mut steps: HashMap<u64, Vec<u32>> = HashMap::new();
    for (id, step) in sample.trajectory_ids().iter().zip(sample.steps()) {
        steps.entry(id.0).or_default().push(step.0);
    }
    let stored = replay.trajectories();
    assert_eq!(stored.len(), steps.len());
    for stored in stored {
        let own = &steps[&stored.id.0];
        assert_eq!(stored.frames as usize, own.len(), "{stored:?}");
        assert!(own.windows(2).all(|pair| pair[1] == pair[0] + 1), "{stored:?}: {own:?}");
        assert_eq!(stored.beheaded, own[0] > 0);
    }
}

fn builder() -> CollectorBuilder<Tag, RowStepper<Tag>> {
    tags(Script::lengths(&[2, 3], Ending::Terminated)).rows(2).frames_per_batch(24)
}

fn buffer(frames: u64) -> Replay<Tag> {
    Replay::new(frames).expect("a buffer")
}

/// Takes all receipts; they and the ledger must agree with the buffer after each.
fn take_all(collector: &mut Collector<Tag>, replay: &Replay<Tag>) -> Vec<Receipt> {
    let mut all = Vec::<Receipt>::new();
    while let Some(receipt) = collector.next_receipt() {
        let receipt = receipt.expect("no fault");
        assert_eq!(receipt.index, all.len() as u64);
        all.push(receipt);
        let stats = collector.stats();
        balance(&stats).unwrap();
        assert_eq!(stats.written_frames, Some(replay.write_count()));
    }
    let stats = collector.stats();
    balance(&stats).unwrap();
    assert_eq!(all.iter().map(|receipt| receipt.frames).sum::<u64>(), stats.written_frames.unwrap());
    assert_eq!(all.iter().map(|receipt| receipt.trajectories).sum::<u64>(), stats.written_trajectories.unwrap());
    assert_eq!((stats.in_flight_frames, stats.batches), (0, all.len() as u64));
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// I16: rollouts in a buffer are the frames of the batches.
    #[test]
    fn i16_rollouts_are_stored_as_they_are_yielded(case in case(), hooked in any::<bool>()) {
        let case = Case { mode: Mode::Rollout, edge: false, publish: Publish::Nobody, simulator: false, ..case };
        let replay = buffer(case.total);
        let mut builder = tags(case.script.clone()).replay(&replay);
        if hooked {
            builder = builder.post_collect(|_| Ok(()));
        }
        let mut collector = configure(builder, &case);
        take_all(&mut collector, &replay);
        prop_assert_eq!(held(&replay), logged(&case.run()));
        check_trajectories(&replay);
    }

    /// I16, O-07: whole trajectories in a buffer are those of the batches, each in one piece; with little room for running ones
    /// what is there is right, and lies in order.
    #[test]
    fn o07_i16_trajectories_are_stored_as_they_are_yielded(
        case in case(),
        per_write in proptest::option::of(1..5_usize),
        hooked in any::<bool>(),
        most in 0..60_usize,
    ) {
        let case = Case { mode: Mode::Rollout, edge: false, publish: Publish::Nobody, simulator: false, ..case };
        let all = logged(&case.run());
        let cat = Case { mode: Mode::Cat(3), ..case.clone() };
        for most in [usize::MAX, most] {
            let replay = buffer(case.total);
            let mut builder = tags(case.script.clone()).replay(&replay).max_open_frames(most);
            builder = builder.replay_write_mode(ReplayWriteMode::Trajectory);
            if let Some(n) = per_write {
                builder = builder.trajs_per_write(n);
            }
            if hooked {
                builder = builder.post_process(Ok);
            }
            let mut collector = configure(builder, &case);
            let receipts = take_all(&mut collector, &replay);
            let held = held(&replay);
            if most == usize::MAX {
                prop_assert_eq!(&held, &logged(&cat.run()));
                for stored in replay.trajectories() {
                    let numbers: Vec<u64> = (stored.first..).take(stored.frames as usize).collect();
                    let sample = replay.read(&numbers).expect("one piece");
                    prop_assert!(sample.trajectory_ids().iter().all(|id| *id == stored.id));
                    prop_assert!(stored.complete && !stored.beheaded);
                }
                let n = per_write.unwrap_or(usize::MAX) as u64;
                prop_assert!(receipts.iter().all(|receipt| receipt.trajectories <= n));
            }
            for (place, (seen, next, end, action)) in &held {
                let (wanted_seen, wanted_next, wanted_end, wanted_action) = all[place];
                prop_assert_eq!((*seen, *next, *action), (wanted_seen, wanted_next, wanted_action));
                // A fault that is found behind a rollout is the end of a whole trajectory only.
                prop_assert!(*end == wanted_end || *end == wanted_end.or_truncated(Truncation::Fault));
            }
            check_trajectories(&replay);
        }
    }
}

#[test]
fn rw1_modes_and_what_they_exclude() {
    let replay = buffer(100);
    let trajectory = ReplayWriteMode::Trajectory;
    let wrong: [(&str, &str, CollectorBuilder<Tag, RowStepper<Tag>>); 8] = [
        ("trajs_per_batch", "replay_write_mode", builder().replay(&replay).trajs_per_batch(2)),
        (
            "replay_write_mode",
            "trajs_per_batch",
            builder().replay(&replay).trajs_per_batch(2).replay_write_mode(trajectory),
        ),
        ("replay_write_mode", "replay", builder().replay_write_mode(ReplayWriteMode::Rollout)),
        ("trajs_per_write", "replay", builder().trajs_per_write(2)),
        ("max_open_frames", "replay", builder().max_open_frames(2)),
        ("trajs_per_write", "replay_write_mode", builder().replay(&replay).trajs_per_write(2)),
        ("max_open_frames", "replay_write_mode", builder().replay(&replay).max_open_frames(2)),
        ("set_truncated", "replay", builder().replay(&replay).set_truncated(true)),
    ];
    for (first, second, builder) in wrong {
        let error = builder.build().expect_err("a conflict");
        let Error::Conflict { first: a, second: b, .. } = &error else { panic!("{error}") };
        assert_eq!((*a, *b), (first, second), "{error}");
    }
    let none = builder().replay(&replay).replay_write_mode(trajectory).trajs_per_write(0).build().expect_err("none");
    assert!(none.to_string().starts_with("trajs_per_write is 0"), "{none}");
    let error = builder().replay(&replay.read_only()).build().expect_err("read-only").to_string();
    assert!(error.contains("read-only"), "{error}");
    // Without a mode: rollouts.
    let mut collector = builder().replay(&replay).build().unwrap();
    assert_eq!(collector.next_receipt().unwrap().unwrap().frames, 24);
}

#[test]
fn rw2_trajectories_of_a_write() {
    // Ten episodes end in the first rollout.
    for (per_write, wanted) in [(Some(2), vec![2; 5]), (Some(4), vec![4, 4, 2]), (Some(50), vec![10]), (None, vec![10])]
    {
        let replay = buffer(1_000);
        let mut builder = builder().replay(&replay).replay_write_mode(ReplayWriteMode::Trajectory);
        if let Some(n) = per_write {
            builder = builder.trajs_per_write(n);
        }
        let mut collector = builder.build().unwrap();
        let mut written = Vec::new();
        for _ in 0..wanted.len() {
            let receipt = collector.next_receipt().unwrap().unwrap();
            written.push(receipt.trajectories);
            assert_eq!(collector.stats().stepped_frames, 24, "they come from one rollout");
        }
        assert_eq!(written, wanted);
        assert_eq!(replay.write_count(), 24);
        assert!(replay.trajectories().iter().all(|stored| stored.complete));
    }
}

#[test]
fn rw3_nothing_finished_yields_nothing() {
    let replay = buffer(1_000);
    let builder = tags(Script::all(100, Ending::Truncated)).rows(2).frames_per_batch(20).total_frames(430);
    let mut collector = builder.replay(&replay).replay_write_mode(ReplayWriteMode::Trajectory).build().unwrap();
    let receipts = take_all(&mut collector, &replay);
    // Both rows end twice, at ticks 100 and 200 of 215.
    assert_eq!(receipts.iter().map(|receipt| receipt.frames).collect::<Vec<_>>(), [200, 200]);
    let stats = collector.stats();
    assert_eq!((stats.discarded.shutdown, stats.open_frames), (30, Some(0)));
    assert_eq!(collector.len(), None);
}

#[test]
fn receipts_and_batches_do_not_mix() {
    let replay = buffer(100);
    let mut collector = builder().replay(&replay).build().unwrap();
    assert_eq!(collector.replay().map(Replay::write_count), Some(0));
    let error = collector.rollout().unwrap_err().to_string();
    assert!(error.contains("receipts"), "{error}");
    let error = collector.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("receipts()"), "{error}");
    assert!(collector.next().is_none(), "an error ends the iteration");
    let mut collector = builder().build().unwrap();
    let error = collector.next_receipt().unwrap().unwrap_err().to_string();
    assert!(error.contains("CollectorBuilder::replay"), "{error}");
}

#[test]
fn rw10_hooks_see_every_batch_and_what_they_change_is_stored() {
    for mode in [ReplayWriteMode::Rollout, ReplayWriteMode::Trajectory] {
        let (replay, seen) = (buffer(1_000), Arc::new(std::sync::Mutex::new(Vec::new())));
        let inside = seen.clone();
        let counts = replay.clone();
        let builder = builder().total_frames(72).replay(&replay).replay_write_mode(mode);
        let builder = builder.post_process(|batch| Ok(batch.select(&[0, 1, 2, 3, 4])?));
        let mut collector = builder
            .post_collect(move |batch| {
                inside.lock().unwrap().push((batch.frames() as u64, counts.write_count()));
                Ok(())
            })
            .build()
            .unwrap();
        let receipts = take_all(&mut collector, &replay);
        assert_eq!(receipts.len(), 3);
        let wanted: Vec<_> = receipts.iter().map(|receipt| (receipt.frames, receipt.write_count)).collect();
        assert_eq!(*seen.lock().unwrap(), wanted, "each batch once, as it is stored");
        let stats = collector.stats();
        assert_eq!((stats.written_frames, replay.write_count()), (Some(15), 15));
        assert_eq!(stats.frames - stats.discarded.post_processing, 15);
    }
}

#[test]
fn a_hook_that_fails_loses_nothing_that_is_stored() {
    let replay = buffer(1_000);
    let mut collector = builder().replay(&replay).post_collect(|_| Err("no".into())).build().unwrap();
    assert!(matches!(collector.next_receipt(), Some(Err(Error::Hook { .. }))));
    let stats = collector.stats();
    balance(&stats).unwrap();
    assert_eq!((stats.written_frames, stats.discarded.total(), replay.len()), (Some(24), 0, 24));
    assert!(collector.next_receipt().is_none());
}

#[test]
fn open_pieces_are_bounded_and_go_on() {
    for hooked in [false, true] {
        let replay = buffer(10_000);
        let script = Script::lengths(&[NEVER, 50, 7], Ending::Terminated);
        let mut builder = tags(script).rows(3).frames_per_batch(12).total_frames(3 * 200).max_open_frames(20);
        builder = builder.replay(&replay).replay_write_mode(ReplayWriteMode::Trajectory);
        if hooked {
            builder = builder.post_collect(|_| Ok(()));
        }
        let mut collector = builder.build().unwrap();
        let mut most = 0;
        while let Some(receipt) = collector.next_receipt() {
            receipt.unwrap();
            most = most.max(collector.stats().open_frames.unwrap());
            balance(&collector.stats()).unwrap();
        }
        assert!((10..=20).contains(&most), "{most}");
        let stats = collector.stats();
        assert!(stats.early_pieces > Some(5), "{stats:?}");
        check_trajectories(&replay);
        // The endless one is in the buffer but for what is held; those of 50 are whole though they came in pieces.
        let stored = replay.trajectories();
        assert!(stored.iter().any(|stored| !stored.complete && stored.frames >= 180));
        assert_eq!(stored.iter().filter(|stored| stored.complete && stored.frames == 50).count(), 4);
        assert!(stored.iter().all(|stored| !stored.beheaded));
    }
}

#[test]
fn a_reset_drops_what_is_held() {
    let replay = buffer(10_000);
    let mut builder = tags(Script::all(30, Ending::Terminated)).rows(2).frames_per_batch(20).max_open_frames(15);
    builder = builder.replay(&replay).replay_write_mode(ReplayWriteMode::Trajectory);
    let mut collector = builder.build().unwrap();
    collector.next_receipt().unwrap().unwrap();
    assert_eq!(collector.stats().early_pieces, Some(1));
    collector.reset(Rows::All).unwrap();
    let stats = collector.stats();
    assert_eq!((stats.discarded.reset, stats.written_frames, stats.open_frames), (10, Some(10), Some(0)));
    balance(&stats).unwrap();
    for _ in 0..6 {
        collector.next_receipt().unwrap().unwrap();
        balance(&collector.stats()).unwrap();
    }
    check_trajectories(&replay);
    collector.shutdown();
    let stats = collector.stats();
    balance(&stats).unwrap();
    assert_eq!((stats.in_flight_frames, stats.open_frames), (0, Some(0)));
}

#[test]
fn the_warm_up_is_stored_and_marked() {
    let replay = buffer(1_000);
    let mut collector = builder().init_random_frames(31).total_frames(72).replay(&replay).build().unwrap();
    take_all(&mut collector, &replay);
    let sample = replay.read(&replay.frames().collect::<Vec<_>>()).unwrap();
    assert_eq!(sample.flags().iter().filter(|flags| flags.random()).count(), 31);
}

#[test]
fn a_buffer_that_takes_too_long_ends_the_collection() {
    for mode in [ReplayWriteMode::Rollout, ReplayWriteMode::Trajectory] {
        let limiter = Some(Limiter { samples_per_insert: 1.0, min_size: 1, error_buffer: 20.0 });
        let config = ReplayConfig { deadline: Duration::from_millis(30), limiter, ..buffer(100).config().clone() };
        for hooked in [false, true] {
            let replay = Replay::<Tag>::with_config(config.clone()).unwrap();
            let mut builder = builder().replay(&replay).replay_write_mode(mode);
            if hooked {
                builder = builder.post_collect(|_| Ok(()));
            }
            let mut collector = builder.build().unwrap();
            assert_eq!(collector.next_receipt().unwrap().unwrap().frames, 24, "the first is let in whole");
            let error = collector.next_receipt().unwrap().unwrap_err();
            assert!(matches!(error, Error::Timeout { .. }) && error.to_string().contains("limiter"), "{error}");
            assert!(collector.next_receipt().is_none());
            let stats = collector.stats();
            balance(&stats).unwrap();
            assert_eq!(
                (stats.written_frames, stats.in_flight_frames, replay.write_count()),
                (Some(24), 0, 24),
                "{stats:?}"
            );
        }
    }
}

#[test]
fn a_run_file_may_have_a_buffer() {
    let mut registry = Registry::empty();
    registry.add::<CartPole>("cart_pole");
    let open = |text: &str| {
        let path = std::env::temp_dir().join(format!("gleaner-writes-{}.ron", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let opened = registry.open(&path);
        std::fs::remove_file(path).unwrap();
        opened
    };
    let text = r#"(
        env: "cart_pole",
        collector: (rows: 4, total_frames: 1_000, replay_write_mode: Trajectory, trajs_per_write: 3),
        replay: (capacity: Frames(500)),
    )"#;
    let mut collector = open(text).unwrap();
    let mut frames = 0;
    while let Some(receipt) = collector.next_receipt() {
        frames += receipt.unwrap().frames;
    }
    assert_eq!(collector.stats().written_frames, Some(frames));
    let own = collector.as_any_mut().downcast_mut::<Collector<CartPole>>().unwrap();
    assert_eq!(own.replay().unwrap().write_count(), frames);
    let wrong = open(&text.replace("500", "0")).unwrap_err().to_string();
    assert!(wrong.contains(":4:") && wrong.contains("capacity is 0 frames"), "{wrong}");
}
