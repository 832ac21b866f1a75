//! Environments: what gleaner steps.

pub mod acrobot;
mod agents;
mod batch;
pub mod cart_pole;
pub mod check;
mod classic;
mod clip;
mod failed;
mod faults;
pub mod grid_world;
mod mask;
pub mod mountain_car;
pub mod mountain_car_continuous;
pub mod pendulum;
mod pool;
mod rows;
pub mod stacked;
mod state;
mod step;
mod strip;

pub use acrobot::{Acrobot, AcrobotOptions};
pub use cart_pole::{CartPole, CartPoleOptions};
pub use check::{CheckReport, check_env, check_env_with};
pub use grid_world::{GridWorld, GridWorldOptions};
pub use mountain_car::{MountainCar, MountainCarOptions};
pub use mountain_car_continuous::MountainCarContinuous;
pub use pendulum::{Pendulum, PendulumOptions};
pub use stacked::Stacked;
pub use state::StateCodec;

use std::sync::Arc;

use bevy_ecs::{component::Mutable, prelude::*};

use crate::{components::End, error::BoxError, seed::Stream, task::Task};

/// What one step of an environment gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transition<O> {
    /// The observation after the step: at an end the real last one. The engine resets afterwards, in the same tick.
    pub observation: O,
    /// The reward.
    pub reward: f32,
    /// The task ended: what follows has no value.
    pub terminated: bool,
    /// The episode was cut: what would have followed has a value. Step limits are the engine's
    /// ([`Env::TIME_LIMIT`]); an environment sets this for reasons of its own.
    pub truncated: bool,
}

/// One simulation, one row, stepped alone. The type itself is the row's state: a component.
pub trait Env: Task + Component<Mutability = Mutable> + Sized {
    /// Options of a reset, such as bounds of the start distribution; `()` for none.
    type Options: Clone + Default + Send + Sync + 'static;

    /// Frames after which an episode is truncated, unless `max_frames_per_traj` is lower.
    const TIME_LIMIT: Option<u32> = None;

    /// How a checkpoint saves an episode that runs; see [`StateCodec`]. Without it the running episodes are truncated
    /// ([`Truncation::Checkpoint`](crate::components::Truncation::Checkpoint)) when the checkpoint is loaded. Default: none.
    const STATE: Option<StateCodec<Self>> = None;

    /// Starts an episode and returns its first observation. Randomness comes from `stream` alone.
    fn reset(&mut self, options: &Self::Options, stream: &mut Stream) -> Self::Observation;

    /// Advances by one frame. Continuous actions come clipped to the action space.
    fn step(&mut self, action: &Self::Action, stream: &mut Stream) -> Transition<Self::Observation>;

    /// Advances a run of rows by one frame: `action(i)` is the action of `envs[i]`, and `done(i, …)` takes the outcome.
    /// Each is called once for every row, in ascending order.
    ///
    /// The default calls [`step`](Self::step) row by row, which a compiler turns into vector instructions where it is
    /// plain arithmetic. Override it where many rows side by side are quicker still; the bits must be those of `step`. A
    /// panic is reported with the row whose action was asked for last; if that row shall start anew
    /// ([`FaultPolicy::RestartRow`](crate::fault::FaultPolicy::RestartRow)), so do those before it without an outcome.
    #[inline(always)]
    fn step_many(
        envs: &mut [Self],
        streams: &mut [Stream],
        action: impl Fn(usize) -> Self::Action,
        mut done: impl FnMut(usize, Transition<Self::Observation>),
    ) {
        let streams = &mut streams[..envs.len()];
        for i in 0..envs.len() {
            let action = action(i);
            done(i, envs[i].step(&action, &mut streams[i]));
        }
    }

    /// Starts an episode in those of a run of rows that `ended` gives, ascending; `done(i, …)` takes the first observation
    /// of `envs[i]`. `ended` is taken to its end, and `done` is called once for each, in ascending order.
    ///
    /// The default calls [`reset`](Self::reset) row by row. Override it where many rows side by side are quicker; the bits
    /// must be those of `reset`. A panic is reported with the first row without an observation; if that row shall start anew,
    /// those behind it are reset one by one.
    #[inline(always)]
    fn reset_many(
        envs: &mut [Self],
        streams: &mut [Stream],
        options: &Self::Options,
        ended: impl Iterator<Item = usize>,
        mut done: impl FnMut(usize, Self::Observation),
    ) {
        for i in ended {
            let observation = envs[i].reset(options, &mut streams[i]);
            done(i, observation);
        }
    }

