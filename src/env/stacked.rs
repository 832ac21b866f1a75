//! Observations that hold the last few frames.

use bevy_ecs::prelude::Component;
use bytemuck::Zeroable;

use super::{Env, StateCodec, Transition};
use crate::{data::Tensor, error::BoxError, seed::Stream, space::Space, task::Task};

/// An environment whose observation is the last `K` observations of another one, oldest first.
///
/// After a reset all `K` are the first observation, so nothing of the episode before is seen. Actions, masks, rewards,
/// ends, options and time limit are those of `E`. The observation space is `E`'s, `K` times.
///
/// ```
/// use gleaner::env::{CartPole, Env, Stacked};
/// use gleaner::seed::{Purpose, Seed, Stream};
///
/// let mut stream = Stream::new(Seed(0), 0, Purpose::Env, 0);
/// let mut env = Stacked::<CartPole, 3>::default();
/// let first = env.reset(&Default::default(), &mut stream);
/// let second = env.step(&1, &mut stream).observation;
/// assert_eq!(second[..2], first[1..]);
/// ```
#[derive(Component, Clone, Copy, Debug, PartialEq)]
pub struct Stacked<E: Env<Observation: Tensor>, const K: usize> {
    /// The environment that is stepped.
    pub env: E,
    frames: [E::Observation; K],
}

impl<E: Env<Observation: Tensor>, const K: usize> Stacked<E, K> {
    /// Stacks the observations of `env`. `K` must be at least 1, or it does not compile.
    pub fn new(env: E) -> Self {
        const { assert!(K > 0, "Stacked needs at least one observation") };
        Self { env, frames: Zeroable::zeroed() }
    }

    fn save(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(bytemuck::cast_slice(&self.frames));
        E::STATE.iter().for_each(|codec| codec.save(&self.env, to));
    }

    fn load(&mut self, from: &[u8]) -> Result<(), BoxError> {
        let width = size_of::<[E::Observation; K]>();
        let (frames, env) = from.split_at_checked(width).ok_or_else(|| format!("{} bytes", from.len()))?;
        E::STATE.map_or(Ok(()), |codec| codec.load(&mut self.env, env))?;
        bytemuck::cast_slice_mut(&mut self.frames).copy_from_slice(frames);
        Ok(())
    }

    /// The observations that the policy sees now, oldest first; zeros before the first reset.
    pub fn frames(&self) -> &[E::Observation; K] {
        &self.frames
    }
}

impl<E: Env<Observation: Tensor> + Default, const K: usize> Default for Stacked<E, K> {
    fn default() -> Self {
        Self::new(E::default())
    }
}

/// The space of `k` values of `space`, one after the other.
fn tile(space: Space, k: usize) -> Space {
    match space {
        Space::Discrete { n } => Space::MultiDiscrete { n: vec![n; k] },
        Space::MultiDiscrete { n } => Space::MultiDiscrete { n: n.repeat(k) },
        Space::MultiBinary { n } => Space::MultiBinary { n: n * k },
        Space::Box { low, high } => Space::Box { low: low.repeat(k), high: high.repeat(k) },
        Space::Fields(fields) => {
            Space::Fields(fields.into_iter().map(|(name, space)| (name, tile(space, k))).collect())
        }
    }
}

impl<E: Env<Observation: Tensor>, const K: usize> Task for Stacked<E, K> {
    type Observation = [E::Observation; K];
    type Action = E::Action;
    type Mask = E::Mask;

    fn observation_space() -> Space {
        tile(E::observation_space(), K)
    }

    fn action_space() -> Space {
        E::action_space()
    }
}

impl<E: Env<Observation: Tensor>, const K: usize> Env for Stacked<E, K> {
    type Options = E::Options;

    const TIME_LIMIT: Option<u32> = E::TIME_LIMIT;
    const STATE: Option<StateCodec<Self>> = match E::STATE {
        Some(_) => Some(StateCodec::new(Self::save, Self::load)),
        None => None,
    };

    #[inline]
    fn reset(&mut self, options: &E::Options, stream: &mut Stream) -> [E::Observation; K] {
        self.frames = [self.env.reset(options, stream); K];
        self.frames
    }

    #[inline]
    fn step(&mut self, action: &E::Action, stream: &mut Stream) -> Transition<[E::Observation; K]> {
        let Transition { observation, reward, terminated, truncated } = self.env.step(action, stream);
        self.frames.rotate_left(1);
        self.frames[K - 1] = observation;
        Transition { observation: self.frames, reward, terminated, truncated }
    }

    #[inline]
    fn action_mask(&self, mask: &mut E::Mask) {
        self.env.action_mask(mask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        env::{CartPole, GridWorld, Pendulum},
        seed::{Purpose, Seed},
        task::check_spaces,
    };

    fn stream() -> Stream {
        Stream::new(Seed(3), 1, Purpose::Env, 2)
    }

    #[test]
    fn the_oldest_comes_first_and_a_reset_forgets() {
        let (mut plain, mut plain_stream) = (Pendulum::default(), stream());
        let (mut stacked, mut stacked_stream) = (Stacked::<Pendulum, 3>::default(), stream());
        for _ in 0..2 {
            let first = plain.reset(&Default::default(), &mut plain_stream);
            assert_eq!(stacked.reset(&Default::default(), &mut stacked_stream), [first; 3]);
            let mut seen = vec![first; 3];
            for i in 0..5 {
                let action = [i as f32 * 0.4];
                let (one, many) = (plain.step(&action, &mut plain_stream), stacked.step(&action, &mut stacked_stream));
                seen.push(one.observation);
                assert_eq!(many.observation, seen[seen.len() - 3..]);
                assert_eq!(many.reward, one.reward);
            }
        }
    }

    #[test]
    fn spaces_are_tiled_and_the_rest_is_the_inner_environment_s() {
        check_spaces::<Stacked<CartPole, 4>>().unwrap();
        check_spaces::<Stacked<Stacked<GridWorld, 2>, 3>>().unwrap();
        let Space::Box { low, high } = Stacked::<CartPole, 4>::observation_space() else { panic!() };
        assert_eq!(low.len(), 16);
        assert_eq!((high[0], high[12], low[14]), (4.8, 4.8, -0.418_879_02));
        assert_eq!(tile(Space::discrete(7), 2), Space::MultiDiscrete { n: vec![7, 7] });
        assert_eq!(Stacked::<CartPole, 4>::TIME_LIMIT, Some(500));

        let (mut plain, mut stacked) = (GridWorld::default(), Stacked::<GridWorld, 2>::default());
        plain.reset(&Default::default(), &mut stream());
        stacked.reset(&Default::default(), &mut stream());
        let (mut want, mut got) = ([9; 4], [8; 4]);
        plain.action_mask(&mut want);
        stacked.action_mask(&mut got);
        assert_eq!(got, want);
    }
}
