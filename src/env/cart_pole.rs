//! CartPole-v1.

use bevy_ecs::prelude::Component;
use bytemuck::{Pod, Zeroable};

use super::{
    Env, StateCodec, Transition,
    classic::{uniform_pairs, uniform_pairs_of},
};
use crate::{math::sin_cos, seed::Stream, space::Space, task::Task};

/// A pole on a cart that is pushed left or right: Gymnasium's `CartPole-v1`, by its Euler integration.
///
/// Source: Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve difficult learning control
/// problems" (1983); equations: Florian, "Correct equations for the dynamics of the cart-pole system" (2007).
///
/// - **Observation** `[f32; 4]`: `x`, `x_dot`, `theta`, `theta_dot`.
/// - **Action** `i32`: 0 pushes left, 1 right, with 10 N.
/// - **Reward**: 1 a frame, the last included.
/// - **Terminated** when |`x`| > 2.4 m or |`theta`| > 12°. Truncated after 500 frames.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct CartPole {
    /// Position of the cart, metres.
    pub x: f32,
    /// Velocity of the cart, metres a second.
    pub x_dot: f32,
    /// Angle of the pole, radians from upright, positive to the right.
    pub theta: f32,
    /// Angular velocity of the pole, radians a second.
    pub theta_dot: f32,
}

/// Options of [`CartPole`]'s reset: all four state variables start uniform in `[low, high)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CartPoleOptions {
    /// Lower bound; default -0.05.
    pub low: f32,
    /// Upper bound; default 0.05.
    pub high: f32,
}

impl Default for CartPoleOptions {
    fn default() -> Self {
        Self { low: -0.05, high: 0.05 }
    }
}

const GRAVITY: f32 = 9.8;
const POLE_MASS: f32 = 0.1;
const TOTAL_MASS: f32 = 1.0 + POLE_MASS;
/// Half the pole's length, metres.
const LENGTH: f32 = 0.5;
const FORCE: f32 = 10.0;
/// Seconds a frame.
const TAU: f32 = 0.02;
const X_LIMIT: f32 = 2.4;
/// 12 degrees.
const THETA_LIMIT: f32 = 0.209_439_51;

impl Task for CartPole {
    type Observation = [f32; 4];
    type Action = i32;
    type Mask = ();

    /// Twice the limits, so that the observation of a fall is inside.
    fn observation_space() -> Space {
        let high = [2.0 * X_LIMIT, f32::INFINITY, 2.0 * THETA_LIMIT, f32::INFINITY];
        Space::bounded(high.map(|x| -x), high)
    }

    fn action_space() -> Space {
        Space::discrete(2)
    }
}

impl Env for CartPole {
    type Options = CartPoleOptions;

    const TIME_LIMIT: Option<u32> = Some(500);
    const STATE: Option<StateCodec<Self>> = Some(StateCodec::pod());

    #[inline]
    fn reset(&mut self, options: &CartPoleOptions, stream: &mut Stream) -> [f32; 4] {
        let [[x, x_dot], [theta, theta_dot]] = uniform_pairs(stream, options.low, options.high);
        *self = Self { x, x_dot, theta, theta_dot };
        [x, x_dot, theta, theta_dot]
    }

    #[inline(always)]
    fn reset_many(
        carts: &mut [Self],
        streams: &mut [Stream],
        options: &CartPoleOptions,
        ended: impl Iterator<Item = usize>,
        mut done: impl FnMut(usize, [f32; 4]),
    ) {
        uniform_pairs_of(streams, options.low, options.high, ended, |i, [[x, x_dot], [theta, theta_dot]]| {
            carts[i] = Self { x, x_dot, theta, theta_dot };
            done(i, [x, x_dot, theta, theta_dot]);
        });
    }

    #[inline(always)]
    fn step(&mut self, action: &i32, _: &mut Stream) -> Transition<[f32; 4]> {
        let accelerations = accelerations(*action, self.theta_dot, sin_cos(self.theta));
        self.advance(accelerations)
    }
}

