//! MountainCar-v0.

use bevy_ecs::prelude::Component;
use bytemuck::{Pod, Zeroable};

use super::{Env, StateCodec, Transition, classic::uniform_pair};
use crate::{math::sin_cos, seed::Stream, space::Space, task::Task};

/// A car in a valley whose engine is too weak for the hill: Gymnasium's `MountainCar-v0`.
///
/// Source: Moore, "Efficient memory-based learning for robot control" (1990).
///
/// - **Observation** `[f32; 2]`: `position`, `velocity`.
/// - **Action** `i32`: 0 accelerates left, 1 not at all, 2 right.
/// - **Reward**: -1 a frame, the last included.
/// - **Terminated** when `position` ≥ 0.5 and `velocity` ≥ 0. Truncated after 200 frames.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct MountainCar {
    /// Position in -1.2 … 0.6; the valley's bottom is at -π/6. No unit.
    pub position: f32,
    /// Change of position a frame, in -0.07 … 0.07.
    pub velocity: f32,
}

/// Options of [`MountainCar`]'s reset: the position starts uniform in `[low, high)`, at rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MountainCarOptions {
    /// Lower bound; default -0.6.
    pub low: f32,
    /// Upper bound; default -0.4.
    pub high: f32,
}

impl Default for MountainCarOptions {
    fn default() -> Self {
        Self { low: -0.6, high: -0.4 }
    }
}

const FORCE: f32 = 0.001;
const GOAL: f32 = 0.5;

/// Bounds of position and velocity, which both mountain cars share.
pub(super) fn state_space() -> Space {
    Space::bounded([MIN_POSITION, -MAX_SPEED], [MAX_POSITION, MAX_SPEED])
}

const MIN_POSITION: f32 = -1.2;
const MAX_POSITION: f32 = 0.6;
const MAX_SPEED: f32 = 0.07;
const GRAVITY: f32 = 0.0025;

/// Moves a car on the hill `sin 3x` that both mountain cars share; the left wall stops it.
#[inline(always)]
pub(super) fn roll(position: f32, velocity: f32, acceleration: f32) -> [f32; 2] {
    let (_, slope) = sin_cos(3.0 * position);
    let velocity = (velocity + acceleration - GRAVITY * slope).clamp(-MAX_SPEED, MAX_SPEED);
    let position = (position + velocity).clamp(MIN_POSITION, MAX_POSITION);
    let stopped = (position == MIN_POSITION) & (velocity < 0.0);
    [position, if stopped { 0.0 } else { velocity }]
}

impl Task for MountainCar {
    type Observation = [f32; 2];
    type Action = i32;
    type Mask = ();

    fn observation_space() -> Space {
        state_space()
    }

    fn action_space() -> Space {
        Space::discrete(3)
    }
}

impl Env for MountainCar {
    type Options = MountainCarOptions;

    const TIME_LIMIT: Option<u32> = Some(200);
    const STATE: Option<StateCodec<Self>> = Some(StateCodec::pod());

    #[inline]
    fn reset(&mut self, options: &MountainCarOptions, stream: &mut Stream) -> [f32; 2] {
        let [position, _] = uniform_pair(stream, options.low, options.high);
        *self = Self { position, velocity: 0.0 };
        [position, 0.0]
    }

    #[inline(always)]
    fn step(&mut self, action: &i32, _: &mut Stream) -> Transition<[f32; 2]> {
        let [position, velocity] = roll(self.position, self.velocity, (*action - 1) as f32 * FORCE);
        *self = Self { position, velocity };
        Transition {
            observation: [position, velocity],
            reward: -1.0,
            terminated: (position >= GOAL) & (velocity >= 0.0),
            truncated: false,
        }
    }
}
