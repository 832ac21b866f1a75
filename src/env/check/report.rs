//! What a check found.

use std::{collections::HashMap, error::Error, fmt};

/// What is wrong with an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// A space does not describe its type, or the mask type does not fit the action space.
    Space,
    /// `TIME_LIMIT` leaves no frame.
    TimeLimit,
    /// User code panicked.
    Panic,
    /// An observation or a reward is NaN or infinite.
    NotFinite,
    /// An element of an observation is outside the observation space.
    OutsideSpace,
    /// A frame is terminated and truncated by the environment.
    BothEnds,
    /// A mask forbids every value of a discrete action.
    EmptyMask,
    /// `action_mask` does not write an entry.
    UnwrittenMask,
    /// `action_mask` gives another mask when it is called again without a step between.
    UnstableMask,
    /// Two new instances differ under the same stream and actions.
    NotDeterministic,
    /// An instance that has run episodes before differs from a new one under the same stream and actions.
    StateLeak,
    /// An instance that was saved and loaded on the way, by [`Env::STATE`](crate::env::Env::STATE), differs from one that
    /// was not, or could not be loaded.
    SavedState,
}

/// Where in the check something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Row of the random stream.
    pub row: u32,
    /// Episode of that row, from 0.
    pub episode: u32,
    /// Step within the episode, from 0; none for the reset.
    pub step: Option<u32>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}, episode {}, ", self.row, self.episode)?;
        match self.step {
            Some(step) => write!(f, "step {step}"),
            None => f.write_str("reset"),
        }
    }
}

/// One thing that is wrong, where it showed first and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing.
    pub kind: FindingKind,
    /// What it concerns, for example `observation element 3` or `step`.
    pub subject: String,
    /// What is wrong with it, with its value.
    pub problem: String,
    /// What is legal instead.
    pub legal: String,
    /// Where it showed first; none for what is wrong before the first reset.
    pub place: Option<Place>,
    /// How often it showed.
    pub times: u32,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.subject, self.problem)?;
        if let Some(place) = self.place {
            write!(f, " ({place}")?;
            if self.times > 1 {
                write!(f, "; {} times in all", self.times)?;
            }
            f.write_str(")")?;
        }
        write!(f, "; legal: {}", self.legal)
    }
}

/// All that [`check_env`](super::check_env) found. Shown, also by `unwrap`, as a list.
#[derive(Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// The environment's type.
    pub env: &'static str,
    /// The findings, in the order in which they showed first; one for each kind and subject.
    pub findings: Vec<Finding>,
}

/// Lines shown of each kind: an image may be wrong in each of its pixels.
const SHOWN: usize = 8;

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.findings.len();
        write!(f, "{n} finding{} in {}:", if n == 1 { "" } else { "s" }, self.env)?;
        let mut counts = HashMap::<FindingKind, usize>::new();
        for finding in &self.findings {
            let count = counts.entry(finding.kind).or_default();
            *count += 1;
            if *count <= SHOWN {
                write!(f, "\n  - {finding}")?;
            }
        }
        let mut hidden: Vec<_> = counts.into_iter().filter(|(_, count)| *count > SHOWN).collect();
        hidden.sort_by_key(|(kind, _)| self.findings.iter().position(|finding| finding.kind == *kind));
        for (kind, count) in hidden {
            write!(f, "\n  - {} more of kind {kind:?}", count - SHOWN)?;
        }
        Ok(())
    }
}

impl fmt::Debug for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for CheckReport {}

/// Collects findings, one for each kind and subject.
#[derive(Default)]
pub(super) struct Findings {
    list: Vec<Finding>,
    index: HashMap<(FindingKind, String), usize>,
}

impl Findings {
    pub(super) fn add(
        &mut self,
        kind: FindingKind,
        place: Option<Place>,
        subject: impl Into<String>,
        problem: impl Into<String>,
        legal: impl Into<String>,
    ) {
        let subject = subject.into();
        let next = self.list.len();
        let i = *self.index.entry((kind, subject.clone())).or_insert(next);
        if i < next {
            self.list[i].times += 1;
        } else {
            self.list.push(Finding { kind, subject, problem: problem.into(), legal: legal.into(), place, times: 1 });
        }
    }

    pub(super) fn into_result(self, env: &'static str) -> Result<(), CheckReport> {
        if self.list.is_empty() { Ok(()) } else { Err(CheckReport { env, findings: self.list }) }
    }
}
