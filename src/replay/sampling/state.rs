//! What a checkpoint holds of samplers.

use std::{ops::Deref, sync::MutexGuard};

use serde::{Deserialize, Serialize};

use super::{Sampler, Sampling};
use crate::{
    checkpoint::{BlockReader, BlockWriter},
    error::Error,
    replay::{Replay, Sample, draws::Draws, prefetch::Queue, sampler::Draw, view::View},
    task::Task,
};

/// What is saved and loaded with its buffer: [`Sampler`], and [`Prefetch`](crate::replay::Prefetch) with the samples that
/// it has prepared.
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

/// A sampler that does not draw, and the samples that it has prepared if it prefetches.
pub struct Frozen<'s, T: Task> {
    pub sampler: Box<dyn Deref<Target = Sampler<T>> + 's>,
    pub ahead: Option<MutexGuard<'s, Queue<T>>>,
}

/// A sampler's state as it was read.
pub struct Staged<T: Task> {
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
    pub(in crate::replay) fn save(&self, to: &mut BlockWriter<'_>) -> Result<(), Error> {
        let Sampler { sampling, n_step, draws, draw, stopped, .. } = &**self.sampler;
        let (drawn, prefetches) = (draw.is_some(), self.ahead.is_some());
        let (sampling, n_step, draws, stopped) = (sampling.clone(), *n_step, *draws, *stopped);
        to.part(&Head { sampling, n_step, draws, drawn, stopped, prefetches })?;
        if let Some(draw) = draw {
            draw.save(to)?;
        }
        self.ahead.as_ref().map_or(Ok(()), |queue| to.part(&queue.samples().collect::<Vec<_>>()))
    }

    /// Reads the state of a sampler with the same options, of a buffer of so many frames.
    pub(in crate::replay) fn stage(&self, from: &mut BlockReader<'_>, capacity: u64) -> Result<Staged<T>, Error> {
        let head: Head = from.part()?;
        let sampler = &**self.sampler;
        if (&sampler.sampling, sampler.n_step) != (&head.sampling, head.n_step) {
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
            let state = draw.insert(sampler.sampling.open(capacity)?);
            state.load(from)?;
            if !state.is_of(&sampler.sampling) {
                return Err(Error::Checkpoint(format!(
                    "it has the state of another sampler than {:?}",
                    sampler.sampling
                )));
            }
        }
        let ahead = if head.prefetches { from.part()? } else { Vec::new() };
        Ok(Staged { draw, draws: head.draws, stopped: head.stopped, ahead })
    }

    /// Whether it draws from this buffer.
    pub(in crate::replay) fn draws_from(&self, replay: &Replay<T>) -> bool {
        self.sampler.replay.is(replay)
    }
}

impl<T: Task> Staged<T> {
    /// Errors: a state that does not go with the buffer, of which nothing is there if it never was written.
    pub(in crate::replay) fn check(&self, view: Option<&View<'_>>) -> Result<(), String> {
        let Some(view) = view else {
            let blank = self.draw.is_none() && self.ahead.is_empty();
            return if blank { Ok(()) } else { Err("it has drawn from a buffer without frames".into()) };
        };
        self.ahead.iter().try_for_each(|sample| sample.check(view.ring))?;
        self.draw.as_ref().map_or(Ok(()), |draw| draw.check(view))
    }
}

impl<T: Task> sealed::Sealed<T> for Sampler<T> {
    fn freeze(&self) -> Frozen<'_, T> {
        Frozen { sampler: Box::new(self), ahead: None }
    }

    fn restore(&mut self, staged: Staged<T>) {
        (self.draw, self.draws, self.stopped) = (staged.draw, staged.draws, staged.stopped);
    }
}
