//! Pendulum-v1.

use std::f32::consts::PI;

use bevy_ecs::prelude::Component;
use bytemuck::{Pod, Zeroable};

use super::{Env, StateCodec, Transition, classic::wrap_angle};
use crate::{
    math::sin_cos,
    seed::{Stream, unit},
    space::Space,
    task::Task,
};

/// A pendulum to be swung up and held by a torque that is too weak to lift it: Gymnasium's `Pendulum-v1`.
///
/// - **Observation** `[f32; 3]`: cos `theta`, sin `theta`, `theta_dot`.
/// - **Action** `[f32; 1]`: torque in newton metres, clipped to -2 … 2.
/// - **Reward**: `-(θ² + 0.1 θ̇² + 0.001 torque²)` of the state before the step, θ wrapped to -π … π; between -16.3 and 0.
/// - Never terminated. Truncated after 200 frames.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Pendulum {
    /// Angle, radians from upright; not wrapped.
    pub theta: f32,
    /// Angular velocity, radians a second, in -8 … 8.
    pub theta_dot: f32,
}

/// Options of [`Pendulum`]'s reset: the state starts uniform between minus and plus these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PendulumOptions {
    /// Bound of the angle, radians; default π.
    pub x_init: f32,
    /// Bound of the angular velocity, radians a second; default 1.
    pub y_init: f32,
}

impl Default for PendulumOptions {
    fn default() -> Self {
        Self { x_init: PI, y_init: 1.0 }
    }
}

const GRAVITY: f32 = 10.0;
const MAX_SPEED: f32 = 8.0;
const MAX_TORQUE: f32 = 2.0;
/// Seconds a frame.
const DT: f32 = 0.05;

impl Pendulum {
    #[inline(always)]
    fn observe(&self) -> [f32; 3] {
        let (sin, cos) = sin_cos(self.theta);
        [cos, sin, self.theta_dot]
    }
}

impl Task for Pendulum {
    type Observation = [f32; 3];
    type Action = [f32; 1];
    type Mask = ();

    fn observation_space() -> Space {
        let high = [1.0, 1.0, MAX_SPEED];
        Space::bounded(high.map(|x| -x), high)
    }

    fn action_space() -> Space {
        Space::uniform(-MAX_TORQUE, MAX_TORQUE, 1)
    }
}

impl Env for Pendulum {
    type Options = PendulumOptions;

    const TIME_LIMIT: Option<u32> = Some(200);
    const STATE: Option<StateCodec<Self>> = Some(StateCodec::pod());

    #[inline]
    fn reset(&mut self, options: &PendulumOptions, stream: &mut Stream) -> [f32; 3] {
        let [x, y] = stream.pair().map(|word| 2.0 * unit(word) - 1.0);
        *self = Self { theta: options.x_init * x, theta_dot: options.y_init * y };
        self.observe()
    }

    #[inline(always)]
    fn step(&mut self, action: &[f32; 1], _: &mut Stream) -> Transition<[f32; 3]> {
        let torque = action[0].clamp(-MAX_TORQUE, MAX_TORQUE);
        let angle = wrap_angle(self.theta);
        let cost = angle * angle + 0.1 * self.theta_dot * self.theta_dot + 0.001 * torque * torque;

        // A rod of length 1 m and mass 1 kg about its end: θ̈ = 3g/2 sin θ + 3 torque.
        let (sin, _) = sin_cos(self.theta);
        let speed = self.theta_dot + (1.5 * GRAVITY * sin + 3.0 * torque) * DT;
        self.theta_dot = speed.clamp(-MAX_SPEED, MAX_SPEED);
        self.theta += self.theta_dot * DT;
        Transition { observation: self.observe(), reward: -cost, terminated: false, truncated: false }
    }
}
