//! Checks of what a network is called with, on any backend.

use super::plan::{Exploration, Forward, Outcome, Plan};
use crate::error::Error;

/// Whether the slices of a call have a row a row, and actions can be chosen as is asked.
pub(super) fn check(plan: &Plan, input: &Forward<'_>, out: &Outcome<'_>) -> Result<(), Error> {
    let error = |problem: String| Err(Error::State { call: "forward", problem });
    let rows = input.keys.len();
    let head = &plan.head;
    let entropies = if out.entropies.is_empty() { 0 } else { rows };
    let lengths = [
        ("inputs", input.inputs.len(), rows * plan.inputs),
        ("episodes", input.episodes.len(), rows),
        ("steps", input.steps.len(), rows),
        ("params", out.params.len(), rows * head.params()),
        ("actions", out.actions.len(), rows * head.action_bytes()),
        ("log_probs", out.log_probs.len(), rows),
        ("entropies", out.entropies.len(), entropies),
        ("values", out.values.len(), rows),
    ];
    if let Some((name, have, want)) = lengths.iter().find(|(_, have, want)| have != want) {
        return error(format!("{name} has {have} elements for {rows} rows; legal: {want}"));
    }
    let (width, mask) = (input.masks.width(), head.mask());
    if width != 0 && mask != 0 && width != mask {
        return error(format!("a mask has {width} bytes; legal: 0 or {mask}"));
    }
    match &input.memory {
        Some(memory) if memory.places.len() != rows || memory.fresh.len() != rows => {
            let (places, flags) = (memory.places.len(), memory.fresh.len());
            return error(format!("memory has {places} places and {flags} flags; legal: {rows}"));
        }
        Some(memory) if plan.state() > 0 && memory.states.width() != plan.state() => {
            return error(format!("the states are {} wide; legal: {}", memory.states.width(), plan.state()));
        }
        None if plan.state() > 0 => {
            return error("no memory; legal: the states of a network that remembers".into());
        }
        _ => {}
    }
    if input.exploration == Exploration::Random {
        let legal = "Sample, Mode or Mean: random actions need no network, see policy::random_actions";
        return Err(Error::config("exploration", "Random", legal));
    }
    head.check(input.exploration)
}
