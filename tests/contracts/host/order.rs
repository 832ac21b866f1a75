//! A tick inside a host's schedules, on any executor and with several tasks: no order is left to chance.

use gleaner::policy::Normalize;

use super::*;

#[test]
fn f9_no_order_of_a_hosts_tick_is_left_to_chance() {
    let policies: [fn() -> Policy<Choice>; 3] = [Policy::random, Policy::system, || {
        let spec = NetworkSpec { normalize: Some(Normalize::default()), ..NetworkSpec::default() };
        Policy::network(spec).backend(Backend::Cpu)
    }];
    for (executor, policy) in [Executor::SingleThreaded, Executor::MultiThreaded]
        .into_iter()
        .flat_map(|executor| policies.map(|policy| (executor, policy)))
    {
        for mode in [None, Some(ReplayWriteMode::Rollout), Some(ReplayWriteMode::Trajectory)] {
            let mut world = strict(executor);
            let config = HostConfig { ticks_per_batch: 2, replay_write_mode: mode, ..HostConfig::default() };
            let builder = HostBuilder::new(policy()).config(config);
            let replay = Replay::<Choice>::new(100).unwrap();
            let builder = if mode.is_some() { builder.replay(&replay) } else { builder };
            builder.install(&mut world).expect("legal options");
            world.spawn((Observation::<Choice>(0.0), ActionMask::<Choice>([1; 3])));
            (0..5).for_each(|_| world.run_schedule(Collect));
            let mut batches = world.resource_mut::<Batches<Choice>>();
            assert!(batches.take_error().is_none());
            assert_eq!(batches.stats().stepped_frames, 4);
        }
    }
}

/// H12: a tick within a host's own schedule, single- and multi-threaded, and two tasks in one world.
#[test]
fn h12_a_tick_inside_a_hosts_schedule_finishes() {
    #[derive(bevy_ecs::schedule::ScheduleLabel, Clone, Debug, PartialEq, Eq, Hash)]
    struct Outer;
    struct Other;
    impl Task for Other {
        type Observation = f32;
        type Action = [f32; 1];
        type Mask = ();
        fn observation_space() -> Space {
            Space::unbounded(1)
        }
        fn action_space() -> Space {
            Space::uniform(-1.0, 1.0, 1)
        }
    }
    for threads in [1, 2] {
        let mut world = world(HostConfig { ticks_per_batch: 5, ..HostConfig::default() });
        HostBuilder::<Other>::new(Policy::network(NetworkSpec::default()).backend(Backend::Cpu))
            .config(HostConfig { ticks_per_batch: 5, ..HostConfig::default() })
            .install(&mut world)
            .expect("a second task");
        let mut outer = Schedule::new(Outer);
        if threads > 1 {
            outer.set_executor(bevy_ecs::schedule::MultiThreadedExecutor::new());
        } else {
            outer.set_executor(bevy_ecs::schedule::SingleThreadedExecutor::new());
        }
        outer.add_systems(step);
        world.add_schedule(outer);
        spawn(&mut world, 0, 3);
        world.spawn(Observation::<Other>(0.5));
        for _ in 0..11 {
            world.run_schedule(Outer);
        }
        check(&batches(&mut world));
        let mut others = world.resource_mut::<Batches<Other>>();
        let batch = others.pop().expect("a batch");
        assert_eq!(batch.frames(), 5);
        assert!(batch.log_probs().is_some_and(|log_probs| log_probs.iter().all(|x| *x < 0.0)));
    }
}

#[test]
fn several_tasks_of_gleaners_own_share_a_world() {
    let mut world = strict(Executor::SingleThreaded);
    let config = || HostConfig { ticks_per_batch: 16, seed: 4, ..HostConfig::default() };
    HostBuilder::<CartPole>::environments(9, Policy::random()).config(config()).install(&mut world).expect("legal");
    HostBuilder::<Pendulum>::environments(5, Policy::random()).config(config()).install(&mut world).expect("legal");
    for _ in 0..48 {
        world.run_schedule(Collect);
    }
    // The same data as a collector of its own.
    let mut alone = Collector::<CartPole>::builder().rows(9).frames_per_batch(9 * 16).seed(4).build().expect("builds");
    for _ in 0..3 {
        let batch = world.resource_mut::<Batches<CartPole>>().pop().expect("three batches");
        let twin = alone.next().expect("endless").expect("collects");
        assert_eq!(batch.observations(), twin.observations());
        assert_eq!(batch.actions(), twin.actions());
        assert_eq!((batch.ends(), batch.trajectory_ids()), (twin.ends(), twin.trajectory_ids()));
        let other = world.resource_mut::<Batches<Pendulum>>().pop().expect("three batches");
        assert_eq!(other.frames(), 5 * 16);
    }
    let stats = world.resource::<Batches<Pendulum>>().stats();
    assert_eq!((stats.stepped_frames, stats.frames), (5 * 48, 5 * 48));
}
