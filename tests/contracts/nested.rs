//! A collector may run inside a system of another schedule, on any executor.

use crate::support::{Ending, Script, tags};
use bevy_ecs::{prelude::*, schedule::LogLevel};
use gleaner::prelude::{Collect, Executor};

#[derive(Resource, Default)]
struct Frames(u64);

fn collect(mut frames: ResMut<Frames>) {
    for (threads, executor) in [(1, Executor::SingleThreaded), (2, Executor::MultiThreaded)] {
        let builder = tags(Script::all(4, Ending::Terminated)).rows(8).frames_per_batch(80).threads(threads);
        let mut collector = builder.executor(executor).total_frames(160).build().unwrap();
        frames.0 += collector.by_ref().map(|batch| batch.unwrap().frames() as u64).sum::<u64>();
    }
}

#[test]
fn h12_a_collector_runs_inside_a_system() {
    for executor in [Executor::SingleThreaded, Executor::MultiThreaded] {
        let mut world = World::new();
        world.init_resource::<Frames>();
        let mut schedule = Collect::base_schedule(executor, LogLevel::Error);
        schedule.add_systems(collect);
        schedule.run(&mut world);
        assert_eq!(world.resource::<Frames>().0, 320);
    }
}
