//! What a checkpoint holds of samplers.

use std::{ops::Deref, sync::MutexGuard};

use serde::{Deserialize, Serialize};

use super::{Sampler, Sampling};
use crate::{
    checkpoint::{BlockReader, BlockWriter},
    error::Error,
    replay::{
        Replay, Sample,
        draws::Draws,
        prefetch::Queue,
        sampler::{Draw, Hindsight},
        view::View,
    },
    task::Task,
};

/// What is saved and loaded with its buffer: [`Sampler`], [`Prefetch`](crate::replay::Prefetch) with the samples that it
/// has prepared, [`Relabel`](crate::replay::sampler::Relabel), and
/// [`Mixture`](crate::replay::sampler::Mixture), which is saved with each of its buffers.
pub trait Saved<T: Task>: sealed::Sealed<T> {}

impl<T: Task, S: sealed::Sealed<T>> Saved<T> for S {}

pub(in crate::replay) mod sealed {
    use super::{Frozen, Staged, Task};

    pub trait Sealed<T: Task> {
        /// Holds the state still.
        fn freeze(&self) -> Frozen<'_, T>;

        /// Replaces the state; everything about it was checked.
        fn restore(&mut self, staged: Staged<T>);
    }
}

/// What is to be saved and holds still: its samplers, and what it has beside them.
pub struct Frozen<'s, T: Task> {
    pub(in crate::replay) own: Own,
    pub(in crate::replay) samplers: Vec<Still<'s, T>>,
}

/// A sampler that does not draw, and the samples that it has prepared if it prefetches.
pub struct Still<'s, T: Task> {
    pub sampler: Box<dyn Deref<Target = Sampler<T>> + 's>,
    pub ahead: Option<MutexGuard<'s, Queue<T>>>,
}

/// What is beside samplers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::replay) enum Own {
    /// It is one sampler, and nothing else.
    Sampler,
    Mixture {
        shares: Vec<f64>,
        draws: Option<Draws>,
    },
    Relabel {
        options: Hindsight,
        draws: Draws,
    },
}

impl Own {
    /// Whether the two differ in their random numbers at most.
    fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Sampler, Self::Sampler) => true,
            (Self::Mixture { shares, draws }, Self::Mixture { shares: others, draws: other }) => {
                shares == others && draws.is_some() == other.is_some()
            }
            (Self::Relabel { options, .. }, Self::Relabel { options: other, .. }) => {
                Hindsight { seed: other.seed, ..*options } == *other
            }
            _ => false,
        }
    }

    fn told(&self) -> String {
        match self {
            Self::Sampler => "a sampler".into(),
            Self::Mixture { shares, draws: None } => format!("a mixture in fixed parts {shares:?}"),
            Self::Mixture { shares, .. } => format!("a mixture by weights {shares:?}"),
            Self::Relabel { options, .. } => format!("{options:?}"),
        }
    }
}

/// A state as it was read.
pub struct Staged<T: Task> {
    pub(in crate::replay) own: Own,
    /// With their places among its samplers.
    pub(in crate::replay) samplers: Vec<(usize, StagedSampler<T>)>,
}

/// A sampler's state as it was read.
pub struct StagedSampler<T: Task> {
    sampling: Sampling,
    draw: Option<Box<dyn Draw>>,
    draws: Draws,
    stopped: bool,
    pub ahead: Vec<Sample<T>>,
}

/// What stands before a sampler's own state.
#[derive(Serialize, Deserialize)]
struct Head {
    sampling: Sampling,
    n_step: Option<(u32, f32)>,
    draws: Draws,
    drawn: bool,
    stopped: bool,
    prefetches: bool,
}

impl<T: Task> Frozen<'_, T> {
    /// Its samplers that draw from a buffer, with their places.
    fn of<'f>(&'f self, replay: &'f Replay<T>) -> impl Iterator<Item = (usize, &'f Still<'f, T>)> {
        let samplers = self.samplers.iter().enumerate();
        samplers.filter(|(_, still)| still.sampler.replay.is(replay))
    }

    /// Saves what belongs to a buffer.
    pub(in crate::replay) fn save(&self, to: &mut BlockWriter<'_>, replay: &Replay<T>) -> Result<(), Error> {
        to.part(&self.own)?;
        to.part(&(self.of(replay).count() as u64))?;
        self.of(replay).try_for_each(|(_, still)| still.save(to))
    }

    /// Reads what belongs to a buffer of so many frames, of one with the same options.
    pub(in crate::replay) fn stage(
        &self,
        from: &mut BlockReader<'_>,
        replay: &Replay<T>,
        capacity: u64,
    ) -> Result<Staged<T>, Error> {
        let own: Own = from.part()?;
        if !self.own.agrees(&own) {
            return Err(Error::config("sampler", self.own.told(), format!("that of the checkpoint, {}", own.told())));
        }
        let (count, saved) = (self.of(replay).count(), from.part::<u64>()?);
        if count as u64 != saved {
            return Err(Error::config("samplers of the buffer in a mixture", count, format!("as saved, {saved}")));
        }
        let stage = |(place, still): (usize, &Still<'_, T>)| Ok((place, still.stage(from, capacity)?));
        Ok(Staged { own, samplers: self.of(replay).map(stage).collect::<Result<_, Error>>()? })
    }

    /// Whether any of it belongs to this buffer.
    pub(in crate::replay) fn draws_from(&self, replay: &Replay<T>) -> bool {
        matches!(self.own, Own::Relabel { .. }) || self.of(replay).next().is_some()
    }
}

