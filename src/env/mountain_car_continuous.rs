//! MountainCarContinuous-v0.

use bevy_ecs::prelude::Component;
use bytemuck::{Pod, Zeroable};

use super::{
    Env, MountainCarOptions, StateCodec, Transition,
    classic::uniform_pair,
    mountain_car::{roll, state_space},
};
use crate::{seed::Stream, space::Space, task::Task};

/// The mountain car with a throttle: Gymnasium's `MountainCarContinuous-v0`.
///
/// - **Observation** `[f32; 2]`: `position`, `velocity`.
/// - **Action** `[f32; 1]`: throttle, clipped to -1 … 1.
/// - **Reward**: -0.1 times the square of the action as given, and 100 at the goal.
/// - **Terminated** when `position` ≥ 0.45 and `velocity` ≥ 0. Truncated after 999 frames.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct MountainCarContinuous {
    /// Position in -1.2 … 0.6; the valley's bottom is at -π/6. No unit.
    pub position: f32,
    /// Change of position a frame, in -0.07 … 0.07.
    pub velocity: f32,
}

const POWER: f32 = 0.0015;
const GOAL: f32 = 0.45;

impl Task for MountainCarContinuous {
    type Observation = [f32; 2];
    type Action = [f32; 1];
    type Mask = ();

    fn observation_space() -> Space {
        state_space()
    }

    fn action_space() -> Space {
        Space::uniform(-1.0, 1.0, 1)
    }
}

impl Env for MountainCarContinuous {
    type Options = MountainCarOptions;

    const TIME_LIMIT: Option<u32> = Some(999);
    const STATE: Option<StateCodec<Self>> = Some(StateCodec::pod());

    #[inline]
    fn reset(&mut self, options: &MountainCarOptions, stream: &mut Stream) -> [f32; 2] {
        let [position, _] = uniform_pair(stream, options.low, options.high);
        *self = Self { position, velocity: 0.0 };
        [position, 0.0]
    }

    #[inline(always)]
    fn step(&mut self, action: &[f32; 1], _: &mut Stream) -> Transition<[f32; 2]> {
        let [position, velocity] = roll(self.position, self.velocity, action[0].clamp(-1.0, 1.0) * POWER);
        *self = Self { position, velocity };
        let terminated = (position >= GOAL) & (velocity >= 0.0);
        let prize = if terminated { 100.0 } else { 0.0 };
        // Gymnasium charges for the action before it is clipped.
        let reward = prize - 0.1 * action[0] * action[0];
        Transition { observation: [position, velocity], reward, terminated, truncated: false }
    }
}
