//! What the kernels of heads are built from and read beside parameters, draws and masks.

use bytemuck::{Pod, bytes_of};

use super::params::{
    CategoricalParams, DeterministicParams, GaussianParams, MultiBinaryParams, MultiDiscreteParams, QParams,
    TanhGaussianParams,
};
use crate::{
    error::Error,
    gpu::{Gpu, Kernel},
    policy::{
        head::{Scratch, act, tanh_gaussian::log_scale},
        plan::{Forward, Head, LogStd, Outcome},
    },
};

/// What a head's kernel binds behind its uniform, in this order.
#[derive(Clone, Copy)]
pub(super) enum Binding {
    Params,
    Draws,
    Masks,
    /// See [`words`].
    Words,
    Actions,
    LogProbs,
}

pub(super) fn bindings(head: &Head) -> &'static [Binding] {
    use Binding::{Actions, Draws, LogProbs, Masks, Params, Words};
    match head {
        Head::Categorical { .. } | Head::Q { .. } => &[Params, Draws, Masks, Actions, LogProbs],
        Head::MultiDiscrete { .. } => &[Params, Draws, Masks, Words, Actions, LogProbs],
        Head::MultiBinary { .. } => &[Params, Draws, Actions, LogProbs],
        Head::Gaussian { .. } | Head::TanhGaussian { .. } => &[Params, Draws, Words, Actions, LogProbs],
        Head::Deterministic { .. } => &[Params, Words, Actions, LogProbs],
        Head::Fields { .. } => &[],
    }
}

/// Whether the host acts: for an action of several fields it does with the CPU's heads, on parameters that come back
/// from the device in any case.
pub(super) fn on_host(head: &Head) -> bool {
    matches!(head, Head::Fields { .. })
}

/// What the host acts with.
pub(super) struct Host {
    arch: pulp::Arch,
    scratch: Scratch,
}

impl Host {
    pub(super) fn new(head: &Head) -> Self {
        Self { arch: pulp::Arch::new(), scratch: Scratch::new(head) }
    }

    /// Acts for all rows on the parameters in `out`, if the device did not; `free` is what the head has of its own.
    pub(super) fn act(&mut self, head: &Head, free: &[f32], input: &Forward<'_>, out: &mut Outcome<'_>) {
        if on_host(head) {
            act(self.arch, head, free, input, out, &mut self.scratch);
        }
    }
}

/// The kernel; none where the host acts.
pub(super) fn kernel(gpu: &Gpu, head: &Head) -> Result<Option<Kernel>, Error> {
    if on_host(head) {
        return Ok(None);
    }
    let kernel = match head.log_std() {
        Some(LogStd::Network { min, max }) => {
            let constants = [("network", 1.0), ("log_std_min", f64::from(min)), ("log_std_max", f64::from(max))];
            Kernel::new(gpu, head.name(), &constants)
        }
        None if matches!(head, Head::Deterministic { squash: Some(_), .. }) => {
            Kernel::new(gpu, head.name(), &[("squash", 1.0)])
        }
        _ => Kernel::new(gpu, head.name(), &[]),
    };
    kernel.map(Some)
}

/// Words of one row's action that the device gives: bits are bytes, padded to whole words.
pub(super) fn action_words(head: &Head) -> usize {
    if on_host(head) { 0 } else { head.action_bytes().div_ceil(4) }
}

/// Words of one row's mask, a byte an action, padded to whole words.
pub(super) fn mask_words(head: &Head) -> usize {
    if on_host(head) { 0 } else { head.mask().div_ceil(4) }
}

/// Most words that [`words`] gives for `rows` rows.
pub(super) fn most_words(head: &Head, rows: usize) -> usize {
    match head {
        Head::MultiDiscrete { n } => n.len(),
        Head::Gaussian { n, .. } => *n,
        Head::TanhGaussian { low, .. } => 4 * low.len(),
        Head::Deterministic { n, .. } => rows.saturating_add(2).saturating_mul(*n),
        Head::Categorical { .. } | Head::MultiBinary { .. } | Head::Q { .. } | Head::Fields { .. } => 0,
    }
}

/// What the kernel reads beside the network's outputs: counts of values, free deviations, bounds, and noise. That is
/// made here, as on the CPU: no output of the network is in it, and so processes advance in one place.
pub(super) fn words(head: &Head, free: &[f32], input: &Forward<'_>, words: &mut Vec<u32>) {
    words.clear();
    match head {
        Head::MultiDiscrete { n } => words.extend(n.iter().map(|n| *n as u32)),
        Head::Gaussian { .. } => words.extend(free.iter().map(|x| x.to_bits())),
        Head::TanhGaussian { low, high, .. } => {
            for (i, (low, high)) in low.iter().zip(high).enumerate() {
                let free = free.get(i).copied().unwrap_or(0.0);
                words.extend([*low, *high, log_scale(*low, *high), free].map(f32::to_bits));
            }
        }
        Head::Deterministic { n, noise, squash } => {
            let bounds = squash.iter().flat_map(|[low, high]| low.iter().zip(high));
            words.extend(bounds.flat_map(|(low, high)| [low.to_bits(), high.to_bits()]));
            let start = words.len();
            words.resize(start + input.keys.len() * n, 0);
            let rows = bytemuck::cast_slice_mut(&mut words[start..]).chunks_exact_mut(*n).enumerate();
            rows.for_each(|(row, to)| noise.fill(input, row, to));
        }
        Head::Categorical { .. } | Head::MultiBinary { .. } | Head::Q { .. } | Head::Fields { .. } => {}
    }
}

/// Hands the bytes of the kernel's uniform to `put`.
pub(super) fn uniform(head: &Head, input: &Forward<'_>, masked: bool, put: impl FnOnce(&[u8])) {
    fn send<P: Pod>(params: P, put: impl FnOnce(&[u8])) {
        put(bytes_of(&params));
    }
    let (rows, exploration) = (input.keys.len() as u32, input.exploration as u32);
    let mask_words = if masked { mask_words(head) as u32 } else { 0 };
    let actions = head.elements() as u32;
    let width = head.params() as u32;
    match head {
        Head::Categorical { .. } => send(CategoricalParams { rows, actions: width, exploration, mask_words }, put),
        Head::MultiDiscrete { .. } => {
            send(MultiDiscreteParams { rows, elements: actions, width, exploration, mask_words }, put);
        }
        Head::MultiBinary { .. } => send(MultiBinaryParams { rows, bits: actions, exploration }, put),
        Head::Gaussian { .. } => send(GaussianParams { rows, actions, exploration }, put),
        Head::TanhGaussian { .. } => send(TanhGaussianParams { rows, actions, exploration }, put),
        Head::Deterministic { .. } => send(DeterministicParams { rows, actions }, put),
        Head::Q { epsilon, .. } => {
            let epsilon = epsilon.at(input.frames);
            send(QParams { rows, actions: width, exploration, mask_words, epsilon }, put);
        }
        Head::Fields { .. } => {}
    }
}
