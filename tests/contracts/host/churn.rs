//! Rows that come, go and fail in any way: no other row notices, and the ledger closes.

use gleaner::rollout::EpisodeEnded;

use super::*;

#[derive(Component)]
struct Marker;

fn run(world: &mut World, ticks: usize) {
    (0..ticks).for_each(|_| step(world));
}

fn closes(stats: &Stats) {
    let known = stats.frames + stats.in_flight_frames + stats.discarded.total();
    assert_eq!(stats.stepped_frames, known, "{stats:?}");
}

#[test]
fn a_newcomer_in_another_table_touches_nobody() {
    let mut world = world(HostConfig { ticks_per_batch: 6, ..HostConfig::default() });
    (0..4).for_each(|tag| {
        spawn(&mut world, tag, 5);
    });
    run(&mut world, 3);
    let newcomer = spawn(&mut world, 9, 5);
    world.entity_mut(newcomer).insert(Marker);
    run(&mut world, 22);
    let frames = check(&batches(&mut world));
    assert_eq!((frames[&0], frames[&4]), (24, 18), "{frames:?}");
    closes(&world.resource::<Batches<Tag>>().stats());
}

#[test]
fn a_row_may_leave_by_the_event_of_its_last_episode() {
    let config = HostConfig { ticks_per_batch: 6, episode_events: true, ..HostConfig::default() };
    let mut world = world(config);
    let rows: Vec<Entity> = (0..4).map(|tag| spawn(&mut world, tag, 3 + tag)).collect();
    // Row 0's second episode ends on the rollout's last tick.
    let first = rows[0];
    world.add_observer(move |event: On<EpisodeEnded<Tag>>, mut commands: Commands| {
        if event.trajectory.row == RowIndex(0) && event.trajectory.tick == 5 {
            commands.entity(first).try_despawn();
        }
    });
    run(&mut world, 13);
    let frames = check(&batches(&mut world));
    assert_eq!((frames[&0], frames[&1], frames[&3]), (6, 12, 12), "{frames:?}");
    closes(&world.resource::<Batches<Tag>>().stats());
}

#[test]
fn a_disabled_row_has_no_frames() {
    let mut world = world(HostConfig { ticks_per_batch: 6, ..HostConfig::default() });
    let rows: Vec<Entity> = (0..4).map(|tag| spawn(&mut world, tag, 0)).collect();
    run(&mut world, 9);
    world.entity_mut(rows[2]).insert(Disabled);
    run(&mut world, 10);
    let frames = check(&batches(&mut world));
    assert_eq!((frames[&2], frames[&3]), (8, 18), "{frames:?}");
    closes(&world.resource::<Batches<Tag>>().stats());
}

#[test]
fn any_coming_and_going_is_survived() {
    for seed in 0..256 {
        let mut world = strict([Executor::SingleThreaded, Executor::MultiThreaded][seed as usize % 2]);
        let config = HostConfig { ticks_per_batch: 1 + seed as usize % 33, max_arenas: 64, ..HostConfig::default() };
        let config = HostConfig { max_frames_per_traj: Some(4), set_truncated: seed % 3 == 0, ..config };
        HostBuilder::<Tag>::new(Policy::random()).config(config).install(&mut world).expect("legal options");
        let mut random = Stream::new(gleaner::seed::Seed(seed), 0, gleaner::seed::Purpose::Env, 0);
        let mut rows = Vec::new();
        let mut tag = 0;
        for _ in 0..60 {
            if rows.len() < 3 || random.below(6) == 0 {
                rows.push(spawn(&mut world, tag, random.below(5)));
                tag += 1;
                if random.below(3) == 0 {
                    world.entity_mut(rows[rows.len() - 1]).insert(Marker);
                }
            }
            let row = random.below(rows.len() as u32) as usize;
            match random.below(9) {
                0 => drop(world.despawn(rows.swap_remove(row))),
                1 => drop(world.entity_mut(rows[row]).insert(Disabled)),
                2..5 => enable(&mut world, rows[row]),
                _ => {}
            }
            step(&mut world);
        }
        check(&batches(&mut world));
        closes(&world.resource::<Batches<Tag>>().stats());
    }
}

/// Counts its steps; panics once in row 290, as if by a fault of its own.
#[derive(Component)]
struct Count {
    row: u32,
    episode: u32,
    t: u32,
    fault: bool,
}

impl Task for Count {
    type Observation = [f32; 3];
    type Action = i32;
    type Mask = ();
    fn observation_space() -> Space {
        Space::unbounded(3)
    }
    fn action_space() -> Space {
        Space::discrete(2)
    }
}

impl Env for Count {
    type Options = ();

    fn reset(&mut self, _: &(), _: &mut Stream) -> [f32; 3] {
        (self.episode, self.t) = (self.episode + 1, 0);
        [self.row as f32, self.episode as f32, 0.0]
    }

    fn step(&mut self, _: &i32, _: &mut Stream) -> Transition<[f32; 3]> {
        assert!(self.t != 3 || !std::mem::take(&mut self.fault), "a fault");
        self.t += 1;
        let observation = [self.row as f32, self.episode as f32, self.t as f32];
        Transition { observation, reward: self.t as f32, terminated: self.t == 4, truncated: false }
    }
}

