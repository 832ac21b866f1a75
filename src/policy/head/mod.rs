//! Heads: from the last layer's parameters to actions and log-probabilities. A new one is a file here, its twin in
//! `shaders/`, and its lines in the tables below.
//!
//! Element `i` of an action draws word `i % 2` of block `i / 2` of its frame, see
//! [`Network`](super::plan::Network).

pub mod categorical;
pub mod deterministic;
pub mod fields;
pub mod gaussian;
mod lanes;
pub mod multi_binary;
pub mod multi_discrete;
pub mod q;
mod spec;
pub mod tanh_gaussian;

use pulp::Arch;

pub use self::{deterministic::Noise, gaussian::LogStd, q::Annealed, spec::HeadSpec};
use self::{
    gaussian::{Gaussian, Unbounded},
    lanes::{All, LANES},
};
use super::plan::{Exploration, Forward, Outcome};
use crate::{
    components::{TensorSpec, Weights},
    error::Error,
    seed::DRAWS_PER_FRAME,
};

/// Most elements of an action: a draw gives two words, and a frame has [`DRAWS_PER_FRAME`].
pub const MAX_ELEMENTS: usize = 2 * DRAWS_PER_FRAME as usize;

/// What turns parameters into an action.
#[derive(Clone, Debug, PartialEq)]
pub enum Head {
    /// `n` logits; the action is an `i32` index.
    Categorical {
        /// Number of actions.
        n: usize,
    },
    /// Logits of each element side by side, as masks are; the action is an `[i32; n.len()]` of indices.
    MultiDiscrete {
        /// Number of values of each element.
        n: Vec<usize>,
    },
    /// `n` logits of being 1; the action is a `[u8; n]` of bits.
    MultiBinary {
        /// Number of bits.
        n: usize,
    },
    /// `n` means, and logarithms of standard deviations; the action is an `[f32; n]`.
    Gaussian {
        /// Number of action elements.
        n: usize,
        /// Where the deviations come from.
        log_std: LogStd,
    },
    /// The same, squashed to a box.
    TanhGaussian {
        /// Lower bounds, finite.
        low: Vec<f32>,
        /// Upper bounds, finite and above `low`.
        high: Vec<f32>,
        /// Where the deviations come from.
        log_std: LogStd,
    },
    /// The action itself, an `[f32; n]`, to which noise is added. Its log-probability and entropy are 0.
    Deterministic {
        /// Number of action elements.
        n: usize,
        /// What is added.
        noise: Noise,
        /// The bounds that it is squashed to, lower and upper ones, finite; none for an action as the network gives it.
        squash: Option<[Vec<f32>; 2]>,
    },
    /// `n` action values; the action is an `i32` index: the greatest one's, or with probability epsilon any legal one.
    Q {
        /// Number of actions.
        n: usize,
        /// Epsilon.
        epsilon: Annealed,
    },
    /// A head for each field of an action that is a struct, in its order. None of them has a state or fields itself.
    Fields {
        /// Names of the fields, and their heads.
        heads: Vec<(String, Head)>,
    },
}

impl Head {
    /// The frames that the policy acted for, as far as anything depends on them: up to the end of all annealing.
    pub fn counted(&self, frames: u64) -> u64 {
        match self {
            Self::Q { epsilon, .. } if epsilon.from != epsilon.to => frames.min(epsilon.frames),
            Self::Fields { heads } => heads.iter().map(|(_, head)| head.counted(frames)).max().unwrap_or(0),
            _ => 0,
        }
    }

