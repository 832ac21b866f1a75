//! Which frames a learner sees: one file a way to draw them.
//!
//! | to draw | with |
//! |---|---|
//! | frames, slices of one length for recurrent or model-based learners | [`Uniform`], [`Slices`] |
//! | either by priority | [`Prioritized`], [`PrioritizedSlices`] |
//! | frames of recent weights, recent frames | [`Staleness`], [`Recency`] |
//! | each once an epoch | [`WithoutReplacement`], [`SlicesWithoutReplacement`] |
//! | each so many times, then never again | [`Consuming`] |
//! | frames with a burn-in before and a bootstrap behind | [`Sequences`] |
//! | frames that share a column's value, from the best groups | [`Groups`] |
//! | from several buffers | [`Mixture`], over samplers |
//! | with goals that were achieved later | [`Hindsight`], over samples |

mod consuming;
mod epoch;
mod groups;
mod her;
mod maximum;
mod mixture;
mod priorities;
mod prioritized;
mod prioritized_slices;
mod recency;
mod schedule;
mod sequences;
mod slices;
mod slices_without_replacement;
mod staleness;
mod starts;
mod tree;
mod uniform;
mod without_replacement;

use std::ops::Range;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{draws::Draws, view::View};
use crate::{
    checkpoint::{BlockReader, BlockWriter},
    error::Error,
};

pub use consuming::Consuming;
pub use groups::{Best, Groups, Share};
pub use her::{Goals, Hindsight, Relabel, Relabelled};
pub use mixture::Mixture;
pub use prioritized::Prioritized;
pub use prioritized_slices::PrioritizedSlices;
pub use recency::Recency;
pub use schedule::Schedule;
pub use sequences::{Boundary, Sequences};
pub use slices::{Short, Slices, Weighting};
pub use slices_without_replacement::SlicesWithoutReplacement;
pub use staleness::Staleness;
pub use uniform::Uniform;
pub use without_replacement::WithoutReplacement;

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
    /// Every frame once an epoch.
    WithoutReplacement(WithoutReplacement),
    /// Every frame a number of times.
    Consuming(Consuming),
    /// Frames of one trajectory that follow each other.
    Slices(Slices),
    /// A slice of every trajectory once an epoch.
    SlicesWithoutReplacement(SlicesWithoutReplacement),
    /// Frames with those before and behind, for recurrent policies.
    Sequences(Sequences),
    /// Frames that share the value of a column.
    Groups(Groups),
}

impl Default for Sampling {
    fn default() -> Self {
        Self::Uniform(Uniform)
    }
}

impl Sampling {
    /// Whether frames leave the buffer as they are drawn, so that none can be drawn ahead.
    pub(super) fn consumes(&self) -> bool {
        matches!(self, Self::Consuming(_))
    }

    /// Whether picks are stretches of trajectories, however many frames they have.
    pub(super) fn slices(&self) -> bool {
        matches!(
            self,
            Self::Slices(_) | Self::SlicesWithoutReplacement(_) | Self::PrioritizedSlices(_) | Self::Sequences(_)
        )
    }

    /// Whether the other one draws the same way, for a learner of any version.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Staleness(own), Self::Staleness(other)) => Staleness { version: other.version, ..*own } == *other,
            _ => self == other,
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
from!(
    Uniform Prioritized PrioritizedSlices Staleness Recency WithoutReplacement Consuming Slices
    SlicesWithoutReplacement Sequences Groups
);

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

/// How the picks of a sampler become slots of a sample.
#[derive(Clone, Debug)]
pub(super) struct Layout<'a> {
    /// Whether picks are slices, whose last frames are marked where their episode goes on.
    pub slices: bool,
    /// Slots of each pick; none: as many as it has frames.
    pub slots: Option<u32>,
    /// By pick: slots before its first frame, which hold none if picks have a fixed number of slots, else are left out;
    /// none if empty.
    pub before: &'a [u32],
    /// Steps from one frame of a pick to the next.
    pub stride: u32,
    /// The slots of each pick that are learned from.
    pub learning: Range<usize>,
    /// By pick: the place of its trajectory, or none if empty: the draws do not say.
    pub records: &'a [u32],
    /// Beginnings of episodes that go on where that of a pick has ended, each with the number of its pick, ascending.
    pub joined: &'a [(u32, Pick)],
}

impl Default for Layout<'_> {
    fn default() -> Self {
        Self { slices: false, slots: None, before: &[], stride: 1, learning: 0..usize::MAX, records: &[], joined: &[] }
    }
}

/// What draws, with its state.
pub(super) trait Draw: State + Send {
    /// Takes note of what was written since the last call.
    fn catch_up(&mut self, _: &View<'_>) {}

    /// Adds `n` picks, fewer at the end of an epoch. Errors: nothing can be drawn.
    fn draw(&mut self, view: &View<'_>, n: usize, draws: &mut Draws, picks: &mut Vec<Pick>) -> Result<(), Error>;

    /// Whether it draws this way, as its own options say and what it has of them elsewhere.
    fn is_of(&self, sampling: &Sampling) -> bool;

    /// Compares a state that was loaded, and [`is_of`](Self::is_of) its sampler, with the buffer, so that no draw from it can
    /// fail later: lengths, places and frame numbers in it, and sums. The error says what is wrong.
    fn check(&self, _: &View<'_>) -> Result<(), String> {
        Ok(())
    }

    /// How the picks of the last draw lie in a sample.
    fn layout(&self) -> Layout<'_> {
        Layout::default()
    }

    /// The oldest frame that the buffer is to keep. Default: the oldest that is there.
    fn used_up_below(&self, view: &View<'_>) -> u64 {
        view.window().tail
    }

    /// Whether an epoch ended with the last draw.
    fn ran_out(&self) -> bool {
        false
    }

    /// How many picks are left of the epoch, or of all uses; none for samplers without an end.
    fn remaining(&self) -> Option<u64> {
        None
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
