//! Checks of what a network is built from and called with, so that no mistake reaches wgpu.

use crate::{
    error::Error,
    policy::plan::{Exploration, Forward, Head, Outcome, Place, Plan, States},
};

/// Whether places, widths and sizes of a plan fit together.
pub(super) fn plan(plan: &Plan) -> Result<(), Error> {
    let error = |field: String, value: String, legal: &str| Error::Network { field, value, legal: legal.into() };
    for layer in &plan.layers {
        if !plan.fits(layer) {
            let value = format!("{} to {}, from {:?} to {:?}", layer.inputs, layer.outputs, layer.from, layer.to);
            return Err(error(layer.name.clone(), value, "two different places of these widths, at least 1"));
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
    match &input.memory {
        Some(memory) if memory.places.len() != rows || memory.fresh.len() != rows => {
            let problem =
                format!("memory has {} places and {} flags; legal: {rows}", memory.places.len(), memory.fresh.len());
            return Err(Error::State { call: "forward", problem });
        }
        None if plan.state() > 0 => {
            let problem = "no memory; legal: the states of a recurrent network".into();
            return Err(Error::State { call: "forward", problem });
        }
        _ => {}
    }
    let legal = match (&plan.head, input.exploration) {
        (_, Exploration::Sample | Exploration::Mode) | (Head::Gaussian { .. }, Exploration::Mean) => return Ok(()),
        (Head::Categorical { .. }, _) => "sample, mode",
        (Head::Gaussian { .. }, _) => "sample, mode, mean",
    };
    Err(Error::config("exploration", format!("{:?}", input.exploration), legal))
}

/// Whether states have the width of the network's.
pub(super) fn states(plan: &Plan, states: &States) -> Result<(), Error> {
    if states.width() == plan.state() {
        return Ok(());
    }
    let problem = format!("the states are {} wide; legal: {}", states.width(), plan.state());
    Err(Error::State { call: "states", problem })
}