    /// Its name: that of its file and of its shader.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Categorical { .. } => "categorical",
            Self::MultiDiscrete { .. } => "multi_discrete",
            Self::MultiBinary { .. } => "multi_binary",
            Self::Gaussian { .. } => "gaussian",
            Self::TanhGaussian { .. } => "tanh_gaussian",
            Self::Deterministic { .. } => "deterministic",
            Self::Q { .. } => "q",
            Self::Fields { .. } => "fields",
        }
    }

    /// Elements of an action.
    pub fn elements(&self) -> usize {
        match self {
            Self::Categorical { .. } | Self::Q { .. } => 1,
            Self::MultiDiscrete { n } => n.len(),
            Self::MultiBinary { n } | Self::Gaussian { n, .. } | Self::Deterministic { n, .. } => *n,
            Self::TanhGaussian { low, .. } => low.len(),
            Self::Fields { heads } => sum(heads, Self::elements),
        }
    }

    /// Whether a head that squashes has as many bounds of each side as elements.
    pub(super) fn has_all_bounds(&self) -> bool {
        match self {
            Self::TanhGaussian { low, high, .. } => low.len() == high.len(),
            Self::Deterministic { n, squash: Some(bounds), .. } => bounds.iter().all(|bounds| bounds.len() == *n),
            Self::Fields { heads } => heads.iter().all(|(_, head)| head.has_all_bounds()),
            _ => true,
        }
    }

    /// Bytes of one action.
    pub fn action_bytes(&self) -> usize {
        match self {
            Self::MultiBinary { n } => *n,
            Self::Fields { heads } => sum(heads, Self::action_bytes),
            _ => 4 * self.elements(),
        }
    }

    /// Floats of one row's parameters: what the last linear layer gives.
    pub fn params(&self) -> usize {
        match self {
            Self::Categorical { n } | Self::Q { n, .. } => *n,
            Self::MultiDiscrete { n } => n.iter().sum(),
            Self::MultiBinary { n } | Self::Deterministic { n, .. } => *n,
            Self::Gaussian { log_std, .. } | Self::TanhGaussian { log_std, .. } => log_std.params(self.elements()),
            Self::Fields { heads } => sum(heads, Self::params),
        }
    }

    /// Bytes of a row's mask; 0 if it takes none.
    pub fn mask(&self) -> usize {
        match self {
            Self::Categorical { .. } | Self::MultiDiscrete { .. } | Self::Q { .. } => self.params(),
            Self::Fields { heads } => sum(heads, Self::mask),
            _ => 0,
        }
    }

    /// Where its logarithms of standard deviations come from, if it has any.
    pub fn log_std(&self) -> Option<LogStd> {
        match self {
            Self::Gaussian { log_std, .. } | Self::TanhGaussian { log_std, .. } => Some(*log_std),
            _ => None,
        }
    }

    /// Columns of a row's state: its noise, if that goes on from step to step. They come before those of the layers.
    pub fn state(&self) -> usize {
        match self {
            Self::Deterministic { n, noise: Noise::OrnsteinUhlenbeck { .. }, .. } => *n,
            _ => 0,
        }
    }

    /// Free logarithms of standard deviations.
    pub(super) fn free(&self) -> usize {
        match self {
            Self::Fields { heads } => sum(heads, Self::free),
            _ if matches!(self.log_std(), Some(LogStd::Free(_))) => self.elements(),
            _ => 0,
        }
    }

    /// The tensors that it has of its own: `log_std`, or of a field `log_std.NAME`. Each comes with what it starts from.
    pub(super) fn free_tensors(&self) -> Vec<(TensorSpec, f32)> {
        let one = |head: &Self, name: String| match head.log_std() {
            Some(LogStd::Free(start)) => Some((TensorSpec { name, shape: vec![head.elements()] }, start)),
            _ => None,
        };
        match self {
            Self::Fields { heads } => {
                heads.iter().filter_map(|(name, head)| one(head, format!("log_std.{name}"))).collect()
            }
            head => one(head, "log_std".into()).into_iter().collect(),
        }
    }

    /// The tensors that it has of its own.
    pub fn tensors(&self) -> Vec<TensorSpec> {
        self.free_tensors().into_iter().map(|(tensor, _)| tensor).collect()
    }

    /// What they hold, one behind the other.
    pub(super) fn free_of(&self, weights: &Weights) -> Vec<f32> {
        let data = |tensor: TensorSpec| weights.get(&tensor.name).map_or(Vec::new(), |own| own.data.clone());
        self.tensors().into_iter().flat_map(data).collect()
    }

    /// Whether actions can be chosen in this way. Errors: [`Error::Config`] for [`Exploration::Mean`] where there is none
    /// or none in closed form.
    pub fn check(&self, exploration: Exploration) -> Result<(), Error> {
        let reason = match self {
            _ if exploration != Exploration::Mean => return Ok(()),
            Self::Fields { heads } => return heads.iter().try_for_each(|(_, head)| head.check(exploration)),
            Self::Gaussian { .. } | Self::Deterministic { .. } => return Ok(()),
            Self::TanhGaussian { .. } => "a squashed Gaussian's mean has no closed form",
            _ => "discrete actions have no mean",
        };
        Err(Error::config("exploration", "Mean", format!("Sample, Mode or Random: {reason}")))
    }

    /// Writes the entropy in nats of each row's distribution. A squashed Gaussian's has no closed form: there it is the
    /// negative log-probability of the action taken, of which the entropy is the mean.
    pub(super) fn entropies(&self, free: &[f32], input: &Forward<'_>, out: &mut Outcome<'_>) {
        // Their sums are made with the actions.
        if let Self::Fields { .. } = self {
            return;
        }
        let width = self.params();
        let rows = out.params.chunks_exact(width.max(1)).zip(&*out.log_probs).enumerate();
        for (entropy, (row, (params, log_prob))) in out.entropies.iter_mut().zip(rows) {
            let mask = input.masks.row(row);
            *entropy = match self {
                Self::Categorical { .. } => categorical::entropy(params, mask),
                Self::MultiDiscrete { n } => multi_discrete::entropy(n, params, mask),
                Self::MultiBinary { .. } => multi_binary::entropy(params),
                Self::Gaussian { n, log_std } => gaussian::entropy((0..*n).map(|i| log_std.of(free, params, *n, i))),
                Self::TanhGaussian { .. } => -log_prob,
                Self::Deterministic { .. } | Self::Fields { .. } => 0.0,
                Self::Q { epsilon, .. } => q::entropy(params, mask, epsilon.at(input.frames)),
            };
        }
    }
}

