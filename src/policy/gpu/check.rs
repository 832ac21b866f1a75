//! Checks of states, so that no mistake reaches wgpu.

use crate::{
    error::Error,
    policy::plan::{Plan, States},
};

/// Whether states have the width of the network's.
pub(super) fn states(plan: &Plan, states: &States) -> Result<(), Error> {
    if states.width() == plan.state() {
        return Ok(());
    }
    let problem = format!("the states are {} wide; legal: {}", states.width(), plan.state());
    Err(Error::State { call: "states", problem })
}
