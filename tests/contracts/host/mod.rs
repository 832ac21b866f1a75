//! A host's own entities as rows: every frame is the one that the host completed, whoever joins, leaves or resets.

mod churn;
mod order;
mod remember;
mod replay;
mod system;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bevy_ecs::{
    entity_disabling::Disabled,
    prelude::*,
    schedule::{LogLevel, Schedules},
};
use gleaner::{
    components::{ActionMask, LastObservation, Masks, RowIndex, Truncation},
    host::{Acting, Batches, HostBuilder, HostConfig, ResetRequest},
    prelude::*,
    seed::Streams,
};

/// The tag task: a row's observation is its tag, its episode and its step.
struct Tag;

impl Task for Tag {
    type Observation = [f32; 3];
    type Action = i32;
    type Mask = ();
    fn observation_space() -> Space {
        Space::unbounded(3)
    }
    fn action_space() -> Space {
        Space::discrete(4)
    }
}

/// A task whose legal actions the host says.
struct Choice;

impl Task for Choice {
    type Observation = f32;
    type Action = i32;
    type Mask = [u8; 3];
    fn observation_space() -> Space {
        Space::unbounded(1)
    }
    fn action_space() -> Space {
        Space::discrete(3)
    }
}

#[derive(Component)]
struct Body {
    seen: [f32; 3],
    /// Frames after which the task ends; 0 for never.
    length: u32,
}

fn spawn(world: &mut World, tag: u32, length: u32) -> Entity {
    let seen = [tag as f32, 0.0, 0.0];
    world.spawn((Body { seen, length }, Observation::<Tag>(seen))).id()
}

/// A body that was disabled comes back where its next episode starts.
fn enable(world: &mut World, row: Entity) {
    let mut entity = world.entity_mut(row);
    if !entity.contains::<Disabled>() {
        return;
    }
    if let Some(mut body) = entity.get_mut::<Body>() {
        body.seen = [body.seen[0], body.seen[1] + 1.0, 0.0];
        let seen = body.seen;
        entity.insert(Observation::<Tag>(seen)).remove::<Disabled>();
    }
}

/// A world in whose ticks no order is left to chance: running a tick that has such a place panics.
fn strict(executor: Executor) -> World {
    let mut world = World::new();
    world.add_schedule(Collect::base_schedule(executor, LogLevel::Error));
    world
}

fn world(config: HostConfig) -> World {
    let mut world = World::new();
    HostBuilder::<Tag>::new(Policy::random()).config(config).install(&mut world).expect("legal options");
    world
}

/// The host's part of a tick: steps every body and writes the outcome.
fn step(world: &mut World) {
    let mut bodies = world.query::<(
        (&mut Body, &Acting, &mut ResetRequest),
        (&mut Observation<Tag>, &mut LastObservation<Tag>, &mut Reward, &mut End),
    )>();
    for ((mut body, acting, mut request), (mut seen, mut last, mut reward, mut end)) in bodies.iter_mut(world) {
        if std::mem::take(&mut request.0) {
            body.seen = [body.seen[0], body.seen[1] + 1.0, 0.0];
            seen.0 = body.seen;
        }
        if !acting.0 {
            continue;
        }
        body.seen[2] += 1.0;
        reward.0 = body.seen[2];
        if body.length > 0 && body.seen[2] as u32 >= body.length {
            *end = End::TERMINATED;
            last.0 = body.seen;
            body.seen = [body.seen[0], body.seen[1] + 1.0, 0.0];
        }
        seen.0 = body.seen;
    }
    world.run_schedule(Collect);
}

fn batches(world: &mut World) -> Vec<Batch<Tag>> {
    let mut batches = world.resource_mut::<Batches<Tag>>();
    assert!(batches.take_error().is_none());
    std::iter::from_fn(|| batches.pop()).collect()
}

/// Checks every frame against the tag, and returns the frames of each row.
fn check(batches: &[Batch<Tag>]) -> HashMap<u32, usize> {
    let mut frames = HashMap::new();
    let mut owners: HashMap<TrajectoryId, (u32, u32)> = HashMap::new();
    for batch in batches {
        let rows = batch.rows().len();
        for i in (0..batch.len()).filter(|i| batch.flags()[*i].valid()) {
            let RowIndex(row) = batch.rows()[i % rows];
            let [tag, episode, t] = batch.observations()[i];
            assert_eq!(batch.next_observation(i), &[tag, episode, t + 1.0], "frame {i}");
            assert_eq!(batch.rewards()[i], t + 1.0, "the reward is this frame's");
            assert_eq!(batch.steps()[i].0, t as u32, "steps count from the reset");
            let owner = (tag as u32, episode as u32);
            assert_eq!(*owners.entry(batch.trajectory_ids()[i]).or_insert(owner), owner, "an id is one episode's");
            *frames.entry(row).or_default() += 1;
        }
    }
    frames
}

