//! An environment that fails at a chosen call, row and step.

use bevy_ecs::prelude::Component;
use gleaner::{
    config::CollectorBuilder,
    env::{Env, RowStepper, Transition},
    prelude::{Collector, Space, Stream, Task},
};

/// Where the environment fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// In the factory.
    Build,
    /// In `reset`.
    Reset,
    /// In `step`.
    Step,
    /// In `action_mask`.
    Mask,
    /// When it is dropped.
    Drop,
}

/// How it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Panics with the message "boom 42".
    Panic,
    /// Observes NaN.
    Nan,
    /// Observes infinity.
    Infinity,
    /// Is rewarded with NaN.
    NanReward,
    /// Allows no action.
    Forbid,
}

/// Any row, any episode, any step.
pub const ANY: u32 = u32::MAX;

/// One fault, or many by [`ANY`]. `step` counts the episode's steps before the failing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub call: Call,
    pub kind: Kind,
    pub row: u32,
    pub episode: u32,
    pub step: u32,
}

/// Observes `[episode, t]`; episodes have `length` frames and are cut by the environment.
#[derive(Component, Debug)]
pub struct Faulty {
    faults: Vec<Fault>,
    row: u32,
    length: u32,
    episode: u32,
    t: u32,
}

impl Faulty {
    /// A builder whose rows have episodes of `length` frames and these faults.
    pub fn builder(length: u32, faults: impl IntoIterator<Item = Fault>) -> CollectorBuilder<Self, RowStepper<Self>> {
        let faults = Vec::from_iter(faults);
        Collector::with_factory(move |context| {
            let new = Self::new(length, faults.iter().copied(), context.row);
            let Some(kind) = new.fails(Call::Build) else { return Ok(new) };
            // It was never there to be dropped.
            std::mem::forget(new);
            assert!(kind != Kind::Panic, "boom 42");
            Err("no such level".into())
        })
    }

    /// The environment of `row`.
    pub fn new(length: u32, faults: impl IntoIterator<Item = Fault>, row: u32) -> Self {
        Self { faults: faults.into_iter().collect(), row, length, episode: 0, t: 0 }
    }

    fn fails(&self, call: Call) -> Option<Kind> {
        let is = |asked: u32, here: u32| asked == ANY || asked == here;
        let here = |fault: &Fault| {
            fault.call == call && is(fault.row, self.row) && is(fault.episode, self.episode) && is(fault.step, self.t)
        };
        self.faults.iter().find(|fault| here(fault)).map(|fault| fault.kind)
    }

    fn see(&self, kind: Option<Kind>) -> [f32; 2] {
        match kind {
            Some(Kind::Panic) => panic!("boom 42"),
            Some(Kind::Nan) => [f32::NAN, self.t as f32],
            Some(Kind::Infinity) => [self.episode as f32, f32::INFINITY],
            Some(Kind::NanReward | Kind::Forbid) | None => [self.episode as f32, self.t as f32],
        }
    }
}

impl Task for Faulty {
    type Observation = [f32; 2];
    type Action = i32;
    type Mask = [u8; 2];
    fn observation_space() -> Space {
        Space::unbounded(2)
    }
    fn action_space() -> Space {
        Space::discrete(2)
    }
}

impl Env for Faulty {
    type Options = ();
    fn reset(&mut self, _: &(), stream: &mut Stream) -> [f32; 2] {
        (self.episode, self.t) = (stream.episode(), 0);
        self.see(self.fails(Call::Reset))
    }
    fn step(&mut self, _: &i32, _: &mut Stream) -> Transition<[f32; 2]> {
        let kind = self.fails(Call::Step);
        self.t += 1;
        let reward = if kind == Some(Kind::NanReward) { f32::NAN } else { 1.0 };
        Transition { observation: self.see(kind), reward, terminated: false, truncated: self.t == self.length }
    }
    fn action_mask(&self, mask: &mut [u8; 2]) {
        let kind = self.fails(Call::Mask);
        *mask = [u8::from(kind != Some(Kind::Forbid)); 2];
        self.see(kind);
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.see(self.fails(Call::Drop));
    }
}
