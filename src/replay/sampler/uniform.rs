use serde::{Deserialize, Serialize};

use super::{Draw, Pick, Sampling};
use crate::{
    error::Error,
    replay::{draws::Draws, view::View},
};

/// Every frame with the same chance, with replacement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Uniform;

impl Uniform {
    pub(super) fn check(&self, _: &mut Vec<Error>) {}

    pub(super) fn open(&self, _: u64) -> Result<Box<dyn Draw>, Error> {
        Ok(Box::new(*self))
    }
}

impl Draw for Uniform {
    fn is_of(&self, sampling: &Sampling) -> bool {
        *sampling == Sampling::Uniform(*self)
    }

    fn draw(&mut self, view: &View<'_>, n: usize, draws: &mut Draws, picks: &mut Vec<Pick>) -> Result<(), Error> {
        let (oldest, len) = view.frames()?;
        picks.extend((0..n).map(|_| Pick { frame: oldest + draws.below(len), len: 1, weight: 1.0 }));
        Ok(())
    }
}
