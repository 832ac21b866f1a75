use std::fmt;

use bevy_ecs::prelude::Component;
use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};

/// Why an episode was cut although its task did not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[non_exhaustive]
pub enum Truncation {
    /// The environment said so.
    Env = 1,
    /// `max_frames_per_traj` or the task's time limit.
    StepLimit = 2,
    /// The last frame of a batch under `set_truncated`: a marker in that batch only, the episode goes on.
    BatchEdge = 3,
    /// `reset`, `set_seed` or `reset_at_each_iter`.
    ForcedReset = 4,
    /// The environment failed or gave a number that is not finite.
    Fault = 5,
    /// A deadline ran out.
    Timeout = 6,
    /// The host removed the row.
    RowRemoved = 8,
    /// A checkpoint could not hold the environment's state.
    Checkpoint = 9,
}

impl Truncation {
    fn from_code(code: u8) -> Option<Self> {
        use Truncation::*;
        [Env, StepLimit, BatchEdge, ForcedReset, Fault, Timeout, RowRemoved, Checkpoint]
            .into_iter()
            .find(|reason| *reason as u8 == code)
    }
}

/// How a frame ended its episode: a column. Flags are OR-ed, never cleared: `terminated` and a truncation may both stand.
#[derive(Component, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable, Serialize, Deserialize)]
#[repr(transparent)]
pub struct End(u8);

impl End {
    /// The episode goes on.
    pub const RUNNING: Self = Self(0);
    /// The task ended.
    pub const TERMINATED: Self = Self(0x80);

    /// A frame whose numbers are not finite; Record turns it into a slot without a frame.
    pub(crate) const QUARANTINED: Self = Self(0x7f);

    /// A frame that did not come before its deadline; Record turns it into a slot without a frame.
    pub(crate) const TIMED_OUT: Self = Self(0x7d);

    /// No frame in this tick: the row is pending. Record leaves its slot empty.
    pub(crate) const IDLE: Self = Self(0x7e);

    /// Whether the tick gave a frame: neither idle nor lost.
    #[inline(always)]
    pub(crate) const fn is_frame(self) -> bool {
        self.0 < Self::TIMED_OUT.0 || self.0 >= Self::TERMINATED.0
    }

    /// Why the frame is lost: how the episode ended at the frame before; none if it is not.
    #[inline(always)]
    pub(crate) const fn lost(self) -> Option<Truncation> {
        match self {
            Self::QUARANTINED => Some(Truncation::Fault),
            Self::TIMED_OUT => Some(Truncation::Timeout),
            _ => None,
        }
    }

    /// The task did not end but the episode was cut.
    pub const fn truncated_by(reason: Truncation) -> Self {
        Self(reason as u8)
    }

