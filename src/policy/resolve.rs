//! From a network's description to a plan: checks, and the head.

use super::{
    chain::Chain,
    head,
    layer::Layer,
    network::{HeadSpec, MAX_INPUTS, MAX_LAYERS, MAX_PARAMETERS, MAX_WIDTH, NetworkSpec},
    plan::{Head, Place, Plan},
};
use crate::{
    data::{Dtype, Field},
    error::Error,
    space::Space,
};

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
    let head = resolve_head(spec.head, actions.0, actions.1)?;
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
    match (spec, &auto) {
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
        return Err(error("action space", actions, format!("1 to {most} {}", head::unit_name(&auto))));
    }
    Ok(auto)
}
