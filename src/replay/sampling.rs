//! Samplers: a way to draw, with its state.

mod state;

use std::fmt;

use super::{
    Replay, Sample,
    draws::Draws,
    limiter::Turn,
    sampler::{Draw, Layout, Pick, Sampling},
    transform::{Transform, transform},
    view::View,
};
use crate::{
    error::{BoxError, Error},
    task::Task,
};

pub use state::Saved;
pub(super) use state::{Frozen, Own, Staged, Still, sealed::Sealed};

/// Options of a [`Sampler`].
pub struct SamplerBuilder<T: Task> {
    replay: Replay<T>,
    sampling: Sampling,
    batch_size: Option<usize>,
    n_step: Option<(u32, f32)>,
    transforms: Vec<Transform<T>>,
    seed: u64,
}

impl<T: Task> SamplerBuilder<T> {
    pub(super) fn new(replay: Replay<T>, sampling: Sampling) -> Self {
        Self { replay, sampling, batch_size: None, n_step: None, transforms: Vec::new(), seed: 0 }
    }

    /// How frames are drawn. Default: uniformly.
    #[must_use]
    pub fn sampling(mut self, sampling: impl Into<Sampling>) -> Self {
        self.sampling = sampling.into();
        self
    }

    /// Picks of a sample: frames, or slices. Default: none, so that every call says it.
    #[must_use]
    pub fn batch_size(mut self, picks: usize) -> Self {
        self.batch_size = Some(picks);
        self
    }

    /// Gives `n`-step returns with discount `gamma`, and the observation after the last step: fewer steps where the
    /// episode ends, was cut or has not gone on yet. For picks of one frame. Default: none.
    #[must_use]
    pub fn n_step(mut self, n: u32, gamma: f32) -> Self {
        self.n_step = Some((n, gamma));
        self
    }

    /// Changes every sample in place before it is given, behind the transforms before. The buffer is as it was: it is not
    /// locked meanwhile, and [`Replay::read`], n-step returns and goals of [`Hindsight`](super::sampler::Hindsight) are of
    /// what is stored. An error, or a panic, is that of the call, [`Error::Hook`]: its draw counts, its sample is empty.
    ///
    /// ```
    /// use gleaner::{prelude::*, replay::Replay};
    ///
    /// let replay = Replay::<CartPole>::new(10_000)?;
    /// // Rewards are stored in halves, and scaled back as they are drawn.
    /// replay.transform_writes(|block| Ok(block.rewards_mut().iter_mut().for_each(|reward| *reward *= 0.5)))?;
    /// replay.extend(&Collector::<CartPole>::builder().frames_per_batch(500).build()?.next().unwrap()?)?;
    /// let scale = |sample: &mut Sample<CartPole>| Ok(sample.rewards_mut().iter_mut().for_each(|reward| *reward *= 2.0));
    /// let mut sampler = replay.sampler().batch_size(32).transform(scale).build()?;
    /// assert_eq!(sampler.sample()?.rewards(), [1.0; 32]);
    /// # use gleaner::replay::Sample;
    /// # Ok::<(), gleaner::Error>(())
    /// ```
    #[must_use]
    pub fn transform(mut self, f: impl FnMut(&mut Sample<T>) -> Result<(), BoxError> + Send + 'static) -> Self {
        self.transforms.push(Box::new(f));
        self
    }

    /// Seed of the draws. Default: 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The sampler. Errors: illegal options, all of them.
    pub fn build(self) -> Result<Sampler<T>, Error> {
        let mut errors = Vec::new();
        if self.batch_size == Some(0) {
            errors.push(Error::config("batch_size", 0, "1 or more"));
        }
        if let Some((n, gamma)) = self.n_step {
            if n == 0 {
                errors.push(Error::config("n_step", 0, "1 or more"));
            }
            if !(0.0..=1.0).contains(&gamma) {
                errors.push(Error::config("gamma", gamma, "0 to 1"));
            }
        }
        self.sampling.check(&mut errors);
        if self.sampling.consumes() {
            errors.extend(self.replay.check_writable("sampling").err());
        }
        if self.n_step.is_some() && self.sampling.slices() {
            let reason =
                "returns are of picks of one frame, and slices have the steps that follow; leave one of them out";
            errors.push(Error::Conflict { first: "n_step", second: "sampling", reason: reason.into() });
        }
        Error::all(errors)?;
        Ok(Sampler {
            draw: None,
            draws: Draws::new(self.seed),
            picks: Vec::new(),
            anchors: Default::default(),
            replay: self.replay,
            sampling: self.sampling,
            batch_size: self.batch_size,
            n_step: self.n_step,
            transforms: self.transforms,
            stopped: false,
        })
    }
}

