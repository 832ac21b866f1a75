use serde::{Deserialize, Serialize};

use super::{Draw, Pick, Sampling, Schedule, priorities::Priorities};
use crate::{
    components::ColumnSpec,
    data::Dtype,
    error::Error,
    replay::{draws::Draws, view::View},
};

/// Frames with the chances `(p + eps)^alpha`, with replacement (Schaul et al. 2016, "Prioritized experience replay").
///
/// Priorities `p` are given by [`Sampler::update_priorities`](crate::replay::Sampler::update_priorities); a new frame has
/// the highest one that was given so far, 1 before there is any, or brings [its own](Self::by_column). A sample's weights are `(P / P_min)^-beta`: `P` is the
/// frame's chance and `P_min` the smallest of any frame that is there and can be drawn, so that the highest weight is 1.
///
/// ```
/// use gleaner::{prelude::*, replay::{Replay, sampler::{Prioritized, Schedule}}};
///
/// let replay = Replay::<CartPole>::new(10_000)?;
/// replay.extend(&Collector::<CartPole>::builder().frames_per_batch(500).build()?.next().unwrap()?)?;
/// let beta = Schedule::Linear { from: 0.4, to: 1.0, samples: 50_000 };
/// let mut sampler = replay.sampler().sampling(Prioritized { beta, ..Prioritized::default() }).batch_size(32).build()?;
/// let sample = sampler.sample()?;
/// let errors: Vec<f32> = sample.weights().iter().map(|weight| 0.5 * weight).collect();
/// assert_eq!(sampler.update_priorities(sample.frames(), &errors)?, 32);
/// # Ok::<(), gleaner::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Prioritized {
    /// How much priorities count: 0 is every frame with the same chance. Default: 0.6. Whenever a schedule changes it, all
    /// chances are computed anew, which takes a time that grows with the frames that are there; writers wait meanwhile.
    pub alpha: Schedule,
    /// How much the weights make up for the chances: 1 is in full. Default: 0.4.
    pub beta: Schedule,
    /// What is added to priorities, so that a frame of priority 0 is still drawn. Weights are divided by that of the least
    /// likely frame, so with priorities near 0 a larger one, such as 0.01, keeps all other weights from vanishing.
    /// Default: 1e-8.
    pub eps: f32,
    /// Whether the highest priority of frames that are there counts, not that ever given. Default: false.
    pub max_priority_within_buffer: bool,
    /// Whether new frames are given what is in their recorded column `priority`, one `f32` a frame; one that is negative
    /// or not finite counts as none. Default: false.
    pub by_column: bool,
}

/// What [`Prioritized::by_column`] reads.
const COLUMN: &str = "priority";

impl Default for Prioritized {
    fn default() -> Self {
        Self { alpha: 0.6.into(), beta: 0.4.into(), eps: 1e-8, max_priority_within_buffer: false, by_column: false }
    }
}

impl Prioritized {
    pub(super) fn check(&self, errors: &mut Vec<Error>) {
        self.alpha.check("alpha", errors);
        self.beta.check("beta", errors);
        if !(self.eps.is_finite() && self.eps >= 0.0) {
            errors.push(Error::config("eps", self.eps, "a finite number from 0 on"));
        }
    }

    /// The column that new frames bring their priorities in, if any. Errors: the buffer has none.
    pub(super) fn column(&self, specs: &[ColumnSpec]) -> Result<Option<usize>, Error> {
        if !self.by_column {
            return Ok(None);
        }
        let numbers =
            |spec: &ColumnSpec| matches!(&spec.fields[..], [of] if of.dtype == Dtype::F32) && spec.stride == 4;
        let found = specs.iter().position(|spec| spec.name == COLUMN && numbers(spec));
        let legal = "with a recorded column \"priority\" of one f32 a frame";
        found.map(Some).ok_or_else(|| Error::config("by_column", true, legal))
    }

    pub(super) fn open(&self, capacity: u64) -> Result<Box<dyn Draw>, Error> {
        Ok(Box::new(Priorities::new(*self, 1, capacity)))
    }
}

impl Draw for Priorities {
    fn is_of(&self, sampling: &Sampling) -> bool {
        self.is_of(sampling)
    }

    fn check(&self, view: &View<'_>) -> Result<(), String> {
        self.check(view)
    }

    fn catch_up(&mut self, view: &View<'_>) {
        self.catch_up(view);
    }

    fn draw(&mut self, view: &View<'_>, n: usize, draws: &mut Draws, picks: &mut Vec<Pick>) -> Result<(), Error> {
        self.draw(view, n, draws, picks)
    }

    fn update(&mut self, view: &View<'_>, frames: &[u64], priorities: &[f32]) -> Result<usize, Error> {
        Ok(self.update(view, frames, Some(priorities)))
    }

    fn mark_update(&mut self, view: &View<'_>, frames: &[u64]) -> Result<usize, Error> {
        Ok(self.update(view, frames, None))
    }
}
