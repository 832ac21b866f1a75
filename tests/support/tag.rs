//! The tag environment: each observation says row, episode and step, so any mixing shows.

use std::sync::Arc;

use bevy_ecs::prelude::Component;
use gleaner::{
    BoxError,
    components::End,
    config::CollectorBuilder,
    env::{BatchEnv, BatchStep, Env, RowStepper, StateCodec, Transition},
    prelude::{Collector, Space, Stream, Task},
};

gleaner::data! {
    /// What a row of the tag environment sees; all but `noise` are exact whole numbers.
    pub struct Seen {
        /// Number of the row plus one, so that no observation is zeros.
        pub row: f32,
        /// Episode of the row's stream, from 0.
        pub episode: f32,
        /// Steps of the episode.
        pub t: f32,
        /// A draw of the row's stream.
        pub noise: f32,
        /// Resets that the environment has had.
        pub resets: f32,
    }
}

impl Seen {
    /// Row and episode, exactly.
    pub fn place(&self) -> (u32, u32) {
        (self.row as u32 - 1, self.resets as u32)
    }
}

/// How an episode ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Terminated ("T").
    Terminated,
    /// Cut by the environment ("C").
    Truncated,
    /// Both at once.
    Both,
    /// The last frame's observation is not finite.
    Nan,
    /// Panics with the message "boom 42" instead of the last frame; an episode of length 0, in its reset.
    Panic,
}

impl Ending {
    /// The environment's own flags.
    pub fn end(self) -> End {
        match self {
            Self::Nan | Self::Panic => End::RUNNING,
            ending => End::from_env(ending != Self::Truncated, ending != Self::Terminated),
        }
    }
}

/// A length that no test reaches.
pub const NEVER: u32 = u32::MAX;

/// Lengths and ends: row `r` plays list `r`, wrapping, its episode `e` entry `e` of the list, wrapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Script(pub Vec<Vec<(u32, Ending)>>);

impl Script {
    /// Every episode of every row alike.
    pub fn all(length: u32, ending: Ending) -> Arc<Self> {
        Arc::new(Self(vec![vec![(length, ending)]]))
    }

    /// One length a row.
    pub fn lengths(lengths: &[u32], ending: Ending) -> Arc<Self> {
        Arc::new(Self(lengths.iter().map(|length| vec![(*length, ending)]).collect()))
    }

    /// Length and end of an episode.
    pub fn episode(&self, row: u32, episode: u32) -> (u32, Ending) {
        let list = &self.0[row as usize % self.0.len()];
        list[episode as usize % list.len()]
    }
}

#[derive(Clone, Debug)]
struct State {
    script: Arc<Script>,
    row: u32,
    resets: u32,
    episode: u32,
    t: u32,
}

impl State {
    fn new(script: Arc<Script>, row: u32) -> Self {
        Self { script, row, resets: 0, episode: 0, t: 0 }
    }

    fn see(&self, noise: f32) -> Seen {
        let (row, episode, t) = (self.row as f32 + 1.0, self.episode as f32, self.t as f32);
        Seen { row, episode, t, noise, resets: self.resets as f32 }
    }

    fn reset(&mut self, stream: &mut Stream) -> Seen {
        self.resets += 1;
        (self.episode, self.t) = (stream.episode(), 0);
        self.may_panic();
        self.see(stream.unit())
    }

    fn may_panic(&self) {
        assert!(self.script.episode(self.row, self.episode) != (self.t, Ending::Panic), "boom 42");
    }

    /// All but what the factory gave.
    fn save(&self, to: &mut Vec<u8>) {
        to.extend([self.resets, self.episode, self.t].iter().flat_map(|number| number.to_le_bytes()));
    }

    fn load(&mut self, from: &[u8]) -> Result<(), BoxError> {
        let (numbers, rest) = from.as_chunks();
        let [resets, episode, t] = numbers else { return Err(format!("{} numbers", numbers.len()).into()) };
        [self.resets, self.episode, self.t] = [*resets, *episode, *t].map(u32::from_le_bytes);
        // Numbers of a spoiled file.
        let sound = rest.is_empty() && self.t < NEVER && self.resets < NEVER;
        if sound { Ok(()) } else { Err(format!("step {} of episode {}", self.t, self.episode).into()) }
    }

    fn step(&mut self, stream: &mut Stream) -> (Seen, End) {
        self.t += 1;
        self.may_panic();
        let (length, ending) = self.script.episode(self.row, self.episode);
        let noise = stream.unit();
        if self.t < length {
            return (self.see(noise), End::RUNNING);
        }
        (self.see(if ending == Ending::Nan { f32::NAN } else { noise }), ending.end())
    }
}

/// The environment of one row, or one simulator of all. Actions are any number; rewards are 1.
#[derive(Component, Debug)]
pub struct Tag(Vec<State>);

impl Tag {
    /// The environment of `row`.
    pub fn new(script: Arc<Script>, row: u32) -> Self {
        Self(vec![State::new(script, row)])
    }

    /// A simulator of `rows` rows.
    pub fn simulator(script: &Arc<Script>, rows: usize) -> Self {
        Self((0..rows as u32).map(|row| State::new(script.clone(), row)).collect())
    }

    const CODEC: StateCodec<Self> = StateCodec::new(
        |tag, to| tag.0.iter().for_each(|state| state.save(to)),
        |tag, from| {
            let mut states = from.chunks(12);
            tag.0.iter_mut().try_for_each(|state| state.load(states.next().unwrap_or_default()))?;
            if states.next().is_none() { Ok(()) } else { Err("more rows".into()) }
        },
    );
}

/// A builder of tag environments.
pub fn tags(script: Arc<Script>) -> CollectorBuilder<Tag, RowStepper<Tag>> {
    Collector::with_factory(move |context| Ok(Tag::new(script.clone(), context.row)))
}

impl Task for Tag {
    type Observation = Seen;
    type Action = f32;
    type Mask = ();
    fn observation_space() -> Space {
        let field = |name: &str| (name.to_string(), Space::unbounded(1));
        Space::Fields(["row", "episode", "t", "noise", "resets"].map(field).to_vec())
    }
    fn action_space() -> Space {
        Space::uniform(-1e6, 1e6, 1)
    }
}

impl Env for Tag {
    type Options = ();
    const STATE: Option<StateCodec<Self>> = Some(Self::CODEC);
    fn reset(&mut self, _: &(), stream: &mut Stream) -> Seen {
        self.0[0].reset(stream)
    }
    fn step(&mut self, _: &f32, stream: &mut Stream) -> Transition<Seen> {
        let (observation, end) = self.0[0].step(stream);
        Transition { observation, reward: 1.0, terminated: end.terminated(), truncated: end.truncated() }
    }
}

impl BatchEnv for Tag {
    type Options = ();
    const STATE: Option<StateCodec<Self>> = Some(Self::CODEC);
    fn reset(&mut self, row: usize, _: &(), stream: &mut Stream, observation: &mut Seen, _: &mut ()) {
        *observation = self.0[row].reset(stream);
    }
    fn step(&mut self, rows: BatchStep<'_, Self>) {
        for i in 0..rows.actions.len() {
            (rows.observations[i], rows.ends[i]) = self.0[i].step(&mut rows.streams[i]);
            rows.rewards[i] = 1.0;
        }
    }
}
