//! A network resolved against a task: the operations that both backends run, in order.

use std::sync::Arc;

use crate::{
    components::{ActionKey, Episode, EpisodeStep, Masks, TensorSpec, Weights},
    error::Error,
};

pub use super::{
    head::{Annealed, Head, LogStd, Noise},
    operation::{Activation, Convolution, Kind, Operation, Place},
    packing::{PackedWeights, Packer},
    states::States,
};

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
        tensors.extend(self.head.tensors());
        tensors
    }

    /// Numbers in all tensors.
    pub fn parameters(&self) -> usize {
        self.tensors().iter().map(|tensor| tensor.shape.iter().product::<usize>()).sum()
    }

    /// Columns of what a row remembers: the head's noise, then the layers' recurrent states. 0 for a network without
    /// memory.
    pub fn state(&self) -> usize {
        self.head.state() + self.layers.iter().map(Operation::state).sum::<usize>()
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

    /// Whether a layer remembers.
    pub fn is_recurrent(&self) -> bool {
        self.layers.iter().any(|layer| layer.state() > 0)
    }

    /// Whether an operation reads and writes columns that there are, of two different matrices.
    fn fits(&self, operation: &Operation) -> bool {
        let Operation { from, start, inputs, to, outputs, .. } = *operation;
        let whole = match operation.kind {
            Kind::Copy { at } => inputs == outputs && self.width(to).is_some_and(|width| within(at, outputs, width)),
            Kind::Embedding { entries } => inputs == 1 && entries > 0 && self.width(to) == Some(outputs),
            Kind::LayerNorm { .. } => inputs == outputs && self.width(to) == Some(outputs),
            Kind::Conv2d(conv) => conv.fits(inputs, outputs) && self.width(to) == Some(outputs),
            Kind::Gru { state } | Kind::Lstm { state } => {
                within(state, operation.state(), self.state()) && self.width(to) == Some(outputs)
            }
            Kind::Linear { .. } => self.width(to) == Some(outputs),
        };
        let reads = self.width(from).is_some_and(|width| within(start, inputs, width));
        whole && reads && inputs > 0 && outputs > 0 && from != to && to != Place::Input
    }

    /// Checks that operations and head fit together, for a plan that was made by hand. Errors: [`Error::Network`].
    pub fn check(&self) -> Result<(), Error> {
        let error = |field: String, value: String, legal: &str| Error::Network { field, value, legal: legal.into() };
        if let Some(layer) = self.layers.iter().find(|layer| !self.fits(layer)) {
            let value = format!("{} to {} from {:?} to {:?}", layer.inputs, layer.outputs, layer.from, layer.to);
            let legal = "two different places of these widths, at least 1";
            return Err(error(format!("layer {}", layer.name), value, legal));
        }
        if self.head.params() == 0 {
            return Err(error("head".into(), "0 wide".into(), "at least one action"));
        }
        if !self.head.has_all_bounds() {
            let legal = "a lower and an upper bound for each element";
            return Err(error("head".into(), format!("{:?}", self.head), legal));
        }
        let written = |place| self.layers.iter().any(|layer| layer.to == place);
        if !written(Place::Params) || written(Place::Value) != self.value {
            let value = format!("{} layers", self.layers.len());
            return Err(error("layers".into(), value, "layers that write every output"));
        }
        Ok(())
    }

    /// Multiplications and additions of one row.
    pub fn operations(&self) -> usize {
        self.layers.iter().map(Operation::operations).sum()
    }
}

/// Whether columns `start..start + count` are below `width`.
fn within(start: usize, count: usize, width: usize) -> bool {
    start.checked_add(count).is_some_and(|end| end <= width)
}

/// How a policy turns a distribution into an action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[repr(u32)]
pub enum Exploration {
    /// Draw from it, or add noise.
    #[default]
    Sample = 0,
    /// Its most likely value; of equal ones the first. Of a squashed Gaussian the squashed mean, which is its median;
    /// of a deterministic head the action without noise; of a Q-network the greedy action.
    Mode = 1,
    /// Its mean, for Gaussian and deterministic heads. Others have none, or none in closed form: a build error.
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
    /// Frames that the policy acted for before this tick, in all rows: what epsilon is annealed by.
    pub frames: u64,
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
    /// `[rows, head.params()]`: logits, values or means as the network gives them (not masked, not clipped).
    pub params: &'a mut [f32],
    /// `[rows, head.action_bytes()]`: the bytes of `i32`, `f32` or bits, in any alignment.
    pub actions: &'a mut [u8],
    /// Log-probability of the action, `[rows]`.
    pub log_probs: &'a mut [f32],
    /// Entropy of the distribution in nats, `[rows]`; empty if it is not asked for.
    pub entropies: &'a mut [f32],
    /// `[rows]`; zeros if the network has no value.
    pub values: &'a mut [f32],
}

/// A network on a device.
///
/// For row `r` and the `d`-th block of its frame both backends draw
/// `threefry(keys[r], [steps[r] · DRAWS_PER_FRAME + d, episodes[r]])`, wrapping. Element `i` of an action draws from
/// block `i / 2`: a normal number is the block's number `i % 2` by `math::box_muller`; a discrete choice takes word
/// `i % 2` as a unit `u` and is the first one whose cumulated probability exceeds `u` (the last legal one if rounding
/// leaves none); a bit is 1 if `u` is below its probability. A Q-network takes word 0 of block 0 for whether to explore
/// and word 1 for the action. Fields of an action that is a struct draw by keys of their own, see
/// [`field_key`](super::head::fields::field_key).
pub trait Network: Send + Sync {
    /// What packs weights for this network, and for others of the same plan on the same backend.
    fn packer(&self) -> Arc<dyn Packer>;

    /// Takes over packed weights; the next forward acts by them. Errors: [`Error::State`] for those of another plan or
    /// backend, or, on a GPU, of another network.
    fn adopt(&mut self, packed: &PackedWeights) -> Result<(), Error>;

    /// Takes a whole set of weights that [`Weights::check`] accepts. Errors: those of the check; the backend's own.
    fn load(&mut self, weights: &Weights) -> Result<(), Error> {
        let packed = self.packer().pack(weights)?;
        self.adopt(&packed)
    }

    /// Acts for a run of rows; a row's outputs do not depend on the others. Errors: [`Error::State`] without weights,
    /// and for slices of other lengths than the rows'; [`Error::Config`] for an exploration that the head does not
    /// have; a device's own.
    fn forward(&mut self, input: &Forward<'_>, out: &mut Outcome<'_>) -> Result<(), Error>;

    /// Takes over states that were written by others. A network that keeps none of its own has nothing to do. Errors: a
    /// device's own.
    fn push_states(&mut self, _states: &States) -> Result<(), Error> {
        Ok(())
    }

    /// Brings `states` up to date with what was remembered in earlier forwards. A network that keeps none of its own
    /// has nothing to do. Errors: a device's own.
    fn pull_states(&mut self, _states: &States) -> Result<(), Error> {
        Ok(())
    }
}