    /// Writes which actions are legal now, a byte an action, 0 for illegal. Called after each reset and step if
    /// `Self::Mask` is not `()`. At least one action must be legal.
    fn action_mask(&self, _mask: &mut Self::Mask) {}
}

/// A simulator that steps many rows at once, on slices of the same columns.
pub trait BatchEnv: Task {
    /// Options of a reset; `()` for none.
    type Options: Clone + Default + Send + Sync + 'static;

    /// Frames after which an episode is truncated, unless `max_frames_per_traj` is lower.
    const TIME_LIMIT: Option<u32> = None;

    /// How a checkpoint saves the simulator with the episodes that run; see [`StateCodec`]. Without it they are truncated
    /// ([`Truncation::Checkpoint`](crate::components::Truncation::Checkpoint)) when the checkpoint is loaded. Default: none.
    const STATE: Option<StateCodec<Self>> = None;

    /// Agents of one simulation, at least 1: rows that act together, each for itself, and begin and end their episodes
    /// together. Default: 1, each row is a simulation of its own.
    ///
    /// Of `n` simulations agent `a` of simulation `s` is row `a · n + s`, so that agents of one role are a range of rows,
    /// which can have a policy of its own. Rows must be a multiple of the agents and a budget one of the rows, as a
    /// simulation makes whole steps only. Where one agent's episode ends, those of the others that go on are truncated
    /// ([`Truncation::Env`](crate::components::Truncation::Env)), or a number that is not finite ends them all one frame
    /// before; then all are [reset](Self::reset), as they are when one of them is reset from outside.
    fn agents(&self) -> usize {
        1
    }

    /// Starts an episode of one row and writes its first observation and, if the task has masks, its mask. The
    /// [agents](Self::agents) of a simulation are reset one directly after the other, from agent 0 on; simulations in any
    /// order.
    fn reset(
        &mut self,
        row: usize,
        options: &Self::Options,
        stream: &mut Stream,
        observation: &mut Self::Observation,
        mask: &mut Self::Mask,
    );

    /// Advances rows `0..rows.actions.len()` by one frame. All slices have that length; every element of
    /// `observations`, `rewards`, `ends` and, if the task has masks, `masks` must be written.
    fn step(&mut self, rows: BatchStep<'_, Self>)
    where
        Self: Sized;
}

/// The columns of one step of a [`BatchEnv`].
pub struct BatchStep<'a, T: Task> {
    /// What the policy chose; continuous actions come clipped.
    pub actions: &'a [T::Action],
    /// The observations after the step; at an end the real last ones.
    pub observations: &'a mut [T::Observation],
    /// The rewards.
    pub rewards: &'a mut [f32],
    /// [`End::from_env`] of each row.
    pub ends: &'a mut [End],
    /// Legal actions after the step.
    pub masks: &'a mut [T::Mask],
    /// The rows' random streams.
    pub streams: &'a mut [Stream],
}

/// What a factory knows of the row that it builds an environment for.
#[derive(Clone, Copy, Debug)]
pub struct RowContext {
    /// The row's global number.
    pub row: u32,
    /// Rows of the collector, of all its workers.
    pub rows: u32,
    /// Worker that will step it; none inline.
    pub worker: Option<u32>,
    /// Random numbers of the row for its factory.
    pub stream: Stream,
}

/// Builds the environment of a row: parameters may depend on the row.
pub type Factory<E> = Arc<dyn Fn(&mut RowContext) -> Result<E, BoxError> + Send + Sync>;

pub(crate) use batch::BatchSim;
pub use batch::BatchStepper;
pub(crate) use mask::MaskParts;
pub use pool::AsyncBatched;
pub(crate) use pool::{PoolOptions, PoolShare};
pub use rows::{RowStepper, Spawn, Stepper};
pub(crate) use step::EnvSettings;
