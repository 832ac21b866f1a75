//! A network as a file describes it, before it meets a task.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    head::HeadSpec,
    layer::Layer,
    normalize::RunningNorm,
    plan::{Activation, Plan},
};
use crate::{data::Field, error::Error, ron_file, seed::Seed, space::Space, task::Task};

/// Layers of a network: a trunk that all share, then an actor and a critic of their own.
///
/// The last layers follow from the task and are not written: `action` gives the head's parameters, `value` the value.
/// Tensors are called as PyTorch's `nn.Sequential` calls them, the number counting activations too: `trunk.0.weight`,
/// `actor.0.bias`, `actor.2.weight`, `action.weight`, `value.bias`, `log_std`.
///
/// ```
/// use gleaner::policy::NetworkSpec;
/// let text = "(actor: [Linear(32), Relu], critic: None, head: Gaussian(log_std: Free(-1.0)))";
/// let spec = NetworkSpec::from_ron_str(text)?;
/// assert_eq!(spec.actor.len(), 2);
/// # Ok::<(), gleaner::Error>(())
/// ```
///
/// A field that is left out has the value of [`NetworkSpec::default`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkSpec {
    /// Layers for single fields of an observation that is a struct, by name; the trunk reads their results and the
    /// fields without layers side by side, in the order of the struct. Tensors are called `fields.NAME.0.weight`.
    /// Default: none.
    pub fields: BTreeMap<String, Vec<Layer>>,
    /// Layers before actor and critic part. Default: none.
    pub trunk: Vec<Layer>,
    /// Layers between trunk and `action`. Default: 64, tanh, 64, tanh.
    pub actor: Vec<Layer>,
    /// Layers between trunk and `value`; `Some([])` for `value` right on the trunk, `None` for a network without a
    /// value. Default: 64, tanh, 64, tanh.
    pub critic: Option<Vec<Layer>>,
    /// What turns parameters into actions. Default: by the action space.
    pub head: HeadSpec,
    /// The same for single fields of an action that is a struct, by name: `heads: {"gear": Categorical}`. Each field has
    /// a head of its own; their parameters lie one behind the other in `action`, in the order of the struct, and a free
    /// deviation is called `log_std.NAME`. Log-probabilities and entropies are sums over the fields. Default: by each
    /// field's space.
    pub heads: BTreeMap<String, HeadSpec>,
    /// Running normalisation of observations before the first layer. Default: none.
    pub normalize: Option<Normalize>,
}

/// Running normalisation of observations: `clip((x - mean) / std)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Normalize {
    /// Bound of the result's magnitude, above 0. Default: 10, as in Stable-Baselines3.
    pub clip: f32,
}

impl Default for Normalize {
    fn default() -> Self {
        Self { clip: 10.0 }
    }
}

impl Default for NetworkSpec {
    fn default() -> Self {
        Self::mlp(&[64, 64], Activation::Tanh)
    }
}

/// Widest layer.
pub const MAX_WIDTH: usize = 65_536;
/// Most elements of an observation, and of what a convolution gives.
pub const MAX_INPUTS: usize = 1 << 22;
/// Most entries of one list of layers.
pub const MAX_LAYERS: usize = 64;
/// Most parameters of a network: a GiB of weights.
pub const MAX_PARAMETERS: usize = 1 << 28;
/// Longest network file, in bytes.
pub const MAX_FILE: u64 = 1 << 20;

impl NetworkSpec {
    /// Actor and critic apart, each with hidden layers of these widths and an activation after each.
    pub fn mlp(widths: &[usize], activation: Activation) -> Self {
        let mut layers = Vec::new();
        for width in widths {
            layers.push(Layer::Linear(*width));
            layers.extend(Layer::of(activation));
        }
        let critic = Some(layers.clone());
        Self {
            fields: BTreeMap::new(),
            trunk: Vec::new(),
            actor: layers,
            critic,
            head: HeadSpec::Auto,
            heads: BTreeMap::new(),
            normalize: None,
        }
    }

    /// Reads RON text; `Some(…)` may be left out around the value of an optional field. Errors: [`Error::Ron`] with line and column for the text, [`Error::Network`] for its values.
    pub fn from_ron_str(text: &str) -> Result<Self, Error> {
        Self::checked(ron_file::parse(Path::new("network"), text)?)
    }

    /// Reads a RON file of at most [`MAX_FILE`] bytes. Errors as [`from_ron_str`](Self::from_ron_str), or
    /// [`Error::Io`].
    pub fn from_ron_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::checked(ron_file::parse(path, &ron_file::read(path, MAX_FILE)?)?)
    }

    fn checked(self) -> Result<Self, Error> {
        self.check()?;
        Ok(self)
    }

    /// The operations for a task's observations and actions. Errors: [`Error::Network`] with the field.
    pub fn plan<T: Task>(&self) -> Result<Plan, Error> {
        use crate::data::Data;
        let observations = (&T::observation_space(), &T::Observation::fields()[..]);
        self.plan_for(observations, (&T::action_space(), &T::Action::fields()))
    }

    /// The operations for observations and actions of these spaces and fields. Errors: as [`plan`](Self::plan).
    pub fn plan_for(&self, observations: (&Space, &[Field]), actions: (&Space, &[Field])) -> Result<Plan, Error> {
        super::resolve::plan(self, observations, actions)
    }

    /// Weights to start from, for a plan that this spec gave. Weight matrices and kernels are orthogonal (Saxe,
    /// McClelland and Ganguli 2013; normal ones of the same scale where the square of the shorter side times the
    /// longer one exceeds 2³⁰) with gain √2, `action`
    /// 0.01, of a Q-network 1, `value` 1; biases are 0. Normalisations begin as the identity, embeddings as standard normal numbers,
    /// recurrent layers as PyTorch's: uniform up to `1/√hidden`. The same seed gives the same bits anywhere.
    pub fn initial_weights(&self, plan: &Plan, seed: Seed) -> crate::components::Weights {
        super::init::weights(plan, seed)
    }

    /// Empty statistics of `inputs` numbers, if observations are to be normalised.
    pub fn running_norm(&self, inputs: usize) -> Option<RunningNorm> {
        self.normalize.map(|normalize| RunningNorm::new(inputs, normalize.clip))
    }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
