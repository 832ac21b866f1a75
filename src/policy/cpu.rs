//! Networks on the CPU.

use std::{ops::Range, sync::Arc};

use pulp::Arch;

use super::{
    head,
    layer::{
        self,
        linear::{PANEL, Packed, TILE},
    },
    plan::{Exploration, Forward, Head, Linear, Network, Outcome, Place, Plan},
};
use crate::{components::Weights, error::Error};

/// Rows that pass through the whole network together, a multiple of [`TILE`]: at width 64 the matrices of a block fill
/// half of a first-level cache.
const BLOCK: usize = 48;

/// A network on the CPU: the widest instruction set that the machine has (AVX2, NEON, else scalar), one thread.
///
/// A clone shares the packed weights and has scratch memory of its own, so one a thread is cheap. Outputs of a row have
/// the same bits whatever rows are computed with it; they differ between instruction sets.
#[derive(Clone, Debug)]
pub struct CpuNetwork {
    arch: Arch,
    plan: Arc<Plan>,
    weights: Option<Arc<Loaded>>,
    scratch: Scratch,
}

#[derive(Debug)]
struct Loaded {
    layers: Vec<Packed>,
    log_std: Vec<f32>,
}

/// Matrices of a block; rows padded to whole panels.
#[derive(Clone, Debug)]
struct Scratch {
    input: Vec<f32>,
    hidden: Vec<Vec<f32>>,
    params: Vec<f32>,
    value: Vec<f32>,
    head: head::Scratch,
}

impl Scratch {
    fn new(plan: &Plan) -> Self {
        let matrix = |width: usize| vec![0.0; BLOCK * width.next_multiple_of(PANEL)];
        Self {
            input: vec![0.0; BLOCK * plan.inputs],
            hidden: plan.hidden.iter().map(|width| matrix(*width)).collect(),
            params: matrix(plan.head.params()),
            value: matrix(usize::from(plan.value)),
            head: head::Scratch::new(plan.head),
        }
    }

    /// Takes the matrix at `place` out, so that another can be read meanwhile.
    fn place(&mut self, place: Place) -> &mut Vec<f32> {
        match place {
            Place::Input => &mut self.input,
            Place::Hidden(i) => &mut self.hidden[i],
            Place::Params => &mut self.params,
            Place::Value => &mut self.value,
        }
    }
}

impl CpuNetwork {
    /// A network without weights; all memory that `forward` needs is allocated here.
    pub fn new(plan: Plan) -> Self {
        let scratch = Scratch::new(&plan);
        Self { arch: Arch::new(), plan: Arc::new(plan), weights: None, scratch }
    }

    /// The operations.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Takes over the packed weights of a network with the same plan, such as the one this was cloned from, without
    /// packing them again.
    pub fn share(&mut self, other: &Self) -> Result<(), Error> {
        if !Arc::ptr_eq(&self.plan, &other.plan) && self.plan != other.plan {
            return Err(Error::State { call: "share", problem: "the networks differ; legal: the same plan".into() });
        }
        self.weights.clone_from(&other.weights);
        Ok(())
    }

    fn check(&self, input: &Forward<'_>, out: &Outcome<'_>) -> Result<(), Error> {
        let error = |problem: String| Err(Error::State { call: "forward", problem });
        let rows = input.keys.len();
        let head = self.plan.head;
        let lengths = [
            ("inputs", input.inputs.len(), rows * self.plan.inputs),
            ("episodes", input.episodes.len(), rows),
            ("steps", input.steps.len(), rows),
            ("params", out.params.len(), rows * head.params()),
            ("actions", out.actions.len(), rows * head.action_words()),
            ("log_probs", out.log_probs.len(), rows),
            ("values", out.values.len(), rows),
        ];
        if let Some((name, have, want)) = lengths.iter().find(|(_, have, want)| have != want) {
            return error(format!("{name} has {have} elements for {rows} rows; legal: {want}"));
        }
        match (head, input.masks.width()) {
            (Head::Categorical { n }, width) if width != 0 && width != n => {
                return error(format!("a mask has {width} bytes; legal: 0 or {n}"));
            }
            _ => {}
        }
        match (head, input.exploration) {
            (_, Exploration::Random) => error("random actions need no network; legal: policy::random_actions".into()),
            (Head::Categorical { .. }, Exploration::Mean) => {
                error("a categorical distribution has no mean; legal: Sample or Mode".into())
            }
            _ => Ok(()),
        }
    }
}

