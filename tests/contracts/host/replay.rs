//! A host's rollouts in a replay buffer are those that its batches would be.

use std::collections::BTreeMap;

use super::*;
use gleaner::replay::Limiter;

/// What happened in 1 + 12 · 6 ticks in which rows end, are asked to reset, join and leave.
fn play(builder: HostBuilder<Tag>) -> World {
    play_with(builder, HostConfig::default())
}

fn play_with(builder: HostBuilder<Tag>, config: HostConfig) -> World {
    let mut world = World::new();
    let config = HostConfig { ticks_per_batch: 6, max_frames_per_traj: Some(7), seed: 3, ..config };
    builder.config(HostConfig { max_arenas: 20, ..config }).install(&mut world).expect("legal options");
    let first = spawn(&mut world, 0, 4);
    spawn(&mut world, 1, 0);
    for tick in 0..1 + 12 * 6 {
        if tick == 20 {
            world.despawn(first);
            spawn(&mut world, 2, 3);
        }
        step(&mut world);
    }
    world
}

/// Observation, what follows, action, end of each frame, sorted.
type Frames = Vec<String>;

fn told(seen: &[f32; 3], next: &[f32; 3], action: i32, end: End) -> String {
    format!("{seen:?} {next:?} {action} {end:?}")
}

#[test]
fn rollouts_go_to_the_buffer_instead_of_the_queue() {
    let mut plain = play(HostBuilder::new(Policy::random()));
    let batches = batches(&mut plain);
    let mut wanted = Frames::new();
    for batch in &batches {
        let valid = (0..batch.len()).filter(|i| batch.flags()[*i].valid());
        let tell =
            |i: usize| told(&batch.observations()[i], batch.next_observation(i), batch.actions()[i], batch.ends()[i]);
        wanted.extend(valid.map(tell));
    }
    let replay = Replay::<Tag>::new(1_000).unwrap();
    let world = play(HostBuilder::new(Policy::random()).replay(&replay));
    let queue = world.resource::<Batches<Tag>>();
    assert!(queue.is_empty());
    let sample = replay.read(&replay.frames().collect::<Vec<_>>()).unwrap();
    let tell =
        |i: usize| told(&sample.observations()[i], sample.next_observation(i), sample.actions()[i], sample.ends()[i]);
    let mut stored: Frames = (0..sample.len()).map(tell).collect();
    wanted.sort();
    stored.sort();
    assert_eq!(stored, wanted);
    let stats = queue.stats();
    assert_eq!((stats.written_frames, stats.frames), (Some(replay.write_count()), replay.write_count()));
    assert_eq!(stats.frames + stats.in_flight_frames, stats.stepped_frames);
    assert_eq!(stats.batches, 12);
}

#[test]
fn a_buffer_that_takes_too_long_is_an_error_that_passes() {
    let limiter = Limiter { samples_per_insert: 1.0, min_size: 1, error_buffer: 10.0 };
    let deadline = std::time::Duration::from_millis(20);
    let plain = Replay::<Tag>::new(1_000).unwrap().config().clone();
    let config = ReplayConfig { deadline, limiter: Some(limiter), ..plain };
    let replay = Replay::<Tag>::with_config(config).unwrap();
    let mut world = World::new();
    let config = HostConfig { ticks_per_batch: 12, ..HostConfig::default() };
    HostBuilder::<Tag>::new(Policy::random())
        .config(config)
        .replay(&replay)
        .install(&mut world)
        .expect("legal options");
    spawn(&mut world, 0, 5);
    for _ in 0..1 + 24 {
        step(&mut world);
    }
    let error = world.resource_mut::<Batches<Tag>>().take_error().expect("nobody draws").to_string();
    assert!(error.contains("limiter"), "{error}");
    let stats = world.resource::<Batches<Tag>>().stats();
    assert_eq!((stats.written_frames, stats.discarded.fault, stats.in_flight_frames), (Some(12), 12, 0));
    replay.sampler().batch_size(40).build().unwrap().sample().unwrap();
    for _ in 0..1 + 14 {
        step(&mut world);
    }
    assert!(world.resource_mut::<Batches<Tag>>().take_error().is_none());
    // A row that starts anew has no frame in the tick in which its host resets it.
    assert_eq!(replay.write_count(), 12 + 11);
}

#[test]
fn an_edge_has_no_place_in_a_buffer() {
    let replay = Replay::<Tag>::new(10).unwrap();
    let config = HostConfig { set_truncated: true, ..HostConfig::default() };
    let builder = HostBuilder::<Tag>::new(Policy::random()).config(config).replay(&replay);
    let error = builder.install(&mut World::new()).map(drop).unwrap_err().to_string();
    assert!(error.starts_with("set_truncated and replay"), "{error}");
}

