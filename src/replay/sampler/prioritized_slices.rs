use serde::{Deserialize, Serialize};

use super::{Draw, Prioritized, priorities::Priorities};
use crate::error::Error;

/// Slices of `slice_len` frames that follow each other in one trajectory, by the priority of the frame they begin with;
/// one pick, with one weight, a slice.
///
/// Chances and weights are those of [`Prioritized`], among the frames that a whole slice can begin with: later ones of
/// their trajectories have none. A slice never goes over an end, a cut or the newest frame. Every frame of a slice may be
/// given a priority; that of one too near to an end counts once enough frames follow it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PrioritizedSlices {
    /// Frames of a slice. Default: 16.
    pub slice_len: u32,
    /// How priorities become chances.
    pub priorities: Prioritized,
}

impl Default for PrioritizedSlices {
    fn default() -> Self {
        Self { slice_len: 16, priorities: Prioritized::default() }
    }
}

impl PrioritizedSlices {
    pub(super) fn check(&self, errors: &mut Vec<Error>) {
        if self.slice_len == 0 {
            errors.push(Error::config("slice_len", 0, "1 or more"));
        }
        self.priorities.check(errors);
    }

    pub(super) fn open(&self, capacity: u64) -> Result<Box<dyn Draw>, Error> {
        Ok(Box::new(Priorities::new(self.priorities, self.slice_len, capacity)))
    }
}
