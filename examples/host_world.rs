//! A host's own entities, moved by its own systems, collected from inside its own app: drones fly to a beacon, new ones
//! arrive and old ones leave while batches come out.
//!
//! `cargo run --release --example host_world`

#[path = "learner/ctrl_c.rs"]
mod ctrl_c;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bevy_app::{App, PostUpdate, Update};
use bevy_ecs::prelude::*;
use gleaner::{
    components::LastObservation,
    host::{Acting, Batches, CollectorPlugin, HostBuilder, HostConfig, ResetRequest},
    prelude::*,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let frames = run(400, &*ctrl_c::flag()?)?;
    println!("{frames} frames collected");
    Ok(())
}

/// Runs the app for `updates` updates, or until it is to stop, and returns the frames of all batches.
fn run(updates: usize, stop: &AtomicBool) -> Result<usize, Error> {
    let policy = Policy::network(NetworkSpec::default()).backend(Backend::Cpu);
    let config = HostConfig { ticks_per_batch: 50, max_frames_per_traj: Some(120), ..HostConfig::default() };
    let mut app = App::new();
    // Drones fly in `Update`; what came of it is collected, and new actions chosen, in `PostUpdate`.
    app.add_plugins(CollectorPlugin::<Fly>::new(PostUpdate, HostBuilder::new(policy).config(config)));
    app.add_systems(Update, (fly, reset_on_request).chain());
    for i in 0..16 {
        app.world_mut().spawn(Drone::at(i as f32 - 8.0, 4.0).bundle());
    }
    let mut frames = 0;
    for update in 0..updates {
        if update == updates / 2 {
            // A host despawns and spawns as it likes: rows leave at once and join with the next rollout.
            let first = app.world_mut().query_filtered::<Entity, With<Drone>>().iter(app.world()).next();
            first.map(|drone| app.world_mut().despawn(drone));
            app.world_mut().spawn(Drone::at(0.0, -6.0).bundle());
        }
        app.update();
        let mut batches = app.world_mut().resource_mut::<Batches<Fly>>();
        if let Some(error) = batches.take_error() {
            return Err(error);
        }
        while let Some(batch) = batches.pop() {
            frames += batch.frames();
            println!("batch {}: {} frames of {} rows", batch.index(), batch.frames(), batch.rows().len());
        }
        if stop.load(Relaxed) {
            println!("stopped by Ctrl-C");
            break;
        }
    }
    println!("{:?}", app.world().resource::<Batches<Fly>>().stats());
    Ok(frames)
}

/// The task: what a drone's policy sees and does.
struct Fly;

impl Task for Fly {
    type Observation = [f32; 4];
    type Action = [f32; 2];
    type Mask = ();

    fn observation_space() -> Space {
        Space::unbounded(4)
    }

    fn action_space() -> Space {
        Space::uniform(-1.0, 1.0, 2)
    }
}

/// The host's own component: metres and metres a second, the beacon at the origin.
#[derive(Component, Clone, Copy)]
struct Drone {
    position: [f32; 2],
    velocity: [f32; 2],
}

impl Drone {
    fn at(x: f32, y: f32) -> Self {
        Self { position: [x, y], velocity: [0.0; 2] }
    }

    fn seen(&self) -> [f32; 4] {
        [self.position[0], self.position[1], self.velocity[0], self.velocity[1]]
    }

    /// Carrying an observation is all it takes to be a row.
    fn bundle(self) -> impl Bundle {
        (self, Observation::<Fly>(self.seen()))
    }
}

/// Applies each drone's action and writes what came of it.
fn fly(
    mut drones: Query<(
        &mut Drone,
        &Acting,
        &Action<Fly>,
        &mut Observation<Fly>,
        &mut LastObservation<Fly>,
        &mut Reward,
        &mut End,
    )>,
) {
    for (mut drone, acting, action, mut seen, mut last, mut reward, mut end) in &mut drones {
        if !acting.0 {
            continue;
        }
        for axis in 0..2 {
            drone.velocity[axis] += 0.1 * action.0[axis].clamp(-1.0, 1.0);
            drone.position[axis] += 0.1 * drone.velocity[axis];
        }
        let distance = drone.position[0].hypot(drone.position[1]);
        reward.0 = -distance;
        if distance < 0.5 {
            // The task ended: the real last observation is kept, and the next episode starts in the same tick.
            *end = End::TERMINATED;
            last.0 = drone.seen();
            *drone = Drone::at(5.0, 5.0);
        }
        seen.0 = drone.seen();
    }
}

/// Answers the engine when it ended an episode at its frame limit.
fn reset_on_request(mut drones: Query<(&mut Drone, &mut Observation<Fly>, &mut ResetRequest)>) {
    for (mut drone, mut seen, mut request) in &mut drones {
        if std::mem::take(&mut request.0) {
            *drone = Drone::at(-5.0, 5.0);
            seen.0 = drone.seen();
        }
    }
}
