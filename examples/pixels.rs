//! Learning from pixels: a ball is caught that is seen in two small pictures, by a convolutional policy.
//!
//! `cargo run --release --example pixels -- --help`; the loop itself is in `learner/train.rs`.

#[path = "learner/mod.rs"]
mod learner;

use std::{process::ExitCode, sync::atomic::AtomicBool};

use bevy_ecs::prelude::Component;
use gleaner::{policy::Layer, prelude::*};
use learner::{Experiment, Options, PpoConfig, Result};

fn main() -> ExitCode {
    learner::main("Trains a policy to catch a ball that it sees as pixels; a good one returns 0.9.", "out/pixels", run)
}

/// Trains and evaluates. Returns the mean return, none if training was stopped.
fn run(options: &Options, stop: &AtomicBool) -> Result<Option<f32>> {
    check_env::<Stacked<Catch, 2>>()?;
    let experiment = Experiment {
        title: "PPO on pixels",
        network: NetworkSpec {
            trunk: vec![
                Layer::Conv2d { filters: 16, kernel: 4, stride: 2, padding: 0 },
                Layer::Relu,
                Layer::Conv2d { filters: 32, kernel: 3, stride: 2, padding: 0 },
                Layer::Relu,
                Layer::Flatten,
                Layer::Linear(64),
                Layer::Relu,
            ],
            actor: vec![],
            critic: Some(vec![]),
            ..Default::default()
        },
        ppo: PpoConfig { epochs: 4, minibatch: 256, learning_rate: 2e-3, ..Default::default() },
        rows: 64,
        ticks: 30,
        reward: RewardTransform::default(),
        frames: 250_000,
        quick_frames: 8_192,
        trial_every: 15_000,
        good: 0.97,
        episodes: 100,
    };
    // A ball's direction shows in two pictures, not in one.
    let mean = experiment.run::<Stacked<Catch, 2>>(options, stop)?;
    mean.inspect(|mean| println!("evaluation mean return: {mean:.2}"));
    Ok(mean)
}

/// Height and width of a picture.
const SIZE: usize = 16;

/// A ball falls straight or aslant and bounces off the walls; a paddle of three pixels should be below it at the bottom.
#[derive(Component, Clone, Copy, Default)]
struct Catch {
    ball: [usize; 2],
    /// Columns that the ball moves in a frame.
    drift: isize,
    /// The middle of the paddle.
    paddle: usize,
}

impl Catch {
    fn draw(&self) -> [[u8; SIZE]; SIZE] {
        let mut picture = [[0; SIZE]; SIZE];
        picture[SIZE - 1][self.paddle - 1..=self.paddle + 1].fill(128);
        picture[self.ball[0]][self.ball[1]] = 255;
        picture
    }
}

impl Task for Catch {
    type Observation = [[u8; SIZE]; SIZE];
    type Action = i32; // left, stay, right
    type Mask = ();

    fn observation_space() -> Space {
        Space::uniform(0.0, 255.0, SIZE * SIZE)
    }

    fn action_space() -> Space {
        Space::discrete(3)
    }
}

impl Env for Catch {
    type Options = ();

    fn reset(&mut self, (): &(), stream: &mut Stream) -> Self::Observation {
        let [column, drift] = [SIZE, 3].map(|n| stream.below(n as u32) as usize);
        *self = Self { ball: [0, column], drift: drift as isize - 1, paddle: SIZE / 2 };
        self.draw()
    }

    fn step(&mut self, action: &i32, _: &mut Stream) -> Transition<Self::Observation> {
        self.paddle = self.paddle.saturating_add_signed(*action as isize - 1).clamp(1, SIZE - 2);
        let [row, column] = self.ball;
        if column.checked_add_signed(self.drift).is_none_or(|column| column >= SIZE) {
            self.drift = -self.drift;
        }
        self.ball = [row + 1, column.saturating_add_signed(self.drift)];
        let terminated = self.ball[0] == SIZE - 1;
        let caught = self.ball[1].abs_diff(self.paddle) <= 1;
        let reward = if !terminated {
            0.0
        } else if caught {
            1.0
        } else {
            -1.0
        };
        Transition { observation: self.draw(), reward, terminated, truncated: false }
    }
}