fn counting(rows: u32) -> World {
    let mut world = World::new();
    let build = |context: &mut gleaner::env::RowContext| {
        Ok(Count { row: context.row, episode: 0, t: 0, fault: context.row == 290 })
    };
    let builder = HostBuilder::environments_from(rows, build, Policy::random());
    let config = HostConfig { ticks_per_batch: 6, max_arenas: 64, ..HostConfig::default() };
    builder.config(config).install(&mut world).expect("legal options");
    world
}

/// Checks steps, links and ids of all batches; gives their frames and the error that was met.
fn counted(world: &mut World) -> (usize, Option<gleaner::Error>) {
    let mut batches = world.resource_mut::<Batches<Count>>();
    let error = batches.take_error();
    let taken: Vec<Batch<Count>> = std::iter::from_fn(|| batches.pop()).collect();
    let mut owners = HashMap::new();
    let mut frames = 0;
    for batch in &taken {
        for i in (0..batch.len()).filter(|i| batch.flags()[*i].valid()) {
            let [row, episode, t] = batch.observations()[i];
            assert_eq!(batch.next_observation(i), &[row, episode, t + 1.0], "slot {i}");
            assert_eq!(batch.steps()[i].0, t as u32, "slot {i}");
            let owner = *owners.entry(batch.trajectory_ids()[i]).or_insert([row, episode]);
            assert_eq!(owner, [row, episode], "an id is one episode's");
            frames += 1;
        }
    }
    (frames, error)
}

#[test]
fn after_a_panic_gleaners_own_rows_start_anew() {
    let mut world = counting(300);
    (0..4).for_each(|_| world.run_schedule(Collect));
    let (frames, error) = counted(&mut world);
    assert!(matches!(error, Some(gleaner::Error::EnvPanic { row: 290, step: 3, .. })), "{error:?}");
    assert_eq!(frames, 0);
    (0..14).for_each(|_| world.run_schedule(Collect));
    let (frames, error) = counted(&mut world);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(frames, 3_600, "two rollouts");
    closes(&world.resource::<Batches<Count>>().stats());
}

#[test]
fn a_despawned_environment_has_no_frames() {
    let mut world = counting(4);
    (0..8).for_each(|_| world.run_schedule(Collect));
    let mut rows = world.query::<(Entity, &Count)>();
    let gone = rows.iter(&world).find(|(_, count)| count.row == 1).expect("a row").0;
    world.despawn(gone);
    (0..10).for_each(|_| world.run_schedule(Collect));
    let (frames, error) = counted(&mut world);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(frames, 3 * 18 + 8);
    closes(&world.resource::<Batches<Count>>().stats());
}

#[test]
fn a_mask_that_the_host_forgot_is_an_error() {
    let mut world = World::new();
    HostBuilder::<Choice>::new(Policy::random()).install(&mut world).expect("legal options");
    world.spawn(Observation::<Choice>(0.0));
    (0..3).for_each(|_| world.run_schedule(Collect));
    let error = world.resource_mut::<Batches<Choice>>().take_error().expect("no action is legal");
    assert!(matches!(error, gleaner::Error::NoLegalAction { row: 0, .. }), "{error}");
}

#[test]
fn a_rollout_beyond_all_memory_is_refused() {
    let config = HostConfig { ticks_per_batch: (1 << 31) - 1, ..HostConfig::default() };
    let mut world = World::new();
    let error = HostBuilder::<Tag>::new(Policy::random()).config(config).install(&mut world).err().expect("too long");
    assert!(error.to_string().contains("ticks_per_batch is 2147483647"), "{error}");
}

/// An environment that cannot begin.
#[derive(Component, Default)]
struct Broken;

impl Task for Broken {
    type Observation = f32;
    type Action = i32;
    type Mask = ();
    fn observation_space() -> Space {
        Space::unbounded(1)
    }
    fn action_space() -> Space {
        Space::discrete(2)
    }
}

impl Env for Broken {
    type Options = ();

    fn reset(&mut self, _: &(), _: &mut Stream) -> f32 {
        panic!("nothing to begin with")
    }

    fn step(&mut self, _: &i32, _: &mut Stream) -> Transition<f32> {
        unreachable!("it never begins")
    }
}

#[test]
fn a_task_that_cannot_begin_leaves_the_others_alone() {
    let mut world = strict(Executor::SingleThreaded);
    let config = || HostConfig { ticks_per_batch: 4, ..HostConfig::default() };
    HostBuilder::<CartPole>::environments(3, Policy::random()).config(config()).install(&mut world).expect("legal");
    let error = HostBuilder::<Broken>::environments(2, Policy::random()).config(config()).install(&mut world).err();
    let error = error.expect("a reset panics").to_string();
    assert!(error.contains("nothing to begin with"), "{error}");
    (0..8).for_each(|_| world.run_schedule(Collect));
    assert_eq!(world.resource::<Batches<CartPole>>().stats().frames, 24);
    assert_eq!(world.resource::<Batches<Broken>>().stats().stepped_frames, 0);
    let again = HostBuilder::<Broken>::environments(2, Policy::random()).install(&mut world).err();
    assert!(again.is_some_and(|error| error.to_string().contains("is in this world already")));
}
