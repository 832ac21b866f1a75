use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Layout, Pick};
use crate::{
    error::Error,
    replay::{
        Replay, Sample,
        draws::Draws,
        sampling::{Frozen, Own, Sealed, Staged},
        view::View,
    },
    task::Task,
};

/// Hindsight experience replay (Andrychowicz et al. 2017): some frames of a sample are told that what was achieved later was
/// the goal all along. The caller knows where in an observation a goal is, and what reward it gives.
///
/// ```
/// use gleaner::{prelude::*, replay::{Replay, sampler::Hindsight}};
///
/// let replay = Replay::<CartPole>::new(1_000)?;
/// for batch in Collector::<CartPole>::builder().total_frames(500).build()? {
///     replay.extend(&batch?)?;
/// }
/// let mut sample = replay.sampler().batch_size(32).build()?.sample()?;
/// let mut hindsight = Hindsight { ratio: 1.0, ..Hindsight::default() }.build()?;
/// let relabelled = hindsight.relabel(&replay, &mut sample, |frame| {
///     *frame.reward = if frame.next_observation == frame.achieved { 1.0 } else { 0.0 };
/// })?;
/// assert_eq!(relabelled.len(), 32);
/// # Ok::<(), gleaner::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hindsight {
    /// Share of the picks that get another goal, each by chance. Default: 0.8.
    pub ratio: f32,
    /// Where their goals come from. Default: what was achieved later in the episode.
    pub goals: Goals,
    /// Seed of the draws. Default: 0.
    pub seed: u64,
}

/// Where new goals come from: from the observation after one of these frames, each with the same chance. Of an episode
/// that goes on, or of which frames were overwritten, these are the frames that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Goals {
    /// The frame itself, and those of its episode behind it.
    #[default]
    Future,
    /// The last frame of its episode.
    Final,
    /// All frames of its episode.
    Episode,
    /// All frames of the buffer.
    Random,
}

impl Default for Hindsight {
    fn default() -> Self {
        Self { ratio: 0.8, goals: Goals::default(), seed: 0 }
    }
}

impl Hindsight {
    /// What relabels samples. Errors: a ratio that is not 0 to 1.
    pub fn build<T: Task>(self) -> Result<Relabel<T>, Error> {
        if !(0.0..=1.0).contains(&self.ratio) {
            return Err(Error::config("ratio", self.ratio, "0 to 1"));
        }
        let draws = Draws::stream(self.seed, 2);
        Ok(Relabel { options: self, draws, chosen: Vec::new(), achieved: Vec::new(), goals: Sample::default() })
    }
}

/// Gives some picks of samples other goals, by [`Hindsight`]. Its random numbers are [saved](Replay::save) with a buffer.
pub struct Relabel<T: Task> {
    options: Hindsight,
    draws: Draws,
    /// Picks of the sample that get another goal.
    chosen: Vec<usize>,
    /// The frames after which these goals were achieved, and what is there.
    achieved: Vec<Pick>,
    goals: Sample<T>,
}

/// A frame that is told of another goal.
pub struct Relabelled<'s, T: Task> {
    /// The observation after the frame whose achievement is the goal now.
    pub achieved: &'s T::Observation,
    /// What the policy saw, where the goal is to be written.
    pub observation: &'s mut T::Observation,
    /// What it saw next, likewise.
    pub next_observation: &'s mut T::Observation,
    /// The reward, which is to be that under the goal.
    pub reward: &'s mut f32,
}

impl<T: Task> Relabel<T> {
    /// Lets `relabel` rewrite a share of a sample that was drawn from `replay`, frame by frame; returns the picks it
    /// rewrote. Frames that were overwritten since keep their goals. Errors: picks of several frames, n-step returns, which
    /// would stay those of the old goals, or a mixture's sample; an edit that is not done by the buffer's deadline.
    pub fn relabel(
        &mut self,
        replay: &Replay<T>,
        sample: &mut Sample<T>,
        mut relabel: impl FnMut(Relabelled<'_, T>),
    ) -> Result<&[usize], Error> {
        if sample.picks() != sample.len() {
            let problem =
                format!("{} picks have {} frames; relabel samples of single frames", sample.picks(), sample.len());
            return Err(Error::State { call: "relabel", problem });
        }
        for (is_so, what) in
            [(!sample.returns().is_empty(), "has n-step returns"), (!sample.buffers().is_empty(), "is a mixture's")]
        {
            if is_so {
                let problem = format!("the sample {what}; relabel samples of single steps of one buffer");
                return Err(Error::State { call: "relabel", problem });
            }
        }
        self.chosen.clear();
        self.achieved.clear();
        let Some(ring) = replay.ring() else { return Ok(&[]) };
        let mut state = ring.lock_to_read(replay.config().deadline)?;
        let view = View { ring, state: &state };
        for (i, frame) in sample.frames().iter().enumerate() {
            let chosen = self.draws.unit() < f64::from(self.options.ratio);
            let there = (view.window().tail..view.window().head).contains(frame);
            if chosen && there {
                self.chosen.push(i);
                self.achieved.push(Pick {
                    frame: self.options.goals.draw(&view, *frame, &mut self.draws),
                    len: 1,
                    weight: 1.0,
                });
            }
        }
        self.goals.begin(&view, &self.achieved, Layout::default(), 0);
        let Some(oldest) = self.goals.oldest() else { return Ok(&[]) };
        let pin = ring.pin(&mut state, oldest);
        drop(state);
        self.goals.gather(ring, &pin, None);
        drop(pin);
        for (i, achieved) in self.chosen.iter().zip(self.goals.next_observations()) {
            let (observation, next_observation, reward) = sample.transition_mut(*i);
            relabel(Relabelled { achieved, observation, next_observation, reward });
        }
        Ok(&self.chosen)
    }
}

impl Goals {
    /// A frame after which the goal of another one was achieved.
    fn draw(self, view: &View<'_>, frame: u64, draws: &mut Draws) -> u64 {
        let window = view.window();
        if self == Self::Random {
            return window.tail + draws.below(window.head - window.tail);
        }
        let trajectory = view.trajectory(view.trajectory_of(frame));
        let there = trajectory.positions(window);
        let from = match self {
            Self::Episode => there.start,
            Self::Final => there.end - 1,
            Self::Future | Self::Random => trajectory.position(frame),
        };
        trajectory.at(from + draws.below(u64::from(there.end - from)) as u32)
    }
}

impl<T: Task> Sealed<T> for Relabel<T> {
    fn freeze(&self) -> Frozen<'_, T> {
        Frozen { own: Own::Relabel { options: self.options, draws: self.draws }, samplers: Vec::new() }
    }

    fn restore(&mut self, staged: Staged<T>) {
        if let Own::Relabel { draws, .. } = staged.own {
            self.draws = draws;
        }
    }
}

impl<T: Task> fmt::Debug for Relabel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relabel").field("options", &self.options).finish_non_exhaustive()
    }
}