impl Network for CpuNetwork {
    fn load(&mut self, weights: &Weights) -> Result<(), Error> {
        check_places(&self.plan)?;
        weights.check(&self.plan.tensors())?;
        let data = |name: &str| weights.get(name).map_or(&[][..], |tensor| &tensor.data);
        let pack = |layer: &Linear| {
            Packed::new(layer, data(&format!("{}.weight", layer.name)), data(&format!("{}.bias", layer.name)))
        };
        let layers = self.plan.layers.iter().map(pack).collect();
        self.weights = Some(Arc::new(Loaded { layers, log_std: data("log_std").to_vec() }));
        Ok(())
    }

    fn forward(&mut self, input: &Forward<'_>, out: &mut Outcome<'_>) -> Result<(), Error> {
        self.check(input, out)?;
        let Some(weights) = &self.weights else {
            return Err(Error::State { call: "forward", problem: "no weights; legal: after load".into() });
        };
        let rows = input.keys.len();
        for first in (0..rows).step_by(BLOCK) {
            block(self.arch, &self.plan, weights, &mut self.scratch, input, out, first..rows.min(first + BLOCK));
        }
        head::act(self.arch, self.plan.head, &weights.log_std, input, out, &mut self.scratch.head);
        Ok(())
    }
}

/// Checks that each layer reads and writes matrices of its own widths, two different ones: a plan may be made by hand.
fn check_places(plan: &Plan) -> Result<(), Error> {
    let width = |place| match place {
        Place::Input => Some(plan.inputs),
        Place::Hidden(i) => plan.hidden.get(i).copied(),
        Place::Params => Some(plan.head.params()),
        Place::Value => plan.value.then_some(1),
    };
    let fits = |layer: &Linear| {
        let (from, to) = (width(layer.from), width(layer.to));
        let sizes = from == Some(layer.inputs) && to == Some(layer.outputs) && layer.inputs > 0 && layer.outputs > 0;
        sizes && layer.from != layer.to && layer.to != Place::Input
    };
    match plan.layers.iter().find(|layer| !fits(layer)) {
        None => Ok(()),
        Some(layer) => Err(Error::Network {
            field: format!("layer {}", layer.name),
            value: format!("{} to {} from {:?} to {:?}", layer.inputs, layer.outputs, layer.from, layer.to),
            legal: "two different places of these widths, at least 1".into(),
        }),
    }
}

/// Runs `rows` through all layers.
fn block(
    arch: Arch,
    plan: &Plan,
    weights: &Loaded,
    scratch: &mut Scratch,
    input: &Forward<'_>,
    out: &mut Outcome<'_>,
    rows: Range<usize>,
) {
    let inputs = &input.inputs[rows.start * plan.inputs..rows.end * plan.inputs];
    scratch.input[..inputs.len()].copy_from_slice(inputs);
    // What the block before left behind the last row fills its tile up; nothing reads the results.
    let padded_rows = rows.len().next_multiple_of(TILE);
    for (operation, packed) in plan.layers.iter().zip(&weights.layers) {
        let mut to = std::mem::take(scratch.place(operation.to));
        let from = &*scratch.place(operation.from);
        let written = &mut to[..padded_rows * packed.padded()];
        layer::run(arch, operation.activation, packed, from, from.len() / BLOCK, written);
        *scratch.place(operation.to) = to;
    }
    let n = plan.head.params();
    let params = out.params[rows.start * n..rows.end * n].chunks_exact_mut(n);
    for (to, from) in params.zip(scratch.params.chunks_exact(n.next_multiple_of(PANEL))) {
        to.copy_from_slice(&from[..n]);
    }
    let values = &mut out.values[rows];
    if !plan.value {
        return values.fill(0.0);
    }
    for (to, from) in values.iter_mut().zip(scratch.value.chunks_exact(PANEL)) {
        *to = from[0];
    }
}

#[cfg(test)]
#[path = "cpu_tests/mod.rs"]
mod tests;
