//! What kernels bind behind their uniforms, for the test that compares it with the shaders.

use super::{
    head::{Binding, bindings},
    inputs::Inputs,
    pack::{Draw, Remembering},
    stage::{Bound, Stage, buffers, entry},
};
use crate::policy::plan::{Activation, Annealed, Convolution, Head, Kind, LogStd, Noise, Operation, Place, Plan};

/// A binding as it is filled.
#[doc(hidden)]
#[derive(Debug)]
pub struct Slot {
    /// What is bound: "from" and "to", a tensor by its part, "network", "memory", "states"; of heads "params", "draws",
    /// "masks", "words", "actions", "log_probs".
    pub name: String,
    /// Bytes of an element.
    pub stride: usize,
    /// Whether the kernel writes it.
    pub written: bool,
}

/// By shader, in the order of their numbers from 1 on.
#[doc(hidden)]
pub fn slots() -> Vec<(&'static str, Vec<Slot>)> {
    let mut all: Vec<_> = operations().iter().map(of_operation).collect();
    all.push(("fused", Stage::FUSED.iter().enumerate().map(|(i, bound)| of_bound(bound, i > 1, false)).collect()));
    all.extend(
        heads().iter().map(|head| (head.name(), bindings(head).iter().map(|own| of_head(head, *own)).collect())),
    );
    all
}

fn of_operation(operation: &Operation) -> (&'static str, Vec<Slot>) {
    let head = Head::Categorical { n: 4 };
    let plan = Plan { inputs: 4, hidden: vec![4], layers: vec![operation.clone()], head, value: false };
    let shader = entry(&plan, &Inputs::of(&plan), operation).shader;
    let bound = buffers(operation);
    let last = bound.len() - 1;
    let quadruples = matches!(operation.kind, Kind::Linear { .. });
    (shader, bound.iter().enumerate().map(|(i, bound)| of_bound(bound, i == last, quadruples)).collect())
}

fn of_bound(bound: &Bound, last: bool, quadruples: bool) -> Slot {
    let (name, stride, written) = match bound {
        Bound::Place(_) => (if last { "to" } else { "from" }, 4, last),
        Bound::Tensor(name) => {
            let part = name.rsplit('.').next().unwrap_or_default();
            (part, if quadruples && part == "weight" { 16 } else { 4 }, false)
        }
        Bound::Network => ("network", 0, false),
        Bound::Memory => ("memory", size_of::<Remembering>(), false),
        Bound::States => ("states", 4, true),
    };
    Slot { name: name.into(), stride, written }
}

fn of_head(head: &Head, binding: Binding) -> Slot {
    let (name, stride, written) = match binding {
        Binding::Params => ("params", 4, false),
        Binding::Draws => ("draws", size_of::<Draw>(), false),
        Binding::Masks => ("masks", 4, false),
        Binding::Words => ("words", if let Head::TanhGaussian { .. } = head { 16 } else { 4 }, false),
        Binding::Actions => ("actions", 4, true),
        Binding::LogProbs => ("log_probs", 4, true),
    };
    Slot { name: name.into(), stride, written }
}

/// One of each kind.
fn operations() -> Vec<Operation> {
    let activation = Activation::Identity;
    let [input, output] = [[1, 2, 2]; 2];
    let convolution =
        Convolution { input, output, kernel: 1, stride: 1, padding: 0, scale: 1.0, bytes: false, activation };
    let kinds = [
        Kind::Linear { activation },
        Kind::LayerNorm { activation },
        Kind::Conv2d(convolution),
        Kind::Embedding { entries: 2 },
        Kind::Gru { state: 0 },
        Kind::Lstm { state: 0 },
        Kind::Copy { at: 0 },
    ];
    let (from, to) = (Place::Input, Place::Hidden(0));
    let operation = |kind| Operation { name: "layer".into(), kind, from, start: 0, inputs: 4, to, outputs: 4 };
    kinds.map(operation).into()
}

/// One of each that has a kernel.
fn heads() -> Vec<Head> {
    let log_std = LogStd::Free(0.0);
    vec![
        Head::Categorical { n: 2 },
        Head::MultiDiscrete { n: vec![2, 2] },
        Head::MultiBinary { n: 2 },
        Head::Gaussian { n: 2, log_std },
        Head::TanhGaussian { low: vec![-1.0], high: vec![1.0], log_std },
        Head::Deterministic { n: 2, noise: Noise::None, squash: None },
        Head::Q { n: 2, epsilon: Annealed { from: 0.0, to: 0.0, frames: 0 } },
    ]
}