#[test]
fn frames_are_what_the_host_completed() {
    let mut world = world(HostConfig { ticks_per_batch: 7, ..HostConfig::default() });
    for tag in 0..5 {
        spawn(&mut world, tag, 3 + tag);
    }
    for _ in 0..1 + 7 * 6 {
        step(&mut world);
    }
    let batches = batches(&mut world);
    assert_eq!(batches.len(), 6);
    let frames = check(&batches);
    // The first tick only chose actions.
    assert!(frames.values().all(|frames| *frames == 42), "{frames:?}");
    let ended: usize = batches.iter().map(|batch| batch.trajectories().len()).sum();
    assert_eq!(ended, (0..5).map(|tag| 42 / (3 + tag)).sum::<usize>());
    let stats = world.resource::<Batches<Tag>>().stats();
    assert_eq!(stats.frames + stats.in_flight_frames, stats.stepped_frames);
}

#[test]
fn an_engine_made_end_asks_for_a_reset() {
    let config = HostConfig { ticks_per_batch: 12, max_frames_per_traj: Some(5), ..HostConfig::default() };
    let mut world = world(config);
    spawn(&mut world, 0, 0);
    for _ in 0..1 + 24 {
        step(&mut world);
    }
    let batches = batches(&mut world);
    check(&batches);
    let ends: Vec<_> = batches.iter().flat_map(|batch| batch.ends().iter().copied()).collect();
    // Five frames, then a tick in which the host resets.
    for (tick, end) in ends.iter().enumerate() {
        let limit = Some(Truncation::StepLimit);
        assert_eq!(end.truncation(), if tick % 6 == 4 { limit } else { None }, "tick {tick}");
    }
    let valid = batches.iter().flat_map(|batch| batch.flags().iter().map(|flags| flags.valid()));
    assert!(valid.enumerate().all(|(tick, valid)| valid == (tick % 6 != 5)));
    let lengths = batches.iter().flat_map(|batch| batch.trajectories().iter().map(|trajectory| trajectory.length));
    assert!(lengths.clone().all(|length| length == 5) && lengths.count() == 4);
}

#[test]
fn rows_join_at_the_next_rollout_and_leave_at_once() {
    let mut world = world(HostConfig { ticks_per_batch: 8, ..HostConfig::default() });
    let first = spawn(&mut world, 0, 0);
    spawn(&mut world, 1, 4);
    for tick in 0..1 + 24 {
        if tick == 4 {
            world.despawn(first);
            spawn(&mut world, 2, 5);
        }
        step(&mut world);
    }
    let batches = batches(&mut world);
    let frames = check(&batches);
    assert_eq!((frames[&0], frames[&1], frames[&2]), (3, 24, 16));
    assert_eq!(batches[0].rows(), [RowIndex(0), RowIndex(1)]);
    assert_eq!(batches[1].rows(), [RowIndex(1), RowIndex(2)]);
    let gone = batches[0].trajectories().iter().find(|trajectory| trajectory.row == RowIndex(0)).expect("its episode");
    assert_eq!((gone.length, gone.end.truncation()), (3, Some(Truncation::RowRemoved)));
    let last = batches[0].final_observation(2 * 2).expect("kept");
    assert_eq!(last, &[0.0, 0.0, 3.0]);
    assert!((3..8).all(|tick| !batches[0].flags()[tick * 2].valid()), "no frame after the row left");
}

#[test]
fn a_number_that_is_not_finite_is_quarantined() {
    let mut world = world(HostConfig { ticks_per_batch: 10, ..HostConfig::default() });
    let sick = spawn(&mut world, 0, 0);
    spawn(&mut world, 1, 0);
    for tick in 0..1 + 10 {
        if tick == 5 {
            // Steps to NaN in this tick, and is reset by the host in the next.
            world.get_mut::<Body>(sick).expect("alive").seen[2] = f32::NAN;
        }
        step(&mut world);
    }
    let batches = batches(&mut world);
    let batch = &batches[0];
    let valid: Vec<bool> = (0..10).map(|tick| batch.flags()[tick * 2].valid()).collect();
    assert_eq!(valid, [true, true, true, true, false, false, true, true, true, true]);
    assert_eq!(batch.ends()[3 * 2].truncation(), Some(Truncation::Fault));
    assert!(batch.observations().iter().flatten().all(|x| x.is_finite()));
    assert!((0..10).all(|tick| batch.flags()[tick * 2 + 1].valid()), "the other row is untouched");
    assert_eq!(world.resource::<Batches<Tag>>().stats().discarded.fault, 1);
}

