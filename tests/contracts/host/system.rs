//! Systems of the host's own as the policy of its rows.

use gleaner::Error;

use super::*;

/// A task whose legal actions are 1 and 2: the zero that a row begins with is none.
struct Throttle;

impl Task for Throttle {
    type Observation = f32;
    type Action = i32;
    type Mask = ();
    fn observation_space() -> Space {
        Space::unbounded(1)
    }
    fn action_space() -> Space {
        Space::uniform(1.0, 2.0, 1)
    }
}

/// A world in which `answer` chooses actions, with two rows; a third joins later.
fn world_of<M>(answer: impl IntoSystem<(), (), M> + 'static) -> World {
    let mut world = strict(Executor::SingleThreaded);
    let config = HostConfig { ticks_per_batch: 4, ..HostConfig::default() };
    HostBuilder::<Throttle>::new(Policy::system()).config(config).install(&mut world).expect("legal options");
    let mut schedules = world.resource_mut::<Schedules>();
    schedules
        .get_mut(Collect)
        .expect("installed")
        .add_systems(IntoSystem::into_system(answer).in_set(CollectSystems::Respond));
    for row in 0..2 {
        world.spawn(Observation::<Throttle>(100.0 * row as f32));
    }
    world
}

/// A row counts up by its action.
fn play(world: &mut World) {
    let mut rows = world.query::<(&mut Observation<Throttle>, &Action<Throttle>, &Acting)>();
    for (mut seen, action, acting) in rows.iter_mut(world) {
        seen.0 += if acting.0 { action.0 as f32 } else { 0.0 };
    }
    world.run_schedule(Collect);
}

/// What is done where `seen` is seen.
fn act(seen: f32) -> i32 {
    1 + (seen as i32 / 3) % 2
}

#[test]
fn a_hosts_system_acts_for_its_rows() {
    let mut world = world_of(|mut rows: Query<(&Observation<Throttle>, &mut Action<Throttle>)>| {
        rows.iter_mut().for_each(|(seen, mut action)| action.0 = act(seen.0));
    });
    for tick in 0..13 {
        if tick == 3 {
            world.spawn(Observation::<Throttle>(200.0));
        }
        play(&mut world);
    }
    let mut batches = world.resource_mut::<Batches<Throttle>>();
    assert!(batches.take_error().is_none());
    let frames: Vec<_> = std::iter::from_fn(|| batches.pop()).collect();
    assert_eq!(frames.iter().map(Batch::frames).collect::<Vec<_>>(), [8, 12, 12]);
    for batch in &frames {
        for i in 0..batch.len() {
            let (seen, action) = (batch.observations()[i], batch.actions()[i]);
            assert_eq!(action, act(seen));
            assert_eq!(*batch.next_observation(i), seen + action as f32);
        }
        assert!(batch.versions().iter().all(|version| *version == 0));
    }
}

#[test]
fn an_illegal_action_of_a_hosts_system_is_an_error() {
    let mut world = world_of(|mut rows: Query<(&RowIndex, &mut Action<Throttle>)>| {
        rows.iter_mut().for_each(|(row, mut action)| action.0 = 2 + row.0 as i32);
    });
    let error = (0..3).find_map(|_| {
        play(&mut world);
        world.resource_mut::<Batches<Throttle>>().take_error()
    });
    assert!(matches!(error, Some(Error::IllegalAction { row: 1, .. })), "{error:?}");
}
