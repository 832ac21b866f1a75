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

use super::{
    Result,
    convolution::{Image, conv2d},
    frames::{Frames, Memory},
    head::Distribution,
    ops,
    recurrent::Gru,
};

/// What goes from layer to layer: a row a frame, and how it is an image for layers that take one.
#[derive(Clone)]
struct Signal {
    x: Tensor,
    image: Image,
}

/// An actor and a critic as a [`NetworkSpec`] describes them.
pub struct ActorCritic {
    spec: NetworkSpec,
    head: Head,
    /// How an observation is an image, for networks that take it for one.
    image: Image,
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
        Ok(Self { spec, head, image: Image::observed::<T>(), vars })
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

    /// Whether what the network says of a frame depends on those before.
    pub fn is_recurrent(&self) -> bool {
        let lists = [&self.spec.trunk, &self.spec.actor].into_iter().chain(&self.spec.critic);
        lists.flatten().any(|layer| matches!(layer, Layer::Gru(_)))
    }

    /// Distributions and values.
    pub fn forward(&self, frames: &Frames) -> candle_core::Result<(Distribution, Tensor)> {
        let memory = frames.memory.as_ref();
        let input = Signal { x: frames.observations.clone(), image: self.image };
        let trunk = self.layers("trunk", &self.spec.trunk, input, memory)?;
        let params = self.linear("action", &self.layers("actor", &self.spec.actor, trunk.clone(), memory)?.x)?;
        let distribution = match &self.head {
            Head::Categorical { .. } => Distribution::categorical(&params)?,
            Head::Gaussian { log_std: LogStd::Free(_), .. } => {
                Distribution::Gaussian { mean: params, log_std: self.var("log_std")?.clone() }
            }
            _ => candle_core::bail!("the learner has no head {}", self.head.name()),
        };
        let critic = self.spec.critic.as_deref().unwrap_or_default();
        let values = self.linear("value", &self.layers("critic", critic, trunk, memory)?.x)?.squeeze(1)?;
        Ok((distribution, values))
    }

    fn layers(
        &self,
        prefix: &str,
        layers: &[Layer],
        mut signal: Signal,
        memory: Option<&Memory>,
    ) -> candle_core::Result<Signal> {
        for (i, layer) in layers.iter().enumerate() {
            let name = format!("{prefix}.{i}");
            signal.x = match layer {
                Layer::Linear(_) => self.linear(&name, &signal.x)?,
                Layer::Tanh => ops::tanh(&signal.x)?,
                Layer::Relu => signal.x.relu()?,
                Layer::Flatten => signal.x,
                Layer::Conv2d { stride, padding: 0, .. } => {
                    let (weight, bias) = (self.var(&format!("{name}.weight"))?, self.var(&format!("{name}.bias"))?);
                    let (x, image) = conv2d(&signal.x, signal.image, weight, bias, *stride)?;
                    signal.image = image;
                    x
                }
                Layer::Gru(_) => self.gru(&name, &signal.x, memory)?,
                other => candle_core::bail!("the learner has no {other:?}"),
            };
        }
        Ok(signal)
    }

    fn gru(&self, name: &str, x: &Tensor, memory: Option<&Memory>) -> candle_core::Result<Tensor> {
        let memory = memory.ok_or_else(|| candle_core::Error::Msg(format!("{name} needs the frames' memory")))?;
        let var = |part: &str| self.var(&format!("{name}.{part}_l0"));
        let (weight_ih, weight_hh) = (var("weight_ih")?, var("weight_hh")?);
        Gru { weight_ih, weight_hh, bias_ih: var("bias_ih")?, bias_hh: var("bias_hh")? }.forward(x, memory)
    }

    fn linear(&self, name: &str, x: &Tensor) -> candle_core::Result<Tensor> {
        ops::linear(x, self.var(&format!("{name}.weight"))?, self.var(&format!("{name}.bias"))?)
    }

    fn var(&self, name: &str) -> candle_core::Result<&Tensor> {
        let missing = || candle_core::Error::Msg(format!("the weights have no tensor {name}"));
        Ok(self.vars.get(name).ok_or_else(missing)?.as_tensor())
    }
}
