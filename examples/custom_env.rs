//! A simulation of one's own, from `impl Env` to batches: a room that is heated against the cold outside.
//!
//! `cargo run --release --example custom_env`

#[path = "learner/ctrl_c.rs"]
mod ctrl_c;

use bevy_ecs::prelude::Component;
use gleaner::prelude::*;
use std::sync::atomic::Ordering::Relaxed;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Tells what is wrong with an environment before anything is collected from it.
    check_env::<Room>()?;

    // A thermostat: observations of a run of rows in, an action a row out.
    let thermostat = Policy::function(|rooms: &[Climate], _, _, actions: &mut [i32]| {
        for (room, heat) in rooms.iter().zip(actions) {
            *heat = i32::from(room.inside < 20.0);
        }
    });
    let builder = Collector::<Room>::builder().policy(thermostat).rows(16).frames_per_batch(16 * 64);
    let mut collector = builder.total_frames(20_000).build()?;
    let stop = ctrl_c::flag()?;
    for batch in &mut collector {
        let batch = batch?;
        let coldest = batch.observations().iter().map(|room| room.inside).fold(f32::INFINITY, f32::min);
        let reward = batch.rewards().iter().sum::<f32>() / batch.frames() as f32;
        println!("batch {}: coldest room {coldest:.1} °C, mean reward {reward:.2}", batch.index());
        if stop.load(Relaxed) {
            break;
        }
    }
    println!("{:#?}", collector.stats());
    Ok(())
}

gleaner::data! {
    /// Temperatures in °C.
    struct Climate {
        inside: f32,
        outside: f32,
    }
}

/// The state of a row is the component itself.
#[derive(Component, Default)]
struct Room(Option<Climate>);

impl Task for Room {
    type Observation = Climate;
    type Action = i32; // 1 heats for a minute
    type Mask = ();

    fn observation_space() -> Space {
        Space::Fields(vec![("inside".into(), Space::unbounded(1)), ("outside".into(), Space::uniform(-20.0, 15.0, 1))])
    }

    fn action_space() -> Space {
        Space::discrete(2)
    }
}

impl Env for Room {
    type Options = ();
    const TIME_LIMIT: Option<u32> = Some(240); // minutes

    fn reset(&mut self, (): &(), stream: &mut Stream) -> Climate {
        let climate = Climate { inside: stream.uniform(10.0, 25.0), outside: stream.uniform(-20.0, 15.0) };
        *self.0.insert(climate)
    }

    fn step(&mut self, heat: &i32, stream: &mut Stream) -> Transition<Climate> {
        let mut room = self.0.unwrap_or(Climate { inside: 20.0, outside: 0.0 });
        room.inside += 0.02 * (room.outside - room.inside) + *heat as f32 + 0.1 * stream.normal();
        self.0 = Some(room);
        let comfort = -(room.inside - 20.0).abs() - 0.1 * *heat as f32;
        Transition { observation: room, reward: comfort, terminated: room.inside < 0.0, truncated: false }
    }
}
