//! Checks of what a network is built from, so that no mistake reaches wgpu.

use crate::{
    error::Error,
    policy::plan::{Place, Plan, States},
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

/// Whether states have the width of the network's.
pub(super) fn states(plan: &Plan, states: &States) -> Result<(), Error> {
    if states.width() == plan.state() {
        return Ok(());
    }
    let problem = format!("the states are {} wide; legal: {}", states.width(), plan.state());
    Err(Error::State { call: "states", problem })
}