fn sum(heads: &[(String, Head)], of: impl Fn(&Head) -> usize) -> usize {
    heads.iter().map(|(_, head)| of(head)).sum()
}

/// Memory that a head needs between calls.
#[derive(Clone, Debug)]
pub(super) struct Scratch {
    /// Weights of the distribution of [`LANES`] rows.
    lanes: Vec<[f32; LANES]>,
    /// Noise of a row.
    noise: Vec<f32>,
    /// Of the heads of the fields, and what they act on.
    fields: Vec<Scratch>,
    columns: fields::Columns,
}

impl Scratch {
    pub(super) fn new(head: &Head) -> Self {
        let (lanes, noise) = match head {
            Head::Categorical { n } => (*n, 0),
            Head::MultiDiscrete { n } => (n.iter().copied().max().unwrap_or(0), 0),
            Head::Deterministic { n, .. } => (0, *n),
            _ => (0, 0),
        };
        let fields = if let Head::Fields { heads } = head { &heads[..] } else { &[] };
        Self {
            lanes: vec![[0.0; LANES]; lanes],
            noise: vec![0.0; noise],
            fields: fields.iter().map(|(_, head)| Self::new(head)).collect(),
            columns: fields::Columns::default(),
        }
    }
}

/// Writes actions and log-probabilities of all rows from `out.params`; `free` holds what [`Head::free_of`] gives.
pub(super) fn act(
    arch: Arch,
    head: &Head,
    free: &[f32],
    input: &Forward<'_>,
    out: &mut Outcome<'_>,
    scratch: &mut Scratch,
) {
    let weights = &mut scratch.lanes;
    match head {
        Head::Categorical { n } => {
            arch.dispatch(All { head: categorical::Categorical { n: *n, weights }, input, out });
        }
        Head::MultiDiscrete { n } => {
            arch.dispatch(All { head: multi_discrete::MultiDiscrete { n, weights }, input, out });
        }
        Head::MultiBinary { n } => arch.dispatch(All { head: multi_binary::MultiBinary { n: *n }, input, out }),
        Head::Gaussian { n, log_std } => {
            arch.dispatch(All { head: Gaussian { n: *n, log_std: *log_std, free, squash: Unbounded }, input, out });
        }
        Head::TanhGaussian { low, high, log_std } => {
            let squash = tanh_gaussian::Bounds { low, high };
            arch.dispatch(All { head: Gaussian { n: low.len(), log_std: *log_std, free, squash }, input, out });
        }
        Head::Deterministic { noise, squash, .. } => {
            deterministic::act(*noise, squash.as_ref(), input, out, &mut scratch.noise);
        }
        Head::Q { n, epsilon } => q::act(*n, *epsilon, input, out),
        Head::Fields { heads } => fields::act(arch, heads, free, input, out, scratch),
    }
}
