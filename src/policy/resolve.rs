//! From a network's description to a plan: checks, and the head.

use super::{
    chain::Chain,
    head::fields,
    layer::Layer,
    network::{MAX_INPUTS, MAX_LAYERS, MAX_PARAMETERS, MAX_WIDTH, NetworkSpec},
    plan::{Place, Plan},
};
use crate::{data::Field, error::Error, space::Space};

pub(super) fn error(field: impl Into<String>, value: impl ToString, legal: impl Into<String>) -> Error {
    Error::Network { field: field.into(), value: value.to_string(), legal: legal.into() }
}

impl NetworkSpec {
    /// Checks what needs no task. Errors: [`Error::Network`] with the field.
    pub fn check(&self) -> Result<(), Error> {
        for (name, layers) in &self.fields {
            check_layers(&format!("fields.{name}"), layers)?;
        }
        check_layers("trunk", &self.trunk)?;
        check_layers("actor", &self.actor)?;
        check_layers("critic", self.critic.as_deref().unwrap_or_default())?;
        self.head.check()?;
        for (name, head) in &self.heads {
            head.check().map_err(|problem| fields::of_field(name, problem))?;
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
        let width = match *layer {
            Layer::Linear(width) | Layer::Gru(width) | Layer::Lstm(width) | Layer::Embedding(width) => width,
            Layer::Conv2d { filters, .. } => filters,
            _ => 1,
        };
        if !(1..=MAX_WIDTH).contains(&width) {
            return Err(error(field(), format!("{layer:?}"), format!("a width of 1 to {MAX_WIDTH}")));
        }
        let follows = matches!(
            i.checked_sub(1).map(|before| layers[before]),
            Some(Layer::Linear(_) | Layer::LayerNorm | Layer::Conv2d { .. })
        );
        if layer.activation().is_some() && !follows {
            let value = match i.checked_sub(1) {
                Some(before) => format!("{layer:?} after {:?}", layers[before]),
                None => format!("{layer:?} at the start of the list"),
            };
            return Err(error(field(), value, "an activation after Linear(…), LayerNorm or Conv2d(…)"));
        }
    }
    Ok(())
}

/// See [`NetworkSpec::plan_for`].
pub(super) fn plan(
    spec: &NetworkSpec,
    observations: (&Space, &[Field]),
    actions: (&Space, &[Field]),
) -> Result<Plan, Error> {
    spec.check()?;
    let inputs = observations.1.iter().map(Field::len).fold(0, usize::saturating_add);
    if !(1..=MAX_INPUTS).contains(&inputs) {
        return Err(error("observation", format!("{inputs} elements"), format!("1 to {MAX_INPUTS} elements")));
    }
    let head = fields::resolve(spec.head, &spec.heads, actions)?;
    let plan = Plan { inputs, hidden: Vec::new(), layers: Vec::new(), head, value: spec.critic.is_some() };
    let mut chain = Chain { plan, reads_raw: None };
    let input = chain.observation(&spec.fields, observations)?;
    let trunk = chain.list("trunk", &spec.trunk, input)?;
    let actor = chain.list("actor", &spec.actor, trunk)?;
    chain.last("action", actor, Place::Params)?;
    if let Some(layers) = &spec.critic {
        let critic = chain.list("critic", layers, trunk)?;
        chain.last("value", critic, Place::Value)?;
    }
    let Chain { plan, reads_raw } = chain;
    if let (Some(layer), Some(_)) = (reads_raw, spec.normalize) {
        return Err(error("normalize", layer, "none for a network that reads bytes or indices of observations"));
    }
    let product = |shape: Vec<usize>| shape.iter().fold(1_u64, |product, side| product.saturating_mul(*side as u64));
    let parameters = plan.tensors().into_iter().map(|tensor| product(tensor.shape)).fold(0, u64::saturating_add);
    if parameters > MAX_PARAMETERS as u64 {
        return Err(error("the network", format!("{parameters} parameters"), format!("at most {MAX_PARAMETERS}")));
    }
    Ok(plan)
}
