use std::f64::consts::LN_2;

use serde::{Deserialize, Serialize};

use super::{Draw, Pick, Sampling};
use crate::{
    error::Error,
    replay::{draws::Draws, view::View},
};

/// The newest frames rather than old ones, with replacement. Weights are 1: what is newer is meant to count more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Recency {
    /// Of the newest so many frames each with the same chance, of all if there are fewer.
    Window(u64),
    /// Every frame, with a chance that halves with every so many newer frames.
    HalfLife(f64),
}

impl Recency {
    pub(super) fn check(&self, errors: &mut Vec<Error>) {
        match *self {
            Self::Window(0) => errors.push(Error::config("window", 0, "1 or more frames")),
            Self::HalfLife(frames) if !(frames.is_finite() && frames > 0.0) => {
                errors.push(Error::config("half_life", frames, "a finite number of frames above 0"));
            }
            _ => {}
        }
    }

    pub(super) fn open(&self, _: u64) -> Result<Box<dyn Draw>, Error> {
        Ok(Box::new(*self))
    }

    /// How many frames are newer than the drawn one of `len`.
    fn age(&self, len: u64, draws: &mut Draws) -> u64 {
        match *self {
            Self::Window(frames) => draws.below(frames.min(len)),
            Self::HalfLife(frames) => {
                // The geometric distribution, cut off at the oldest frame, by its inverse: an age of `a` or more has a
                // chance of `exp(-rate a)`.
                let rate = LN_2 / frames;
                let there = -(-rate * len as f64).exp_m1();
                let age = (-draws.unit() * there).ln_1p() / -rate;
                (age as u64).min(len - 1)
            }
        }
    }
}

impl Draw for Recency {
    fn is_of(&self, sampling: &Sampling) -> bool {
        *sampling == Sampling::Recency(*self)
    }

    fn draw(&mut self, view: &View<'_>, n: usize, draws: &mut Draws, picks: &mut Vec<Pick>) -> Result<(), Error> {
        let (oldest, len) = view.frames()?;
        picks.extend((0..n).map(|_| {
            let frame = oldest + (len - 1 - self.age(len, draws));
            Pick { frame, len: 1, weight: 1.0 }
        }));
        Ok(())
    }
}
