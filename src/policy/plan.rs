//! A network resolved against a task: the operations that both backends run, in order.

use crate::{
    components::{ActionKey, Episode, EpisodeStep, Masks, TensorSpec, Weights},
    error::Error,
};

pub use super::{
    operation::{Activation, Convolution, Kind, Operation, Place},
    states::States,
};

/// What turns parameters into an action.
#[derive(Clone, Debug, PartialEq)]
pub enum Head {
    /// `n` logits, one action word: an `i32` index.
    Categorical {
        /// Number of actions.
        n: usize,
    },
    /// `n` means and the free tensor `log_std` of `n`; `n` action words: `f32`.
    Gaussian {
        /// Number of action elements.
        n: usize,
    },
}

impl Head {
    /// Words of one action.
    pub fn action_words(&self) -> usize {
        match self {
            Self::Categorical { .. } => 1,
            Self::Gaussian { n } => *n,
        }
    }

    /// Floats of one row's parameters: what the last linear layer gives.
    pub fn params(&self) -> usize {
        match self {
            Self::Categorical { n } | Self::Gaussian { n } => *n,
        }
    }
}

/// A network resolved against a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Width of the encoded observation.
    pub inputs: usize,
    /// Widths of the intermediate matrices.
    pub hidden: Vec<usize>,
    /// Operations, in an order in which each one's input is ready.
    pub layers: Vec<Operation>,
    /// The head that reads [`Place::Params`].
    pub head: Head,
    /// Whether a layer writes [`Place::Value`].
    pub value: bool,
}

impl Plan {
    /// All tensors of the network.
    pub fn tensors(&self) -> Vec<TensorSpec> {
        let mut tensors = Vec::new();
        for layer in &self.layers {
            let parts = layer.tensors().into_iter();
            tensors.extend(parts.map(|(part, shape)| TensorSpec { name: format!("{}.{part}", layer.name), shape }));
        }
        if let Head::Gaussian { n } = self.head {
            tensors.push(TensorSpec { name: "log_std".into(), shape: vec![n] });
        }
        tensors
    }

    /// Numbers in all tensors.
    pub fn parameters(&self) -> usize {
        self.tensors().iter().map(|tensor| tensor.shape.iter().product::<usize>()).sum()
    }

    /// Columns of a row's recurrent state; 0 for a network without memory.
    pub fn state(&self) -> usize {
        self.layers.iter().map(Operation::state).sum()
    }

    /// Width of the matrix at `place`; none if the network has no such matrix.
    pub fn width(&self, place: Place) -> Option<usize> {
        match place {
            Place::Input => Some(self.inputs),
            Place::Hidden(i) => self.hidden.get(i).copied(),
            Place::Params => Some(self.head.params()),
            Place::Value => self.value.then_some(1),
        }
    }

    /// Whether an operation reads and writes columns that there are, of two different matrices.
    pub fn fits(&self, operation: &Operation) -> bool {
        let Operation { from, start, inputs, to, outputs, .. } = *operation;
        let whole = match operation.kind {
            Kind::Copy { at } => inputs == outputs && self.width(to).is_some_and(|width| at + outputs <= width),
            Kind::Embedding { entries } => inputs == 1 && entries > 0 && self.width(to) == Some(outputs),
            Kind::LayerNorm { .. } => inputs == outputs && self.width(to) == Some(outputs),
            Kind::Conv2d(conv) => conv.fits(inputs, outputs) && self.width(to) == Some(outputs),
            Kind::Gru { state } | Kind::Lstm { state } => {
                state + operation.state() <= self.state() && self.width(to) == Some(outputs)
            }
            Kind::Linear { .. } => self.width(to) == Some(outputs),
        };
        let reads = self.width(from).is_some_and(|width| start + inputs <= width);
        whole && reads && inputs > 0 && outputs > 0 && from != to && to != Place::Input
    }

    /// Multiplications and additions of one row.
    pub fn operations(&self) -> usize {
        self.layers.iter().map(Operation::operations).sum()
    }
}

/// How a policy turns a distribution into an action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[repr(u32)]
pub enum Exploration {
    /// Draw from it.
    #[default]
    Sample = 0,
    /// Its most likely value; of equal ones the first.
    Mode = 1,
    /// Its mean. A categorical distribution has none: a build error.
    Mean = 2,
    /// Uniform over the space; the network is not run.
    Random = 3,
}

/// What a backend is given for a run of rows. All slices have a row a row.
#[derive(Clone, Copy)]
pub struct Forward<'a> {
    /// Encoded observations, `[rows, plan.inputs]`.
    pub inputs: &'a [f32],
    /// Legal actions.
    pub masks: Masks<'a>,
    /// Keys of the action streams.
    pub keys: &'a [ActionKey],
    /// Episodes.
    pub episodes: &'a [Episode],
    /// Steps.
    pub steps: &'a [EpisodeStep],
    /// How actions are chosen.
    pub exploration: Exploration,
    /// What the rows remember; none for a network without memory.
    pub memory: Option<Memory<'a>>,
}

/// What the rows of a run remember.
#[derive(Clone, Copy)]
pub struct Memory<'a> {
    /// The states of all rows; a backend may keep them elsewhere between [`Network::push_states`] and
    /// [`Network::pull_states`].
    pub states: &'a States,
    /// Places of the run's rows in `states`.
    pub places: &'a [u32],
    /// By row, 1 where an episode begins: its state is zeroed first.
    pub fresh: &'a [u8],
}

impl Memory<'_> {
    /// Places that there must be room for.
    pub(super) fn needed(&self) -> usize {
        self.places.iter().map(|place| *place as usize + 1).fold(self.states.len(), usize::max)
    }
}

/// What a backend writes for a run of rows; every element of every slice.
pub struct Outcome<'a> {
    /// `[rows, head.params()]`: logits as the network gives them (not masked), or means.
    pub params: &'a mut [f32],
    /// `[rows, head.action_words()]`: the bits of `i32` or `f32`.
    pub actions: &'a mut [u32],
    /// Log-probability of the action, `[rows]`.
    pub log_probs: &'a mut [f32],
    /// `[rows]`; zeros if the network has no value.
    pub values: &'a mut [f32],
}

/// A network on a device.
///
/// For row `r` and the `d`-th block of its frame both backends draw
/// `threefry(keys[r], [steps[r] · DRAWS_PER_FRAME + d, episodes[r]])`, wrapping. Categorical: block 0, word 0 as a unit
/// `u`; the action is the first one whose cumulated probability exceeds `u` (the last legal one if rounding leaves none).
/// Gaussian: elements `2d` and `2d + 1` take the two normal numbers of block `d` by `math::box_muller`.
pub trait Network: Send + Sync {
    /// Takes a whole set of weights that [`Weights::check`] accepts.
    fn load(&mut self, weights: &Weights) -> Result<(), Error>;

    /// Acts for a run of rows; a row's outputs do not depend on the others.
    fn forward(&mut self, input: &Forward<'_>, out: &mut Outcome<'_>) -> Result<(), Error>;

    /// Takes over states that were written by others. A network that keeps none of its own has nothing to do.
    fn push_states(&mut self, _states: &States) -> Result<(), Error> {
        Ok(())
    }

    /// Brings `states` up to date with what was remembered in earlier forwards. A network that keeps none of its own
    /// has nothing to do.
    fn pull_states(&mut self, _states: &States) -> Result<(), Error> {
        Ok(())
    }
}