/// Accelerations of the cart and of the pole's angle. Selects in place of branches, and constants folded into
/// multiplications: the loop over rows vectorises.
#[inline(always)]
fn accelerations(action: i32, theta_dot: f32, (sin, cos): (f32, f32)) -> (f32, f32) {
    let force = if action == 1 { FORCE } else { -FORCE };
    let push = (force + POLE_MASS * LENGTH * theta_dot * theta_dot * sin) * (1.0 / TOTAL_MASS);
    let theta_acc =
        (GRAVITY * sin - cos * push) / (LENGTH * (4.0 / 3.0) - (LENGTH * POLE_MASS / TOTAL_MASS) * cos * cos);
    (push - (POLE_MASS * LENGTH / TOTAL_MASS) * theta_acc * cos, theta_acc)
}

impl CartPole {
    #[inline(always)]
    fn advance(&mut self, (x_acc, theta_acc): (f32, f32)) -> Transition<[f32; 4]> {
        self.x += TAU * self.x_dot;
        self.x_dot += TAU * x_acc;
        self.theta += TAU * self.theta_dot;
        self.theta_dot += TAU * theta_acc;
        Transition {
            observation: [self.x, self.x_dot, self.theta, self.theta_dot],
            reward: 1.0,
            terminated: (self.x.abs() > X_LIMIT) | (self.theta.abs() > THETA_LIMIT),
            truncated: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{Purpose, Seed};

    fn bits(carts: &[CartPole]) -> Vec<[u32; 4]> {
        carts.iter().map(|cart| [cart.x, cart.x_dot, cart.theta, cart.theta_dot].map(f32::to_bits)).collect()
    }

    fn carts(n: usize) -> Vec<CartPole> {
        let mut stream = Stream::new(Seed(2), 0, Purpose::Env, 0);
        let mut carts = vec![CartPole::default(); n];
        for cart in &mut carts {
            cart.reset(&CartPoleOptions { low: -3.0, high: 3.0 }, &mut stream);
        }
        carts
    }

    #[test]
    fn many_carts_move_as_each_alone() {
        for n in [0, 1, 15, 16, 17, 129, 256] {
            let mut carts = carts(n);
            if let Some(cart) = carts.last_mut() {
                cart.theta = f32::NAN;
            }
            let (mut alone, mut outcomes) = (carts.clone(), Vec::new());
            let mut streams = vec![Stream::new(Seed(1), 0, Purpose::Env, 0); n];
            pulp::Arch::new().dispatch(|| {
                CartPole::step_many(&mut carts, &mut streams, |i| i as i32 % 3, |i, done| outcomes.push((i, done)));
            });
            assert_eq!(outcomes.len(), n);
            for (i, (cart, (place, many))) in alone.iter_mut().zip(outcomes).enumerate() {
                let one = cart.step(&(i as i32 % 3), &mut Stream::new(Seed(1), 0, Purpose::Env, 0));
                assert_eq!((place, many.terminated, many.reward), (i, one.terminated, one.reward));
                assert_eq!(many.observation.map(f32::to_bits), one.observation.map(f32::to_bits), "cart {i} of {n}");
            }
            assert_eq!(bits(&carts), bits(&alone));
        }
    }

    #[test]
    fn many_carts_start_as_each_alone() {
        for n in [0, 1, 15, 16, 17, 40] {
            let options = CartPoleOptions::default();
            let stream = |row: usize| Stream::from_key(Seed(5).row_key(row as u32, Purpose::Env), row as u32 % 5, 3);
            let (mut many, mut one) = (carts(3 * n), carts(3 * n));
            let mut streams: Vec<_> = (0..3 * n).map(stream).collect();
            let mut alone = streams.clone();
            let mut outcomes = Vec::new();
            let ended = (0..n).map(|i| 3 * i + i % 2);
            CartPole::reset_many(&mut many, &mut streams, &options, ended.clone(), |i, seen| outcomes.push((i, seen)));
            let expected: Vec<_> = ended.map(|i| (i, one[i].reset(&options, &mut alone[i]))).collect();
            assert_eq!((outcomes, &streams), (expected, &alone), "{n} of {}", 3 * n);
            assert_eq!(bits(&many), bits(&one));
        }
    }
}