impl<T: Task> Still<'_, T> {
    fn save(&self, to: &mut BlockWriter<'_>) -> Result<(), Error> {
        let Sampler { sampling, n_step, draws, draw, stopped, .. } = &**self.sampler;
        let (drawn, prefetches) = (draw.is_some(), self.ahead.is_some());
        let (sampling, n_step, draws) = (sampling.clone(), *n_step, *draws);
        // An end that was prepared comes once more.
        let stopped = *stopped && !self.ahead.as_ref().is_some_and(|queue| queue.ends());
        to.part(&Head { sampling, n_step, draws, drawn, stopped, prefetches })?;
        if let Some(draw) = draw {
            draw.save(to)?;
        }
        self.ahead.as_ref().map_or(Ok(()), |queue| to.part(&queue.samples().collect::<Vec<_>>()))
    }

    /// Reads the state of a sampler with the same options, of a buffer of so many frames.
    fn stage(&self, from: &mut BlockReader<'_>, capacity: u64) -> Result<StagedSampler<T>, Error> {
        let head: Head = from.part()?;
        let sampler = &**self.sampler;
        if !sampler.sampling.agrees(&head.sampling) || sampler.n_step != head.n_step {
            let own = format!("{:?} with n_step {:?}", sampler.sampling, sampler.n_step);
            let legal = format!("that of the checkpoint, {:?} with n_step {:?}", head.sampling, head.n_step);
            return Err(Error::config("sampler", own, legal));
        }
        if head.prefetches && self.ahead.is_none() {
            let legal = "one that prefetches, as that of the checkpoint, which has prepared samples";
            return Err(Error::config("sampler", "one that does not prefetch", legal));
        }
        let mut draw = None;
        if head.drawn {
            let state = draw.insert(head.sampling.open(capacity)?);
            state.load(from)?;
            if !state.is_of(&head.sampling) {
                let problem = format!("it has the state of another sampler than {:?}", head.sampling);
                return Err(Error::Checkpoint(problem));
            }
        }
        let ahead = if head.prefetches { from.part()? } else { Vec::new() };
        Ok(StagedSampler { sampling: head.sampling, draw, draws: head.draws, stopped: head.stopped, ahead })
    }
}

impl<T: Task> Staged<T> {
    /// Errors: a state that does not go with the buffer, of which nothing is there if it never was written.
    pub(in crate::replay) fn check(&self, view: Option<&View<'_>>) -> Result<(), String> {
        self.samplers.iter().try_for_each(|(_, sampler)| sampler.check(view))
    }

    /// The one sampler that a state without anything beside has.
    pub(in crate::replay) fn into_sampler(self) -> Option<StagedSampler<T>> {
        self.samplers.into_iter().next().map(|(_, sampler)| sampler)
    }
}

impl<T: Task> StagedSampler<T> {
    fn check(&self, view: Option<&View<'_>>) -> Result<(), String> {
        let Some(view) = view else {
            let blank = self.draw.is_none() && self.ahead.is_empty();
            return if blank { Ok(()) } else { Err("it has drawn from a buffer without frames".into()) };
        };
        self.ahead.iter().try_for_each(|sample| sample.check(view.ring))?;
        self.draw.as_ref().map_or(Ok(()), |draw| draw.check(view))
    }
}

impl<T: Task> Sampler<T> {
    pub(in crate::replay) fn still(&self) -> Still<'_, T> {
        Still { sampler: Box::new(self), ahead: None }
    }

    pub(in crate::replay) fn resume(&mut self, staged: StagedSampler<T>) {
        let StagedSampler { sampling, draw, draws, stopped, .. } = staged;
        (self.sampling, self.draw, self.draws, self.stopped) = (sampling, draw, draws, stopped);
    }
}

impl<T: Task> sealed::Sealed<T> for Sampler<T> {
    fn freeze(&self) -> Frozen<'_, T> {
        Frozen { own: Own::Sampler, samplers: vec![self.still()] }
    }

    fn restore(&mut self, staged: Staged<T>) {
        if let Some(staged) = staged.into_sampler() {
            self.resume(staged);
        }
    }
}
