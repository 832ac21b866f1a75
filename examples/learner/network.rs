//! The learner's copy of the collector's network: the same tensors under the same names, with gradients.

use std::collections::BTreeMap;

use candle_core::{Device, Tensor, Var};
use gleaner::{
    policy::{
        Layer,
        plan::{Head, LogStd},
    },
    prelude::*,
};

use super::{Result, head::Distribution, ops};

/// An actor and a critic as a [`NetworkSpec`] describes them.
pub struct ActorCritic {
    spec: NetworkSpec,
    head: Head,
    vars: BTreeMap<String, Var>,
}

impl ActorCritic {
    /// A network for task `T` that starts from `weights`.
    pub fn new<T: Task>(spec: NetworkSpec, weights: &Weights) -> Result<Self> {
        let head = spec.plan::<T>()?.head;
        let mut vars = BTreeMap::new();
        for (name, tensor) in &weights.0 {
            let value = Tensor::from_slice(&tensor.data, tensor.shape.as_slice(), &Device::Cpu)?;
            vars.insert(name.clone(), Var::from_tensor(&value)?);
        }
        Ok(Self { spec, head, vars })
    }

    /// Everything that is trained, in the order of the names.
    pub fn vars(&self) -> Vec<Var> {
        self.vars.values().cloned().collect()
    }

    /// The weights as they are published and saved.
    pub fn weights(&self) -> Result<Weights> {
        let mut weights = Weights::new();
        for (name, var) in &self.vars {
            weights.insert(name, var.dims(), var.flatten_all()?.to_vec1::<f32>()?);
        }
        Ok(weights)
    }

    /// Distributions and values for `[frames, width]` observations.
    pub fn forward(&self, observations: &Tensor) -> candle_core::Result<(Distribution, Tensor)> {
        let trunk = self.layers("trunk", &self.spec.trunk, observations)?;
        let params = self.linear("action", &self.layers("actor", &self.spec.actor, &trunk)?)?;
        let distribution = match &self.head {
            Head::Categorical { .. } => Distribution::categorical(&params)?,
            Head::Gaussian { log_std: LogStd::Free(_), .. } => {
                Distribution::Gaussian { mean: params, log_std: self.var("log_std")?.clone() }
            }
            _ => candle_core::bail!("the learner has no head {}", self.head.name()),
        };
        let critic = self.spec.critic.as_deref().unwrap_or_default();
        let values = self.linear("value", &self.layers("critic", critic, &trunk)?)?.squeeze(1)?;
        Ok((distribution, values))
    }

    fn layers(&self, prefix: &str, layers: &[Layer], inputs: &Tensor) -> candle_core::Result<Tensor> {
        let mut x = inputs.clone();
        for (i, layer) in layers.iter().enumerate() {
            x = match layer {
                Layer::Linear(_) => self.linear(&format!("{prefix}.{i}"), &x)?,
                Layer::Tanh => ops::tanh(&x)?,
                Layer::Relu => x.relu()?,
                other => candle_core::bail!("the learner has no {other:?}"),
            };
        }
        Ok(x)
    }

    fn linear(&self, name: &str, x: &Tensor) -> candle_core::Result<Tensor> {
        ops::linear(x, self.var(&format!("{name}.weight"))?, self.var(&format!("{name}.bias"))?)
    }

    fn var(&self, name: &str) -> candle_core::Result<&Tensor> {
        let missing = || candle_core::Error::Msg(format!("the weights have no tensor {name}"));
        Ok(self.vars.get(name).ok_or_else(missing)?.as_tensor())
    }
}
