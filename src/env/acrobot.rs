//! Acrobot-v1.

use std::f32::consts::PI;

use bevy_ecs::prelude::Component;
use bytemuck::{Pod, Zeroable};

use super::{
    Env, StateCodec, Transition,
    classic::{uniform_pairs, wrap_angle},
};
use crate::{math::sin_cos, seed::Stream, space::Space, task::Task};

/// Two links of which only the joint between them is driven, to be swung up: Gymnasium's `Acrobot-v1`.
///
/// Source: Sutton and Barto, "Reinforcement learning: an introduction" (1998), example 11.3, whose dynamics these are
/// (Gymnasium's "book"); one classical Runge-Kutta step of 0.2 s a frame.
///
/// - **Observation** `[f32; 6]`: cos and sin of `theta1`, cos and sin of `theta2`, `theta1_dot`, `theta2_dot`.
/// - **Action** `i32`: torque of -1, 0 or 1 newton metre.
/// - **Reward**: -1 a frame, 0 at the goal.
/// - **Terminated** when the free end is higher than one link above the hinge. Truncated after 500 frames.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Acrobot {
    /// Angle of the first link, radians from hanging down, in -π … π.
    pub theta1: f32,
    /// Angle of the second link to the first, radians, in -π … π.
    pub theta2: f32,
    /// Angular velocity of the first link, radians a second, in -4π … 4π.
    pub theta1_dot: f32,
    /// Angular velocity of the second link, radians a second, in -9π … 9π.
    pub theta2_dot: f32,
}

/// Options of [`Acrobot`]'s reset: all four state variables start uniform in `[low, high)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AcrobotOptions {
    /// Lower bound; default -0.1.
    pub low: f32,
    /// Upper bound; default 0.1.
    pub high: f32,
}

impl Default for AcrobotOptions {
    fn default() -> Self {
        Self { low: -0.1, high: 0.1 }
    }
}

const GRAVITY: f32 = 9.8;
/// Of each link, kilograms; so are the lengths (metres) and the moments of inertia.
const MASS: f32 = 1.0;
const LENGTH: f32 = 1.0;
const INERTIA: f32 = 1.0;
/// From a link's hinge to its centre of mass, metres.
const CENTRE: f32 = 0.5;
const MAX_SPEED: [f32; 2] = [4.0 * PI, 9.0 * PI];
/// Seconds a frame.
const DT: f32 = 0.2;

type State = [f32; 4];

/// Rate of change of the state under `torque`.
#[inline(always)]
fn derivative([theta1, theta2, dtheta1, dtheta2]: State, torque: f32) -> State {
    let (sin2, cos2) = sin_cos(theta2);
    let (sin1, _) = sin_cos(theta1);
    let (sin12, _) = sin_cos(theta1 + theta2);
    let own = MASS * CENTRE * CENTRE + INERTIA;
    let cross = MASS * LENGTH * CENTRE;
    let d1 = 2.0 * own + MASS * LENGTH * LENGTH + 2.0 * cross * cos2;
    let d2 = own + cross * cos2;
    // The source's cos(θ - π/2) is sin θ.
    let phi2 = MASS * CENTRE * GRAVITY * sin12;
    let phi1 = -cross * sin2 * dtheta2 * (dtheta2 + 2.0 * dtheta1) + MASS * (CENTRE + LENGTH) * GRAVITY * sin1 + phi2;
    let ratio = d2 / d1;
    let ddtheta2 = (torque + ratio * phi1 - cross * dtheta1 * dtheta1 * sin2 - phi2) / (own - d2 * ratio);
    let ddtheta1 = -(d2 * ddtheta2 + phi1) / d1;
    [dtheta1, dtheta2, ddtheta1, ddtheta2]
}

#[inline(always)]
fn add(state: State, factor: f32, rate: State) -> State {
    std::array::from_fn(|i| state[i] + factor * rate[i])
}

/// One step of the classical fourth-order Runge-Kutta method.
#[inline(always)]
fn runge_kutta(state: State, torque: f32) -> State {
    let k1 = derivative(state, torque);
    let k2 = derivative(add(state, 0.5 * DT, k1), torque);
    let k3 = derivative(add(state, 0.5 * DT, k2), torque);
    let k4 = derivative(add(state, DT, k3), torque);
    std::array::from_fn(|i| state[i] + DT / 6.0 * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]))
}

impl Acrobot {
    #[inline(always)]
    fn observe(&self) -> [f32; 6] {
        let (sin1, cos1) = sin_cos(self.theta1);
        let (sin2, cos2) = sin_cos(self.theta2);
        [cos1, sin1, cos2, sin2, self.theta1_dot, self.theta2_dot]
    }
}

impl Task for Acrobot {
    type Observation = [f32; 6];
    type Action = i32;
    type Mask = ();

    fn observation_space() -> Space {
        let high = [1.0, 1.0, 1.0, 1.0, MAX_SPEED[0], MAX_SPEED[1]];
        Space::bounded(high.map(|x| -x), high)
    }

    fn action_space() -> Space {
        Space::discrete(3)
    }
}

impl Env for Acrobot {
    type Options = AcrobotOptions;

    const TIME_LIMIT: Option<u32> = Some(500);
    const STATE: Option<StateCodec<Self>> = Some(StateCodec::pod());

    #[inline]
    fn reset(&mut self, options: &AcrobotOptions, stream: &mut Stream) -> [f32; 6] {
        let [[theta1, theta2], [theta1_dot, theta2_dot]] = uniform_pairs(stream, options.low, options.high);
        *self = Self { theta1, theta2, theta1_dot, theta2_dot };
        self.observe()
    }

    #[inline(always)]
    fn step(&mut self, action: &i32, _: &mut Stream) -> Transition<[f32; 6]> {
        let state = [self.theta1, self.theta2, self.theta1_dot, self.theta2_dot];
        let [theta1, theta2, theta1_dot, theta2_dot] = runge_kutta(state, (*action - 1) as f32);
        *self = Self {
            theta1: wrap_angle(theta1),
            theta2: wrap_angle(theta2),
            theta1_dot: theta1_dot.clamp(-MAX_SPEED[0], MAX_SPEED[0]),
            theta2_dot: theta2_dot.clamp(-MAX_SPEED[1], MAX_SPEED[1]),
        };
        let observation = self.observe();
        let (_, cos12) = sin_cos(self.theta1 + self.theta2);
        let terminated = -observation[0] - cos12 > 1.0;
        Transition { observation, reward: if terminated { 0.0 } else { -1.0 }, terminated, truncated: false }
    }
}
