//! Which frames a learner sees: one file a way to draw them.

mod maximum;
mod priorities;
mod prioritized;
mod prioritized_slices;
mod recency;
mod schedule;
mod staleness;
mod tree;
mod uniform;

use serde::{Deserialize, Serialize};

use super::{draws::Draws, view::View};
use crate::error::Error;

pub use prioritized::Prioritized;
pub use prioritized_slices::PrioritizedSlices;
pub use recency::Recency;
pub use schedule::Schedule;
pub use staleness::Staleness;
pub use uniform::Uniform;

/// A way to draw frames.
///
/// Adding one: its file, and three lines here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Sampling {
    /// Every frame with the same chance.
    Uniform(Uniform),
    /// Frames by their priorities.
    Prioritized(Prioritized),
    /// Slices by the priorities of their first frames.
    PrioritizedSlices(PrioritizedSlices),
    /// Frames of recent weights rather than of old ones.
    Staleness(Staleness),
    /// New frames rather than old ones.
    Recency(Recency),
}

impl Default for Sampling {
    fn default() -> Self {
        Self::Uniform(Uniform)
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
            /// Errors: illegal options.
            pub(super) fn check(&self, errors: &mut Vec<Error>) {
                match self {
                    $(Self::$kind(options) => options.check(errors),)*
                }
            }

            /// What draws this way, for a buffer of so many frames.
            pub(super) fn open(&self, capacity: u64) -> Result<Box<dyn Draw>, Error> {
                match self {
                    $(Self::$kind(options) => options.open(capacity),)*
                }
            }
        }
    };
}
from!(Uniform Prioritized PrioritizedSlices Staleness Recency);

/// Frames that were drawn: `len` of one trajectory, from number `frame` on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pick {
    pub frame: u64,
    pub len: u32,
    /// Importance weight; 1 unless the chances differ.
    pub weight: f32,
}

/// What draws, with its state.
pub(super) trait Draw: Send {
    /// Takes note of what was written since the last call.
    fn catch_up(&mut self, _: &View<'_>) {}

    /// Adds `n` picks, fewer at the end of an epoch. Errors: nothing can be drawn.
    fn draw(&mut self, view: &View<'_>, n: usize, draws: &mut Draws, picks: &mut Vec<Pick>) -> Result<(), Error>;

    /// Whether an epoch ended with the last draw.
    fn ran_out(&self) -> bool {
        false
    }

    /// Takes new priorities of frames that are there; returns how many it took.
    fn update(&mut self, _: &View<'_>, _frames: &[u64], _priorities: &[f32]) -> Result<usize, Error> {
        let problem = "the sampler has no priorities; legal: prioritized ones".into();
        Err(Error::State { call: "update_priorities", problem })
    }

    /// Gives frames that are there the priority of new ones; returns how many there were.
    fn mark_update(&mut self, _: &View<'_>, _frames: &[u64]) -> Result<usize, Error> {
        let problem = "the sampler has no priorities; legal: prioritized ones".into();
        Err(Error::State { call: "mark_update", problem })
    }

    /// The learner's version that staleness is counted from, if it is.
    fn version(&self) -> Option<u64> {
        None
    }

    /// Counts staleness from this version on.
    fn set_version(&mut self, _: u64) {}
}
