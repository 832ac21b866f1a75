//! Which frames a learner sees: one file a way to draw them.

mod uniform;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{draws::Draws, view::View};
use crate::{
    checkpoint::{BlockReader, BlockWriter},
    error::Error,
};

pub use uniform::Uniform;

/// A way to draw frames.
///
/// Adding one: its file, and three lines here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Sampling {
    /// Every frame with the same chance.
    Uniform(Uniform),
}

impl Default for Sampling {
    fn default() -> Self {
        Self::Uniform(Uniform)
    }
}

impl Sampling {
    /// Whether frames leave the buffer as they are drawn, so that none can be drawn ahead.
    pub(super) fn consumes(&self) -> bool {
        match self {
            Self::Uniform(_) => false,
        }
    }
}

macro_rules! from {
    ($($kind:ident)*) => {
        $(impl From<$kind> for Sampling {
            fn from(options: $kind) -> Self {
                Self::$kind(options)
            }
        })*

        impl Sampling {
            /// What draws this way, for a buffer of so many frames. Errors: illegal options.
            pub(super) fn open(&self, capacity: u64) -> Result<Box<dyn Draw>, Error> {
                match self {
                    $(Self::$kind(options) => options.open(capacity),)*
                }
            }
        }
    };
}
from!(Uniform);

/// Frames that were drawn: `len` of one trajectory, from number `frame` on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pick {
    pub frame: u64,
    pub len: u32,
    /// Importance weight; 1 unless the chances differ.
    pub weight: f32,
}

/// What can be part of a checkpoint: whatever serde knows.
pub(super) trait State {
    fn save(&self, to: &mut BlockWriter<'_>) -> Result<(), Error>;

    fn load(&mut self, from: &mut BlockReader<'_>) -> Result<(), Error>;
}

impl<S: Serialize + DeserializeOwned> State for S {
    fn save(&self, to: &mut BlockWriter<'_>) -> Result<(), Error> {
        to.part(self)
    }

    fn load(&mut self, from: &mut BlockReader<'_>) -> Result<(), Error> {
        *self = from.part()?;
        Ok(())
    }
}

/// What draws, with its state.
pub(super) trait Draw: State + Send {
    /// Takes note of what was written since the last call.
    fn catch_up(&mut self, _: &View<'_>) {}

    /// Adds `n` picks, fewer at the end of an epoch. Errors: nothing can be drawn.
    fn draw(&mut self, view: &View<'_>, n: usize, draws: &mut Draws, picks: &mut Vec<Pick>) -> Result<(), Error>;

    /// Compares a state that was loaded with the buffer, so that no draw from it can fail later: lengths, places and frame
    /// numbers in it, and sums. The error says what is wrong.
    fn check(&self, _: &View<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Whether an epoch ended with the last draw.
    fn ran_out(&self) -> bool {
        false
    }

    /// Takes new priorities of frames that are there; returns how many it took.
    fn update(&mut self, _: &View<'_>, _frames: &[u64], _priorities: &[f32]) -> Result<usize, Error> {
        let problem = "the sampler has no priorities; legal: prioritized ones".into();
        Err(Error::State { call: "update_priorities", problem })
    }
}
