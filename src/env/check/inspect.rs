//! Looks at single frames.

use bytemuck::bytes_of;

use super::{
    Place,
    report::{FindingKind, Findings},
    run::Frame,
};
use crate::{
    data::{Data, finite, width},
    env::Env,
    space::Space,
};

struct Element {
    name: String,
    low: f32,
    high: f32,
}

/// Names and bounds of the elements of an observation.
pub(super) struct Elements(Vec<Element>);

impl Elements {
    /// Without a space there are no bounds.
    pub(super) fn new<E: Env>(space: Option<&Space>) -> Self {
        let mut limits = Vec::new();
        match space {
            Some(space) => push_bounds(space, &mut limits),
            None => limits.resize(width::<E::Observation>(), (f32::NEG_INFINITY, f32::INFINITY)),
        }
        let names = E::Observation::fields().into_iter().flat_map(|field| {
            (0..field.len()).map(move |i| match &*field.name {
                "" => format!("observation element {i}"),
                name => format!("observation field {name:?} element {i}"),
            })
        });
        Self(names.zip(limits).map(|(name, (low, high))| Element { name, low, high }).collect())
    }

    fn values<O: Data>(&self, observation: &O) -> Vec<f32> {
        let mut values = vec![0.0; self.0.len()];
        observation.encode(&mut values);
        values
    }

    /// Checks the observation, the reward and the flags of a frame.
    pub(super) fn check<E: Env>(&self, frame: &Frame<E>, place: Place, findings: &mut Findings) {
        let place = Some(place);
        for (Element { name, low, high }, x) in self.0.iter().zip(self.values(&frame.observation)) {
            let problem = format!("is {x}");
            if !finite(x) {
                findings.add(FindingKind::NotFinite, place, name, problem, "finite numbers");
            } else if x < *low || x > *high {
                findings.add(FindingKind::OutsideSpace, place, name, problem, format!("{low} to {high}"));
            }
        }
        if !finite(frame.reward) {
            let problem = format!("is {}", frame.reward);
            findings.add(FindingKind::NotFinite, place, "reward", problem, "finite numbers");
        }
        if frame.terminated && frame.truncated {
            let legal = "one of them: what follows a terminated frame has no value, what follows a truncated one has";
            findings.add(FindingKind::BothEnds, place, "end", "is both terminated and truncated", legal);
        }
    }
}

/// Lower and upper bound of each element of a space.
fn push_bounds(space: &Space, out: &mut Vec<(f32, f32)>) {
    let last = |n: &u32| (0.0, (n - 1) as f32);
    match space {
        Space::Discrete { n } => out.push(last(n)),
        Space::MultiDiscrete { n } => out.extend(n.iter().map(last)),
        Space::MultiBinary { n } => out.extend(std::iter::repeat_n((0.0, 1.0), *n)),
        Space::Box { low, high } => out.extend(low.iter().copied().zip(high.iter().copied())),
        Space::Fields(fields) => fields.iter().for_each(|(_, space)| push_bounds(space, out)),
    }
}

/// What differs between two frames, with both values. Compared are bits: the contract is the same data.
pub(super) fn compare<E: Env>(elements: &Elements, a: &Frame<E>, b: &Frame<E>) -> Vec<(String, [String; 2])> {
    let mut differences = Vec::new();
    let mut add = |name: &str, a: &dyn ToString, b: &dyn ToString| {
        differences.push((name.to_owned(), [a.to_string(), b.to_string()]));
    };
    if bytes_of(&a.observation) != bytes_of(&b.observation) {
        let values = elements.values(&a.observation).into_iter().zip(elements.values(&b.observation));
        for (element, (a, b)) in elements.0.iter().zip(values) {
            if a.to_bits() != b.to_bits() {
                add(&element.name, &a, &b);
            }
        }
    }
    if a.reward.to_bits() != b.reward.to_bits() {
        add("reward", &a.reward, &b.reward);
    }
    if a.terminated != b.terminated {
        add("terminated", &a.terminated, &b.terminated);
    }
    if a.truncated != b.truncated {
        add("truncated", &a.truncated, &b.truncated);
    }
    for (i, (a, b)) in bytes_of(&a.masks[0]).iter().zip(bytes_of(&b.masks[0])).enumerate() {
        if (*a != 0) != (*b != 0) {
            add(&format!("mask entry {i}"), a, b);
        }
    }
    differences
}

/// Checks three masks of one state: two written over zeros, one over ones. Tells whether some action is legal.
pub(super) fn check_masks<M: Data>(action: &Space, masks: &[M; 3], place: Place, findings: &mut Findings) -> bool {
    let place = Some(place);
    let [mask, again, over_ones] = masks.each_ref().map(bytes_of);
    for (i, ((first, second), over_one)) in mask.iter().zip(again).zip(over_ones).enumerate() {
        let subject = format!("mask entry {i}");
        if first != second {
            let problem = format!("is {first}, and {second} when action_mask is called again without a step between");
            findings.add(FindingKind::UnstableMask, place, subject, problem, "the same mask for the same state");
        } else if first != over_one {
            let problem = "is not written by action_mask";
            findings.add(FindingKind::UnwrittenMask, place, subject, problem, "every entry written, 0 or 1");
        }
    }
    let mut parts = Vec::new();
    push_mask_parts(action, &mut parts);
    let (mut rest, mut legal) = (over_ones, true);
    for (i, n) in parts.iter().enumerate().take_while(|_| !over_ones.is_empty()) {
        let (part, behind) = rest.split_at(*n as usize);
        rest = behind;
        if part.iter().all(|entry| *entry == 0) {
            legal = false;
            let subject = if parts.len() == 1 { "mask".into() } else { format!("mask of discrete part {i}") };
            let problem = format!("forbids all of 0 to {}", n - 1);
            findings.add(FindingKind::EmptyMask, place, subject, problem, "at least one entry that is not 0");
        }
    }
    legal
}

/// Number of values of each discrete part of an action.
fn push_mask_parts(space: &Space, out: &mut Vec<u32>) {
    match space {
        Space::Discrete { n } => out.push(*n),
        Space::MultiDiscrete { n } => out.extend(n),
        Space::MultiBinary { .. } | Space::Box { .. } => {}
        Space::Fields(fields) => fields.iter().for_each(|(_, space)| push_mask_parts(space, out)),
    }
}
