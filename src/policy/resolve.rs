//! From a network's description to a plan: checks, tensor names, fusing of activations.

use super::{
    head,
    layer::Layer,
    network::{HeadSpec, MAX_LAYERS, MAX_PARAMETERS, MAX_WIDTH, NetworkSpec},
    plan::{Activation, Head, Linear, Place, Plan},
};
use crate::{
    data::{Dtype, Field},
    error::Error,
    space::Space,
};

fn error(field: impl Into<String>, value: impl ToString, legal: impl Into<String>) -> Error {
    Error::Network { field: field.into(), value: value.to_string(), legal: legal.into() }
}

impl NetworkSpec {
    /// Checks what needs no task. Errors: [`Error::Network`] with the field.
    pub fn check(&self) -> Result<(), Error> {
        check_layers("trunk", &self.trunk)?;
        check_layers("actor", &self.actor)?;
        check_layers("critic", self.critic.as_deref().unwrap_or_default())?;
        if let HeadSpec::Gaussian { log_std } = self.head
            && !(-20.0..=20.0).contains(&log_std)
        {
            return Err(error("head.log_std", log_std, "-20 to 20"));
        }
        match self.normalize {
            // Written so that NaN fails.
            Some(normalize) if !(normalize.clip > 0.0 && normalize.clip.is_finite()) => {
                Err(error("normalize.clip", normalize.clip, "a finite number above 0"))
            }
            _ => Ok(()),
        }
    }
}

fn check_layers(list: &str, layers: &[Layer]) -> Result<(), Error> {
    if layers.len() > MAX_LAYERS {
        return Err(error(list, format!("{} entries", layers.len()), format!("at most {MAX_LAYERS} entries")));
    }
    for (i, layer) in layers.iter().enumerate() {
        let field = || format!("{list}[{i}]");
        match layer.activation() {
            None => {
                let Layer::Linear(width) = *layer else { continue };
                if !(1..=MAX_WIDTH).contains(&width) {
                    return Err(error(
                        field(),
                        format!("Linear({width})"),
                        format!("Linear(1) to Linear({MAX_WIDTH})"),
                    ));
                }
            }
            Some(_) => match i.checked_sub(1).map(|before| layers[before]) {
                Some(Layer::Linear(_)) => {}
                Some(before) => {
                    let value = format!("{layer:?} after {before:?}");
                    return Err(error(field(), value, "Linear(…) after an activation, or nothing"));
                }
                None => return Err(error(field(), format!("{layer:?}"), "Linear(…) at the start of a list")),
            },
        }
    }
    Ok(())
}

/// See [`NetworkSpec::plan_for`].
pub(super) fn plan(spec: &NetworkSpec, inputs: usize, actions: &Space, fields: &[Field]) -> Result<Plan, Error> {
    spec.check()?;
    if !(1..=MAX_WIDTH).contains(&inputs) {
        return Err(error("observation", format!("{inputs} elements"), format!("1 to {MAX_WIDTH} elements")));
    }
    let head = resolve_head(spec.head, actions, fields)?;
    let mut plan = Plan { inputs, hidden: Vec::new(), layers: Vec::new(), head, value: spec.critic.is_some() };
    let trunk = chain(&mut plan, "trunk", &spec.trunk, (Place::Input, inputs));
    let actor = chain(&mut plan, "actor", &spec.actor, trunk);
    last(&mut plan, "action", head.params(), actor, Place::Params);
    if let Some(layers) = &spec.critic {
        let critic = chain(&mut plan, "critic", layers, trunk);
        last(&mut plan, "value", 1, critic, Place::Value);
    }
    // Widths are at most 2¹⁶ and lists short, so the sum cannot overflow 64 bits.
    let parameters: u64 = plan.layers.iter().map(|l| (l.inputs as u64 + 1) * l.outputs as u64).sum();
    if parameters > MAX_PARAMETERS as u64 {
        return Err(error("the network", format!("{parameters} parameters"), format!("at most {MAX_PARAMETERS}")));
    }
    Ok(plan)
}

fn resolve_head(spec: HeadSpec, actions: &Space, fields: &[Field]) -> Result<Head, Error> {
    let auto = match actions {
        Space::Discrete { n } => Head::Categorical { n: *n as usize },
        Space::Box { low, .. } if fields.first().is_some_and(|field| field.dtype == Dtype::F32) => {
            Head::Gaussian { n: low.len() }
        }
        _ => {
            let legal = "discrete(n), or a box of f32; a function policy may use any space";
            return Err(error("action space", actions, legal));
        }
    };
    match (spec, auto) {
        (HeadSpec::Categorical, Head::Gaussian { .. }) => {
            return Err(error("head", "Categorical", format!("Auto or Gaussian(log_std: …) for {actions}")));
        }
        (HeadSpec::Gaussian { .. }, Head::Categorical { .. }) => {
            return Err(error("head", "Gaussian", format!("Auto or Categorical for {actions}")));
        }
        _ => {}
    }
    let most = match auto {
        Head::Categorical { .. } => MAX_WIDTH,
        Head::Gaussian { .. } => head::MAX_GAUSSIAN,
    };
    if !(1..=most).contains(&auto.params()) {
        return Err(error("action space", actions, format!("1 to {most} {}", head::unit_name(auto))));
    }
    Ok(auto)
}

/// Appends the layers of one list and returns where its result is, and how wide.
fn chain(plan: &mut Plan, list: &str, layers: &[Layer], start: (Place, usize)) -> (Place, usize) {
    let (mut from, mut inputs) = start;
    for (i, layer) in layers.iter().enumerate() {
        match *layer {
            Layer::Linear(outputs) => {
                let to = Place::Hidden(plan.hidden.len());
                let name = format!("{list}.{i}");
                plan.hidden.push(outputs);
                plan.layers.push(Linear { name, inputs, outputs, activation: Activation::Identity, from, to });
                (from, inputs) = (to, outputs);
            }
            // `check_layers` made sure that the entry before is a linear layer.
            activation => {
                if let (Some(linear), Some(activation)) = (plan.layers.last_mut(), activation.activation()) {
                    linear.activation = activation;
                }
            }
        }
    }
    (from, inputs)
}

fn last(plan: &mut Plan, name: &str, outputs: usize, (from, inputs): (Place, usize), to: Place) {
    plan.layers.push(Linear { name: name.into(), inputs, outputs, activation: Activation::Identity, from, to });
}