#[test]
fn held_batches_make_rows_stand_still_and_lose_nothing() {
    let mut world = world(HostConfig { ticks_per_batch: 4, max_arenas: 2, ..HostConfig::default() });
    spawn(&mut world, 0, 0);
    for _ in 0..40 {
        step(&mut world);
    }
    assert_eq!(world.resource::<Batches<Tag>>().len(), 2);
    let stats = world.resource::<Batches<Tag>>().stats();
    assert_eq!((stats.frames, stats.in_flight_frames), (8, 0));
    drop(batches(&mut world));
    for _ in 0..6 {
        step(&mut world);
    }
    assert_eq!(batches(&mut world).len(), 1);
}

#[test]
fn wrong_options_are_all_named() {
    let config = HostConfig { ticks_per_batch: 0, max_arenas: 0, ..HostConfig::default() };
    let error = HostBuilder::<Tag>::new(Policy::random()).config(config).install(&mut World::new()).err();
    let message = error.expect("wrong").to_string();
    assert!(message.contains("ticks_per_batch") && message.contains("max_arenas"), "{message}");
    let mut world = world(HostConfig::default());
    assert!(HostBuilder::<Tag>::new(Policy::random()).install(&mut world).is_err(), "a task is installed once");
}

/// A row that leaves while nothing is recorded takes nothing of another row with it.
#[test]
fn a_row_may_leave_while_batches_are_held() {
    let mut world = world(HostConfig { ticks_per_batch: 4, max_arenas: 1, ..HostConfig::default() });
    let first = spawn(&mut world, 0, 0);
    spawn(&mut world, 1, 0);
    for _ in 0..10 {
        step(&mut world);
    }
    world.despawn(first);
    step(&mut world);
    let held = batches(&mut world);
    assert_eq!((held.len(), held[0].frames()), (1, 8));
    drop(held);
    for _ in 0..6 {
        step(&mut world);
    }
    let later = batches(&mut world);
    assert_eq!(check(&later), HashMap::from([(1, 4)]));
    let left = later[0].trajectories().iter().find(|trajectory| trajectory.row == RowIndex(0)).expect("it is listed");
    assert_eq!((left.length, left.end.truncation()), (4, Some(Truncation::RowRemoved)));
    let stats = world.resource::<Batches<Tag>>().stats();
    assert_eq!(stats.stepped_frames, stats.frames + stats.in_flight_frames);
}

/// After an error every row starts a new episode, whoever steps it.
#[test]
fn after_an_error_all_rows_start_anew() {
    let fail = Arc::new(AtomicBool::new(false));
    let shared = fail.clone();
    let act = move |_: &[[f32; 3]], _: &Masks<'_>, _: &mut Streams<'_>, actions: &mut [i32]| {
        actions.fill(if shared.swap(false, Relaxed) { 9 } else { 1 });
    };
    let mut world = World::new();
    let config = HostConfig { ticks_per_batch: 4, max_arenas: 64, ..HostConfig::default() };
    HostBuilder::<Tag>::new(Policy::function(act)).config(config).install(&mut world).expect("legal options");
    for tag in 0..3 {
        spawn(&mut world, tag, 7);
    }
    let mut all = Vec::new();
    for tick in 0..60 {
        fail.store(tick == 17, Relaxed);
        step(&mut world);
        if tick == 20 {
            let error = world.resource_mut::<Batches<Tag>>().take_error().expect("an illegal action");
            assert!(matches!(error, gleaner::Error::IllegalAction { .. }), "{error}");
        } else if !(17..20).contains(&tick) {
            all.extend(batches(&mut world));
        }
    }
    let frames = check(&all);
    assert!(frames.len() == 3 && frames.values().all(|frames| *frames >= 40), "{frames:?}");
    let stats = world.resource::<Batches<Tag>>().stats();
    assert_eq!(stats.stepped_frames, stats.frames + stats.in_flight_frames + stats.discarded.fault);
    assert!(stats.trajectory_pending_frames < 3 * 7, "frames of lost episodes are pending: {stats:?}");
}
