//! A host's rollouts in a replay buffer are those that its batches would be.

use super::*;
use gleaner::replay::Limiter;

/// What happened in 1 + 12 · 6 ticks in which rows end, are asked to reset, join and leave.
fn play(builder: HostBuilder<Tag>) -> World {
    let mut world = World::new();
    let config = HostConfig { ticks_per_batch: 6, max_frames_per_traj: Some(7), seed: 3, ..HostConfig::default() };
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
    assert_eq!((stats.written_frames, stats.frames), (replay.write_count(), replay.write_count()));
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
    assert_eq!((stats.written_frames, stats.discarded.fault, stats.in_flight_frames), (12, 12, 0));
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