/// Draws from a [`Replay`] buffer: a way to draw with its state and its random numbers. Iteration yields samples until an
/// epoch ends, for samplers that have any.
pub struct Sampler<T: Task> {
    replay: Replay<T>,
    sampling: Sampling,
    /// There from the first draw on, when the capacity is known.
    draw: Option<Box<dyn Draw>>,
    draws: Draws,
    picks: Vec<Pick>,
    /// Anchors that get priorities. Scratch.
    anchors: (Vec<u64>, Vec<f32>),
    batch_size: Option<usize>,
    n_step: Option<(u32, f32)>,
    transforms: Vec<Transform<T>>,
    /// Whether iteration has stopped at the end of the epoch.
    stopped: bool,
}

impl<T: Task> Sampler<T> {
    /// A sample of `batch_size` picks. Errors: [`Error::State`] while there is nothing to draw, or without a size;
    /// [`Error::Config`] for a size, or columns, that the way to draw cannot have; [`Error::Timeout`] past the buffer's
    /// deadline, if its limiter lets nobody draw or edits go on and on.
    pub fn sample(&mut self) -> Result<Sample<T>, Error> {
        let mut sample = Sample::default();
        self.sample_into(&mut sample)?;
        Ok(sample)
    }

    /// A sample of `batch_size` picks in the memory of an old one. Errors: those of [`sample`](Self::sample).
    pub fn sample_into(&mut self, sample: &mut Sample<T>) -> Result<(), Error> {
        let Some(n) = self.batch_size else {
            let problem = "no batch_size was set; set it, or call sample_n".into();
            return Err(Error::State { call: "sample", problem });
        };
        self.sample_n(n, sample)
    }

    /// A sample of `n` picks in the memory of an old one. Errors: those of [`sample`](Self::sample), but for the size.
    pub fn sample_n(&mut self, n: usize, sample: &mut Sample<T>) -> Result<(), Error> {
        let replay = self.replay.clone();
        let turn = replay.begin_draw(n, || false)?;
        self.draw_now(n, sample, turn)
    }

    /// The same without a wait for the limiter: `turn` is its leave.
    fn draw_now(&mut self, n: usize, sample: &mut Sample<T>, turn: Option<Turn<'_>>) -> Result<(), Error> {
        let Self { replay, sampling, draw, draws, picks, n_step, transforms, .. } = self;
        let Some(ring) = replay.ring() else {
            return Err(Error::State { call: "sample", problem: "the replay buffer holds no frame".into() });
        };
        let draw = match draw {
            Some(draw) => draw,
            None => draw.insert(sampling.open(ring.capacity())?),
        };
        picks.clear();
        self.stopped = false;
        let mut state = ring.lock_to_read(replay.config().deadline)?;
        let view = View { ring, state: &state };
        draw.catch_up(&view);
        draw.draw(&view, n, draws, picks)?;
        let layout = Layout { slices: sampling.slices(), ..draw.layout() };
        sample.begin(&view, picks, layout, n_step.map_or(0, |(n, _)| n));
        let Some(oldest) = sample.oldest() else {
            sample.clear();
            return Ok(());
        };
        let keep = draw.used_up_below(&view);
        let pin = ring.pin(&mut state, oldest);
        if keep > state.window.tail {
            ring.release(&mut state, keep);
            if let Some(gate) = replay.gate() {
                gate.resized(state.window);
            }
        }
        drop(state);
        sample.set_consumer_version(draw.version());
        sample.gather(ring, &pin, *n_step);
        drop(pin);
        if let Some(turn) = turn {
            turn.drawn(sample.drawn());
        }
        transform(transforms, sample)
    }

    /// The transforms in their order: to add some, in any place, or take them out. They are no part of what is
    /// [saved](Replay::save).
    pub fn transforms(&mut self) -> &mut Vec<Transform<T>> {
        &mut self.transforms
    }

    /// Errors: samples that cannot be drawn ahead.
    pub(super) fn can_prefetch(&self) -> Result<(), Error> {
        let conflict = |second, reason: &str| Err(Error::Conflict { first: "prefetch", second, reason: reason.into() });
        if self.batch_size.is_none() {
            return conflict("batch_size", "samples are prepared before any call says how large; set batch_size");
        }
        if self.sampling.consumes() {
            return conflict(
                "sampling",
                "frames would leave the buffer before their sample is yielded; draw without prefetch",
            );
        }
        Ok(())
    }

    /// What it draws from, and how much at a time if that was said.
    pub(super) fn source(&self) -> (&Replay<T>, Option<usize>) {
        (&self.replay, self.batch_size)
    }

    /// Whether the last sample ended an epoch, or nothing is left to be drawn.
    pub fn ran_out(&self) -> bool {
        self.draw.as_ref().is_some_and(|draw| draw.ran_out())
    }

    /// Picks that are left, for samplers that draw nothing for ever: of the epoch, or of all uses of the frames. None for
    /// other samplers, and before the first draw.
    pub fn remaining(&self) -> Option<u64> {
        self.draw.as_ref()?.remaining()
    }