/// By episode, in the order of their ends: its frames, each with its step.
type Episodes = BTreeMap<u64, Vec<(u32, String)>>;

/// What a buffer holds, which must be episodes whose frames lie and follow one behind the other.
fn stored(replay: &Replay<Tag>) -> Episodes {
    let mut episodes = Episodes::new();
    for stored in replay.trajectories() {
        let numbers: Vec<u64> = (0..u64::from(stored.frames)).map(|i| stored.first + i).collect();
        let sample = replay.read(&numbers).unwrap();
        assert!(sample.trajectory_ids().iter().all(|id| *id == stored.id), "{stored:?} lies in one piece");
        let tell = |i: usize| {
            let (seen, next) = (&sample.observations()[i], sample.next_observation(i));
            (sample.steps()[i].0, told(seen, next, sample.actions()[i], sample.ends()[i]))
        };
        episodes.insert(stored.id.0, (0..sample.len()).map(tell).collect());
    }
    episodes
}

/// O-07 for a host's rows, also of those that leave within and between rollouts.
#[test]
fn o07_whole_episodes_go_to_the_buffer_when_they_end() {
    let mut plain = play(HostBuilder::new(Policy::random()));
    let batches = batches(&mut plain);
    let mut wanted = Episodes::new();
    for batch in &batches {
        for i in (0..batch.len()).filter(|i| batch.flags()[*i].valid()) {
            let (seen, next) = (&batch.observations()[i], batch.next_observation(i));
            let frame = (batch.steps()[i].0, told(seen, next, batch.actions()[i], batch.ends()[i]));
            wanted.entry(batch.trajectory_ids()[i].0).or_default().push(frame);
        }
    }
    let ended: Vec<_> = batches.iter().flat_map(|batch| batch.trajectories()).collect();
    wanted.retain(|id, _| ended.iter().any(|trajectory| trajectory.id.0 == *id));
    for trajectory in &ended {
        let frames = wanted.get_mut(&trajectory.id.0).expect("its frames");
        assert_eq!(frames.len(), trajectory.length as usize);
        // Of a row that left the end is known when its last frame was yielded already.
        let last = &mut frames.last_mut().expect("a frame").1;
        *last = last.replace(&format!("{:?}", End::RUNNING), &format!("{:?}", trajectory.end));
    }
    for per_write in [None, Some(2)] {
        let replay = Replay::<Tag>::new(1_000).unwrap();
        let mode = Some(ReplayWriteMode::Trajectory);
        let config = HostConfig { replay_write_mode: mode, trajs_per_write: per_write, ..HostConfig::default() };
        let world = play_with(HostBuilder::new(Policy::random()).replay(&replay), config);
        assert_eq!(stored(&replay), wanted);
        assert!(replay.trajectories().iter().all(|stored| stored.complete && !stored.beheaded));
        let stats = world.resource::<Batches<Tag>>().stats();
        assert_eq!((stats.written_frames, stats.frames), (Some(replay.write_count()), replay.write_count()));
        assert_eq!(stats.written_trajectories, Some(wanted.len() as u64));
        assert_eq!(
            (stats.frames + stats.in_flight_frames, stats.open_frames),
            (stats.stepped_frames, Some(stats.in_flight_frames))
        );
    }
}

