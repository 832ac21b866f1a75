//! Which policy acts for which rows.

use std::ops::Range;

use bevy_ecs::prelude::World;

use super::policy::{Policy, PolicyKind};
use crate::{
    components::{ColumnSpec, Source},
    data::Dtype,
    error::Error,
    task::Task,
};

/// What acts for the rows of a collector.
pub(crate) enum Policies<T: Task> {
    /// One policy for all.
    One(Policy<T>),
    /// Each for a range.
    Several(Vec<(Range<usize>, Policy<T>)>),
}

impl<T: Task> Policies<T> {
    /// What is wrong with the ranges for `rows` rows.
    pub(crate) fn problems(&self, rows: usize) -> Vec<Error> {
        let Self::Several(policies) = self else { return Vec::new() };
        let mut errors = range_problems(policies.iter().map(|(range, _)| range.clone()).collect(), rows);
        if policies.iter().any(|(_, policy)| matches!(policy.kind, PolicyKind::System)) {
            let reason = "a host's system acts for all rows; give it alone, by policy".into();
            errors.push(Error::Conflict { first: "policies", second: "system", reason });
        }
        let names: Vec<_> = policies.iter().filter_map(|(_, policy)| policy.name.clone()).collect();
        if let Some((_, twice)) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
            errors.push(Error::config("policies", format!("two named {twice}"), "names of their own"));
        }
        errors
    }

    /// Numbers of those that are networks.
    pub(crate) fn networks(&self) -> Vec<usize> {
        match self {
            Self::One(policy) => (0..usize::from(policy.is_network())).collect(),
            Self::Several(policies) => (0..policies.len()).filter(|i| policies[*i].1.is_network()).collect(),
        }
    }

    /// The rows of each policy, of `rows` rows in all.
    pub(crate) fn rows(&self, rows: usize) -> impl Iterator<Item = Range<usize>> {
        let ranges: Vec<_> = match self {
            Self::One(_) => std::iter::once(0..rows).collect(),
            Self::Several(policies) => policies.iter().map(|(range, _)| range.clone()).collect(),
        };
        ranges.into_iter()
    }

    /// The policies for the rows `share` of a worker, numbered as here; one without rows there has an empty range.
    pub(crate) fn share(&self, share: Range<usize>) -> Self {
        let within = |range: &Range<usize>| {
            let start = range.start.clamp(share.start, share.end);
            start - share.start..range.end.clamp(start, share.end) - share.start
        };
        match self {
            Self::One(policy) => Self::One(policy.clone()),
            Self::Several(policies) => {
                Self::Several(policies.iter().map(|(range, policy)| (within(range), policy.clone())).collect())
            }
        }
    }

    /// Whether `holds` for any of them.
    pub(crate) fn any(&self, holds: impl Fn(&Policy<T>) -> bool) -> bool {
        match self {
            Self::One(policy) => holds(policy),
            Self::Several(policies) => policies.iter().any(|(_, policy)| holds(policy)),
        }
    }

    /// The policies by number, with the slots that each acts for.
    pub(crate) fn by_number(self) -> Vec<(Range<u32>, Policy<T>)> {
        match self {
            Self::One(policy) => vec![(0..u32::MAX, policy)],
            Self::Several(policies) => {
                let slots = |range: Range<usize>| range.start as u32..range.end as u32;
                policies.into_iter().map(|(range, policy)| (slots(range), policy)).collect()
            }
        }
    }
}

/// Every row has to be in one range.
pub(crate) fn range_problems(mut ranges: Vec<Range<usize>>, rows: usize) -> Vec<Error> {
    let error = |value: String, legal: String| Error::config("policies", value, legal);
    let outside = |range: &&Range<usize>| range.is_empty() || range.end > rows;
    let wrong = ranges.iter().filter(outside);
    let mut errors: Vec<Error> =
        wrong.map(|range| error(format!("rows {range:?}"), format!("at least one row of 0..{rows}"))).collect();
    ranges.sort_by_key(|range| (range.start, range.end));
    for pair in ranges.windows(2).filter(|pair| pair[0].end > pair[1].start && !pair[1].is_empty()) {
        let shared = pair[1].start..pair[0].end.min(pair[1].end);
        let value = format!("rows {:?} and rows {:?}, which share rows {shared:?}", pair[0], pair[1]);
        errors.push(error(value, "ranges that share no row".into()));
    }
    let mut next = 0;
    ranges.retain(|range| !range.is_empty());
    for range in ranges.into_iter().chain(std::iter::once(rows..rows)) {
        if range.start > next && next < rows {
            let gap = next..range.start.min(rows);
            errors.push(error(format!("none for rows {gap:?}"), format!("a policy for each row of 0..{rows}")));
        }
        next = next.max(range.end);
    }
    errors
}

/// The column "policy": the number of the policy that acts for the row.
pub(crate) fn policy_column(ranges: Vec<Range<u32>>) -> (ColumnSpec, Box<dyn Source>) {
    let numbers = ranges.into_iter().zip(0_u32..).flat_map(|(range, policy)| range.map(move |slot| (slot, policy)));
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_unstable();
    let numbers = numbers.into_iter().map(|(_, policy)| policy).collect();
    (ColumnSpec::scalar("policy", Dtype::U32), Box::new(Numbers(numbers)))
}

/// Policies by slot.
struct Numbers(Vec<u32>);

impl Source for Numbers {
    fn record(&mut self, _: &World, _: bool, out: &mut [u8]) {
        out.copy_from_slice(bytemuck::cast_slice(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(ranges: &[Range<usize>]) -> Vec<String> {
        range_problems(ranges.to_vec(), 10).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_row_has_one_policy() {
        assert!(problems(&[4..10, 0..4]).is_empty());
        let legal = "legal: a policy for each row of 0..10";
        assert_eq!(problems(&[]), [format!("policies is none for rows 0..10; {legal}")]);
        assert_eq!(
            problems(&[1..4, 6..9]),
            [0..1, 4..6, 9..10].map(|gap| format!("policies is none for rows {gap:?}; {legal}"))
        );
        let shared = "policies is rows 0..6 and rows 4..10, which share rows 4..6; legal: ranges that share no row";
        assert_eq!(problems(&[0..6, 4..10]), [shared]);
        assert_eq!(problems(&[0..4, 4..11]), ["policies is rows 4..11; legal: at least one row of 0..10"]);
        assert_eq!(problems(&[0..10, 3..3]), ["policies is rows 3..3; legal: at least one row of 0..10"]);
    }
}