    /// What a code of the column says; none if it says nothing.
    #[cfg(feature = "arrow")]
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        let end = Self(code);
        (code & 0x7f == 0 || end.truncation().is_some()).then_some(end)
    }

    /// From the two flags of an environment.
    #[inline(always)]
    pub const fn from_env(terminated: bool, truncated: bool) -> Self {
        Self(((terminated as u8) << 7) | (truncated as u8 * Truncation::Env as u8))
    }

    /// Adds a truncation; a reason that stands already is kept.
    #[inline(always)]
    #[must_use]
    pub const fn or_truncated(self, reason: Truncation) -> Self {
        if self.0 & 0x7f == 0 { Self(self.0 | reason as u8) } else { self }
    }

    /// Whether the task ended.
    #[inline(always)]
    pub const fn terminated(self) -> bool {
        self.0 & 0x80 != 0
    }

    /// Whether the episode was cut.
    #[inline(always)]
    pub const fn truncated(self) -> bool {
        self.0 & 0x7f != 0
    }

    /// Terminated or truncated.
    #[inline(always)]
    pub const fn done(self) -> bool {
        self.0 != 0
    }

    /// Whether the episode is over: done, but not merely marked at a batch edge.
    #[inline(always)]
    pub const fn ends_episode(self) -> bool {
        self.0 != 0 && self.0 != Truncation::BatchEdge as u8
    }

    /// Calls `f` with the place of each frame of `ends` that is done, in order. Sixty-four are looked at together: most are
    /// not done, and a processor cannot foresee which are, so that each look may cost it a wrong guess.
    #[inline(always)]
    pub(crate) fn each_done(ends: &[Self], mut f: impl FnMut(usize)) {
        let (blocks, rest) = bytemuck::cast_slice::<_, u8>(ends).as_chunks::<64>();
        for (block, bytes) in blocks.iter().enumerate() {
            let (eights, _) = bytes.as_chunks::<8>();
            let masks = eights.iter().map(|eight| nonzero_bytes(u64::from_le_bytes(*eight)));
            let mut mask = masks.rev().fold(0, |mask, eight| mask << 8 | eight);
            while mask != 0 {
                f(block * 64 + mask.trailing_zeros() as usize);
                mask &= mask - 1;
            }
        }
        for (i, end) in rest.iter().enumerate() {
            if *end != 0 {
                f(blocks.len() * 64 + i);
            }
        }
    }

    /// The reason of the truncation.
    pub fn truncation(self) -> Option<Truncation> {
        Truncation::from_code(self.0 & 0x7f)
    }
}

/// A bit for each byte of `word` that is not 0, the lowest byte's first.
#[inline(always)]
const fn nonzero_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let tops = (((word & LOW) + LOW) | word) & !LOW;
    // Brings the top bits of all bytes into the top byte.
    tops.wrapping_mul(0x0002_0408_1020_4081) >> 56
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.terminated(), self.truncation()) {
            (false, None) => f.write_str("running"),
            (true, None) => f.write_str("terminated"),
            (false, Some(reason)) => write!(f, "truncated({reason:?})"),
            (true, Some(reason)) => write!(f, "terminated, truncated({reason:?})"),
        }
    }
}

/// What the engine knows of a slot of a batch: a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Flags(u8);

impl Flags {
    /// A slot that holds no frame.
    pub const INVALID: Self = Self(0);
    /// A frame whose action the policy chose.
    pub const VALID: Self = Self(1);
    /// A frame of the random warm-up.
    pub const RANDOM: Self = Self(3);

    /// Whether the slot holds a frame. What it holds otherwise, [`Batch`](crate::rollout::Batch) says.
    #[inline(always)]
    pub const fn valid(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether the action came from the random warm-up (`init_random_frames`).
    #[inline(always)]
    pub const fn random(self) -> bool {
        self.0 & 2 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a2_a_flag_is_added_never_cleared() {
        let own = End::from_env(false, true).or_truncated(Truncation::StepLimit);
        assert!(own.truncated() && !own.terminated() && own.done());
        assert_eq!(own.truncation(), Some(Truncation::Env));
        let both = End::TERMINATED.or_truncated(Truncation::StepLimit);
        assert!(both.terminated() && both.truncated());
        assert!(both.ends_episode());
    }

    #[test]
    fn each_done_finds_them_all_in_order() {
        for n in 0..200 {
            let ends: Vec<End> = (0..n).map(|i| End(if i % 3 == 0 { 0x80 >> (i % 8) } else { 0 })).collect();
            let mut found = Vec::new();
            End::each_done(&ends, |i| found.push(i));
            assert_eq!(found, (0..n).filter(|i| i % 3 == 0).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_batch_edge_marks_but_does_not_end() {
        let edge = End::RUNNING.or_truncated(Truncation::BatchEdge);
        assert!(edge.done() && edge.truncated() && !edge.ends_episode());
        assert!(End::TERMINATED.or_truncated(Truncation::BatchEdge).ends_episode());
        assert_eq!(format!("{edge:?}"), "truncated(BatchEdge)");
    }
}