/// Rows come, go, are disabled and come back: what is in the buffer is whole, with little room in order.
#[test]
fn any_coming_and_going_leaves_whole_episodes() {
    let mut early = 0;
    for (seed, most) in (0..40).zip([None, Some(0), Some(6), Some(15)].into_iter().cycle()) {
        let replay = Replay::<Tag>::new(1_000).unwrap();
        let config = HostConfig {
            ticks_per_batch: 5,
            replay_write_mode: Some(ReplayWriteMode::Trajectory),
            max_open_frames: most,
            ..HostConfig::default()
        };
        let mut world = World::new();
        HostBuilder::<Tag>::new(Policy::random()).config(config).replay(&replay).install(&mut world).unwrap();
        let mut random = Stream::new(gleaner::seed::Seed(seed), 0, gleaner::seed::Purpose::Env, 0);
        let (mut rows, mut tag) = (Vec::new(), 0);
        for tick in 0..91 {
            if rows.len() < 3 || random.below(6) == 0 {
                rows.push(spawn(&mut world, tag, random.below(12)));
                tag += 1;
            }
            let row = random.below(rows.len() as u32) as usize;
            match random.below(9) {
                0 => drop(world.despawn(rows.swap_remove(row))),
                1 => drop(world.entity_mut(rows[row]).insert(Disabled)),
                2..5 => enable(&mut world, rows[row]),
                _ => {}
            }
            step(&mut world);
            let stats = world.resource::<Batches<Tag>>().stats();
            assert_eq!(stats.stepped_frames, stats.frames + stats.in_flight_frames, "{stats:?}");
            assert!(stats.open_frames.unwrap() <= most.unwrap_or(1_000) as u64, "seed {seed}, tick {tick}: {stats:?}");
        }
        assert!(world.resource_mut::<Batches<Tag>>().take_error().is_none());
        let numbers: Vec<u64> = replay.frames().collect();
        let sample = replay.read(&numbers).unwrap();
        let mut steps = HashMap::<u64, Vec<u32>>::new();
        for i in 0..sample.len() {
            let [tag, episode, t] = sample.observations()[i];
            assert_eq!(sample.next_observation(i), &[tag, episode, t + 1.0], "seed {seed}, frame {i}");
            assert_eq!(sample.steps()[i].0, t as u32);
            steps.entry(sample.trajectory_ids()[i].0).or_default().push(t as u32);
        }
        for stored in replay.trajectories() {
            let steps = &steps[&stored.id.0];
            assert_eq!(steps[..], (0..stored.frames).collect::<Vec<_>>(), "seed {seed}: {stored:?}");
            assert!(stored.complete || most.is_some());
        }
        early += world.resource::<Batches<Tag>>().stats().early_pieces.unwrap();
    }
    assert!(early > 100, "{early} pieces were let go");
}

#[test]
fn a_failed_tick_drops_running_episodes() {
    let replay = Replay::<Tag>::new(1_000).unwrap();
    let limiter = Limiter { samples_per_insert: 1.0, min_size: 1, error_buffer: 1.0 };
    let deadline = std::time::Duration::from_millis(20);
    let config = ReplayConfig { deadline, limiter: Some(limiter), ..replay.config().clone() };
    let replay = Replay::<Tag>::with_config(config).unwrap();
    let mode = Some(ReplayWriteMode::Trajectory);
    let mut world = World::new();
    let config = HostConfig { ticks_per_batch: 6, replay_write_mode: mode, ..HostConfig::default() };
    HostBuilder::<Tag>::new(Policy::random()).config(config).replay(&replay).install(&mut world).unwrap();
    spawn(&mut world, 0, 4);
    spawn(&mut world, 1, 0);
    for _ in 0..1 + 12 {
        step(&mut world);
    }
    // Two episodes of four frames, of which the second has no room.
    assert!(world.resource_mut::<Batches<Tag>>().take_error().expect("nobody draws").to_string().contains("limiter"));
    let stats = world.resource::<Batches<Tag>>().stats();
    assert_eq!((stats.written_frames, stats.discarded.fault), (Some(4), 20));
    assert_eq!((stats.in_flight_frames, stats.open_frames), (0, Some(0)));
    replay.sampler().batch_size(100).build().unwrap().sample().unwrap();
    for _ in 0..1 + 8 {
        step(&mut world);
    }
    assert!(world.resource_mut::<Batches<Tag>>().take_error().is_none());
    let episodes = stored(&replay);
    assert!(episodes.len() > 1 && episodes.values().all(|frames| frames.len() == 4), "{episodes:?}");
}

#[test]
fn options_of_whole_episodes_need_them() {
    let replay = Replay::<Tag>::new(10).unwrap();
    let error = |config: HostConfig, replay: Option<&Replay<Tag>>| {
        let builder = HostBuilder::<Tag>::new(Policy::random()).config(config);
        let builder = replay.into_iter().fold(builder, |builder, replay| builder.replay(replay));
        builder.install(&mut World::new()).map(drop).unwrap_err().to_string()
    };
    let legal = HostConfig::default;
    let mode = Some(ReplayWriteMode::Trajectory);
    let alone = error(HostConfig { replay_write_mode: mode, ..legal() }, None);
    assert!(alone.starts_with("replay_write_mode and replay"), "{alone}");
    let rollouts = error(HostConfig { max_open_frames: Some(3), ..legal() }, Some(&replay));
    assert!(rollouts.starts_with("max_open_frames and replay_write_mode"), "{rollouts}");
    let none = error(HostConfig { replay_write_mode: mode, trajs_per_write: Some(0), ..legal() }, Some(&replay));
    assert!(none.starts_with("trajs_per_write is 0"), "{none}");
}
