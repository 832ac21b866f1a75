//! What a thread of the pool does for one row: a step and, behind an end, the reset.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::{
    components::End,
    data::{Data, finite},
    env::{Env, Factory, RowContext, clip::ActionClip, mask::MaskParts, step::close_frame},
    error::{Error, discard, panic_message},
    seed::{Purpose, Seed, Stream},
};

/// What all jobs of a pool share.
pub(super) struct Rules<E: Env> {
    pub factory: Factory<E>,
    /// Rows of the collector.
    pub rows: u32,
    pub worker: Option<u32>,
    /// Frames after which an episode is truncated; `u32::MAX` for none.
    pub limit: u32,
    pub masks: MaskParts,
    pub clip: ActionClip,
}

/// Where a row stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The row's global number.
    pub row: u32,
    pub episode: u32,
    pub step: u32,
    pub seed: Seed,
}

/// A step of a row, or the start of an episode.
pub(super) struct Job<E: Env> {
    pub slot: usize,
    pub place: Place,
    /// None: a new one is built.
    pub env: Option<E>,
    pub stream: Stream,
    /// None: an episode starts.
    pub action: Option<E::Action>,
    pub options: E::Options,
}

/// What a row sees now.
pub(super) struct Seen<E: Env> {
    pub env: E,
    pub stream: Stream,
    pub episode: u32,
    pub observation: E::Observation,
    pub mask: E::Mask,
    /// None: an episode started.
    pub frame: Option<Outcome<E>>,
}

/// What a step gave.
pub(super) struct Outcome<E: Env> {
    pub reward: f32,
    pub end: End,
    /// The observation after the step: at an end the real last one.
    pub last: E::Observation,
}

/// How a job went.
pub(super) struct Finished<E: Env> {
    pub slot: usize,
    /// The error comes with the episode that it was in. Boxed: observations may be large.
    pub result: Result<Box<Seen<E>>, (u32, Error)>,
}

/// Where in the user's code a job is.
struct Progress {
    call: Cell<&'static str>,
    episode: Cell<u32>,
    step: Cell<u32>,
}

impl<E: Env> Rules<E> {
    /// Does a job. Panics of user code are its error.
    pub(super) fn run(&self, job: Job<E>) -> Finished<E> {
        let Job { slot, place, mut env, mut stream, action, options } = job;
        let at = Progress { call: Cell::new("build"), episode: Cell::new(place.episode), step: Cell::new(place.step) };
        let caught = catch_unwind(AssertUnwindSafe(|| {
            if env.is_none() {
                env = Some(self.build(place)?);
            }
            match &mut env {
                Some(env) => self.advance(env, &mut stream, place, action.as_ref(), &options, &at),
                None => unreachable!("it was just built"),
            }
        }));
        let done = caught.unwrap_or_else(|payload| Err(self.panicked(place, &at, panic_message(payload))));
        let result = match (done, env) {
            (Ok((observation, mask, frame)), Some(env)) => {
                Ok(Box::new(Seen { env, stream, episode: at.episode.get(), observation, mask, frame }))
            }
            (Err(error), env) => {
                discard(env);
                Err((at.episode.get(), error))
            }
            (Ok(_), None) => unreachable!("only an environment observes"),
        };
        Finished { slot, result }
    }

    fn build(&self, place: Place) -> Result<E, Error> {
        let stream = Stream::new(place.seed, place.row, Purpose::Factory, 0);
        let mut context = RowContext { row: place.row, rows: self.rows, worker: self.worker, stream };
        (self.factory)(&mut context).map_err(|source| Error::Factory { row: place.row, source })
    }

    /// What [`step`](crate::env::step) does for rows in the world: step, limits, the last observation kept, reset.
    fn advance(
        &self,
        env: &mut E,
        stream: &mut Stream,
        place: Place,
        action: Option<&E::Action>,
        options: &E::Options,
        at: &Progress,
    ) -> Result<(E::Observation, E::Mask, Option<Outcome<E>>), Error> {
        let frame = action.map(|action| {
            at.call.set("step");
            let action = if self.clip.is_empty() { *action } else { self.clip.apply(action) };
            let transition = env.step(&action, stream);
            let own = End::from_env(transition.terminated, transition.truncated);
            let is_finite = finite(transition.reward) && transition.observation.is_finite();
            let end = close_frame(own, is_finite, place.step >= self.limit.wrapping_sub(1), false);
            Outcome { reward: transition.reward, end, last: transition.observation }
        });
        let seen = match &frame {
            Some(frame) if !frame.end.done() => {
                at.step.set(place.step + 1);
                frame.last
            }
            _ => {
                at.episode.set(place.episode + u32::from(frame.is_some()));
                at.step.set(0);
                stream.start_episode(at.episode.get());
                at.call.set("reset");
                let first = env.reset(options, stream);
                if !first.is_finite() {
                    return Err(Error::reset_not_finite(&first, place.row, at.episode.get(), place.seed.0));
                }
                first
            }
        };
        let mut mask = bytemuck::Zeroable::zeroed();
        if size_of::<E::Mask>() > 0 {
            at.call.set("action_mask");
            env.action_mask(&mut mask);
            self.masks.check(&mask, place.row, at.episode.get(), at.step.get())?;
        }
        Ok((seen, mask, frame))
    }

    fn panicked(&self, place: Place, at: &Progress, message: String) -> Error {
        Error::EnvPanic {
            call: at.call.get(),
            message,
            worker: self.worker.unwrap_or(0),
            row: place.row,
            episode: at.episode.get(),
            step: at.step.get(),
            seed: place.seed.0,
        }
    }
}
