//! Rows on several threads: same data, same counters, and a life cycle that never hangs.

mod delivery;
mod faults;
mod options;
mod resume;
mod running;

use std::{thread, time::Duration};

use bevy_ecs::prelude::Component;
use gleaner::{
    config::CollectorBuilder,
    env::{Env, RowStepper, Transition},
    prelude::{Collector, Space, Stream, Task},
};

/// Steps in the time that its row takes; observes row and step.
#[derive(Component, Debug)]
pub struct Slow {
    row: u32,
    t: u32,
    delay: Duration,
}

impl Slow {
    /// Rows that take as long as `delay` says.
    pub fn builder(
        delay: impl Fn(u32) -> Duration + Send + Sync + 'static,
    ) -> CollectorBuilder<Self, RowStepper<Self>> {
        Collector::with_factory(move |context| Ok(Self { row: context.row, t: 0, delay: delay(context.row) }))
    }
}

impl Task for Slow {
    type Observation = [f32; 2];
    type Action = i32;
    type Mask = ();
    fn observation_space() -> Space {
        Space::unbounded(2)
    }
    fn action_space() -> Space {
        Space::discrete(2)
    }
}

impl Env for Slow {
    type Options = ();
    fn reset(&mut self, _: &(), _: &mut Stream) -> [f32; 2] {
        self.t = 0;
        [self.row as f32, 0.0]
    }
    fn step(&mut self, _: &i32, _: &mut Stream) -> Transition<[f32; 2]> {
        if !self.delay.is_zero() {
            thread::sleep(self.delay);
        }
        self.t += 1;
        Transition {
            observation: [self.row as f32, self.t as f32],
            reward: 1.0,
            terminated: self.t == 5,
            truncated: false,
        }
    }
}
