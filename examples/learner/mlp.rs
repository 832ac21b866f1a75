//! Linear layers with relu between them: what learners from replay train.

use candle_core::{Device, Result, Tensor, Var};
use gleaner::{
    prelude::*,
    seed::{Purpose, Seed},
};

use super::ops;

/// Layers by name, each with weight and bias.
pub struct Mlp {
    layers: Vec<(String, Var, Var)>,
}

impl Mlp {
    /// The layers `names` of `weights`, in this order.
    pub fn of(weights: &Weights, names: &[&str]) -> super::Result<Self> {
        let var = |name: String| -> super::Result<Var> {
            let tensor = weights.0.get(&name).ok_or_else(|| format!("the weights have no tensor {name}"))?;
            Ok(Var::from_tensor(&Tensor::from_slice(&tensor.data, tensor.shape.as_slice(), &Device::Cpu)?)?)
        };
        let layer = |name: &&str| Ok((name.to_string(), var(format!("{name}.weight"))?, var(format!("{name}.bias"))?));
        Ok(Self { layers: names.iter().map(layer).collect::<super::Result<_>>()? })
    }

    /// Layers of these widths with new weights, as PyTorch makes them: uniform within `1 / √inputs`.
    pub fn new(widths: &[usize], seed: u64) -> Result<Self> {
        let mut layers = Vec::new();
        for (i, pair) in widths.windows(2).enumerate() {
            let (inputs, outputs) = (pair[0], pair[1]);
            let bound = 1.0 / (inputs as f32).sqrt();
            let mut stream = Stream::new(Seed(seed), i as u32, Purpose::Init, 0);
            let mut var = |shape: &[usize]| {
                let data = (0..shape.iter().product()).map(|_| stream.uniform(-bound, bound)).collect::<Vec<_>>();
                Var::from_tensor(&Tensor::from_vec(data, shape, &Device::Cpu)?)
            };
            layers.push((i.to_string(), var(&[outputs, inputs])?, var(&[outputs])?));
        }
        Ok(Self { layers })
    }

    /// The same layers under these names.
    pub fn named(mut self, names: &[&str]) -> Self {
        for (layer, name) in self.layers.iter_mut().zip(names) {
            layer.0 = (*name).into();
        }
        self
    }

    /// The same values in variables of their own.
    pub fn copy(&self) -> Result<Self> {
        let copy = |var: &Var| Var::from_tensor(&var.copy()?);
        let layers = self.layers.iter().map(|(name, weight, bias)| Ok((name.clone(), copy(weight)?, copy(bias)?)));
        Ok(Self { layers: layers.collect::<Result<_>>()? })
    }

    /// Everything that is trained.
    pub fn vars(&self) -> Vec<Var> {
        self.layers.iter().flat_map(|(_, weight, bias)| [weight.clone(), bias.clone()]).collect()
    }

    /// `[frames, inputs]` to `[frames, outputs]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = x.clone();
        for (i, (_, weight, bias)) in self.layers.iter().enumerate() {
            x = ops::linear(&x, weight, bias)?;
            if i + 1 < self.layers.len() {
                x = x.relu()?;
            }
        }
        Ok(x)
    }

    /// Moves every weight the part `tau` of the way to another's.
    pub fn follow(&self, other: &Self, tau: f64) -> Result<()> {
        for (own, other) in self.vars().iter().zip(other.vars()) {
            own.set(&(own.affine(1.0 - tau, 0.0)? + other.affine(tau, 0.0)?)?.detach())?;
        }
        Ok(())
    }

    /// The weights under their names.
    pub fn weights(&self) -> super::Result<Weights> {
        let mut weights = Weights::new();
        for (name, weight, bias) in &self.layers {
            for (part, var) in [("weight", weight), ("bias", bias)] {
                weights.insert(format!("{name}.{part}"), var.dims(), var.flatten_all()?.to_vec1::<f32>()?);
            }
        }
        Ok(weights)
    }
}