    /// Gives frames of earlier samples new priorities, one each; frames that were overwritten since are left alone.
    /// Returns how many were there. Errors: a sampler without priorities, slices of different lengths, a priority that is
    /// negative or not finite.
    pub fn update_priorities(&mut self, frames: &[u64], priorities: &[f32]) -> Result<usize, Error> {
        if frames.len() != priorities.len() {
            let legal = format!("one for each of {} frames", frames.len());
            return Err(Error::config("priorities", format!("{} numbers", priorities.len()), legal));
        }
        if let Some(bad) = priorities.iter().find(|priority| !(priority.is_finite() && **priority >= 0.0)) {
            return Err(Error::config("priorities", bad, "finite numbers from 0 on"));
        }
        self.with_draw("update_priorities", |draw, view| draw.update(view, frames, priorities))
    }

    /// Gives each pick of an earlier sample the highest priority of its slots to learn from, given one for each slot: its
    /// [anchor](Sample::anchor) gets it. Returns how many anchors were there. Errors: those of
    /// [`update_priorities`](Self::update_priorities); a sample of a mixture.
    pub fn update_anchors(&mut self, sample: &Sample<T>, priorities: &[f32]) -> Result<usize, Error> {
        if priorities.len() != sample.len() {
            let legal = format!("one for each of {} slots", sample.len());
            return Err(Error::config("priorities", format!("{} numbers", priorities.len()), legal));
        }
        if !sample.buffers().is_empty() {
            let problem = "the sample is a mixture's; update the priorities of each of its samplers".into();
            return Err(Error::State { call: "update_anchors", problem });
        }
        let (mut frames, mut highest) = std::mem::take(&mut self.anchors);
        frames.clear();
        highest.clear();
        for pick in 0..sample.picks() {
            let learning = sample.pick(pick).filter(|i| sample.is_learning(*i)).map(|i| priorities[i]);
            // One that is not a number stays, for the error that names it.
            let most = |most: f32, priority: f32| if most.is_nan() || most > priority { most } else { priority };
            frames.push(sample.anchor(pick));
            highest.push(learning.fold(0.0, most));
        }
        let taken = self.update_priorities(&frames, &highest);
        self.anchors = (frames, highest);
        taken
    }

    /// Gives frames of earlier samples the priority of new ones again; frames that were overwritten since are left alone.
    /// Returns how many were there. Errors: a sampler without priorities.
    pub fn mark_update(&mut self, frames: &[u64]) -> Result<usize, Error> {
        self.with_draw("mark_update", |draw, view| draw.mark_update(view, frames))
    }

    /// Counts staleness from this version of the weights on: the learner's. Errors: a sampler that draws otherwise.
    pub fn set_version(&mut self, version: u64) -> Result<(), Error> {
        let Sampling::Staleness(options) = &mut self.sampling else {
            let problem = "the sampler does not look at versions; legal: one that draws by staleness".into();
            return Err(Error::State { call: "set_version", problem });
        };
        options.version = Some(version);
        if let Some(draw) = &mut self.draw {
            draw.set_version(version);
        }
        Ok(())
    }

    /// Does something with what draws, while nothing comes or goes.
    fn with_draw<R>(
        &mut self,
        call: &'static str,
        f: impl FnOnce(&mut dyn Draw, &View<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let Some(ring) = self.replay.ring() else {
            return Err(Error::State { call, problem: "the replay buffer holds no frame".into() });
        };
        let draw = match &mut self.draw {
            Some(draw) => draw,
            None => self.draw.insert(self.sampling.open(ring.capacity())?),
        };
        let state = ring.lock();
        f(&mut **draw, &View { ring, state: &state })
    }
}

impl<T: Task> Sampler<T> {
    /// Whether iteration ends here, once for each epoch.
    pub(super) fn stops_next(&self) -> bool {
        self.ran_out() && !self.stopped
    }

    /// What comes next of one with a `batch_size`, with the limiter's leave to draw it.
    pub(super) fn next_with(&mut self, turn: Option<Turn<'_>>) -> Option<Result<Sample<T>, Error>> {
        if self.stops_next() {
            self.stopped = true;
            return None;
        }
        let mut sample = Sample::default();
        Some(self.draw_now(self.batch_size.unwrap_or(0), &mut sample, turn).map(|()| sample))
    }
}

impl<T: Task> Iterator for Sampler<T> {
    type Item = Result<Sample<T>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.stopped = self.stops_next();
        if self.stopped { None } else { Some(self.sample()) }
    }
}

impl<T: Task> fmt::Debug for Sampler<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler")
            .field("sampling", &self.sampling)
            .field("batch_size", &self.batch_size)
            .field("n_step", &self.n_step)
            .finish_non_exhaustive()
    }
}
