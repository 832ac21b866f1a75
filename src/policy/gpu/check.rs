//! Checks of what a network is built from and called with, so that no mistake reaches wgpu.

use crate::{
    error::Error,
    policy::plan::{Exploration, Forward, Head, Outcome, Place, Plan},
};

/// Whether places, widths and sizes of a plan fit together.
pub(super) fn plan(plan: &Plan) -> Result<(), Error> {
    let error = |field: String, value: String, legal: &str| Error::Network { field, value, legal: legal.into() };
    for layer in &plan.layers {
        let (from, to) = (width(plan, layer.from), width(plan, layer.to));
        if from != Some(layer.inputs) || to != Some(layer.outputs) {
            let value = format!("{} to {}, from {from:?} to {to:?}", layer.inputs, layer.outputs);
            return Err(error(layer.name.clone(), value, "the widths of the places it reads and writes"));
        }
        if layer.from == layer.to || layer.to == Place::Input {
            return Err(error(layer.name.clone(), format!("writing {:?}", layer.to), "a place it does not read"));
        }
    }
    if plan.head.params() == 0 {
        return Err(error("head".into(), "0 wide".into(), "at least one action"));
    }
    let written = |place| plan.layers.iter().any(|layer| layer.to == place);
    if !written(Place::Params) || written(Place::Value) != plan.value {
        return Err(error("layers".into(), format!("{} layers", plan.layers.len()), "layers that write every output"));
    }
    Ok(())
}

fn width(plan: &Plan, place: Place) -> Option<usize> {
    match place {
        Place::Input => Some(plan.inputs),
        Place::Hidden(i) => plan.hidden.get(i).copied(),
        Place::Params => Some(plan.head.params()),
        Place::Value => plan.value.then_some(1),
    }
}

/// Whether the slices of a call have a row a row.
pub(super) fn call(plan: &Plan, input: &Forward<'_>, out: &Outcome<'_>) -> Result<(), Error> {
    let rows = input.keys.len();
    let slices = [
        ("inputs", input.inputs.len(), plan.inputs),
        ("episodes", input.episodes.len(), 1),
        ("steps", input.steps.len(), 1),
        ("params", out.params.len(), plan.head.params()),
        ("actions", out.actions.len(), plan.head.action_words()),
        ("log_probs", out.log_probs.len(), 1),
        ("values", out.values.len(), 1),
    ];
    for (name, have, width) in slices {
        if have != rows * width {
            let problem = format!("{name} has {have} elements; legal: {rows} rows of {width}");
            return Err(Error::State { call: "forward", problem });
        }
    }
    let legal = match (plan.head, input.exploration) {
        (_, Exploration::Sample | Exploration::Mode) | (Head::Gaussian { .. }, Exploration::Mean) => return Ok(()),
        (Head::Categorical { .. }, _) => "sample, mode",
        (Head::Gaussian { .. }, _) => "sample, mode, mean",
    };
    Err(Error::config("exploration", format!("{:?}", input.exploration), legal))
}
