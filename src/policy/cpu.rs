//! Networks on the CPU.

use std::{ops::Range, sync::Arc};

use pulp::Arch;

use super::{
    call,
    floats::Floats,
    head,
    layer::{
        self, Kernel, Tensors,
        linear::{TILE, padded},
    },
    packing::{PackedWeights, Packer},
    plan::{Forward, Memory, Network, Operation, Outcome, Place, Plan},
};
use crate::{components::Weights, error::Error};

/// Most rows that pass through the whole network together, a multiple of [`TILE`]: at width 64 the matrices of a block
/// fill half of a first-level cache.
const BLOCK: usize = 48;

/// Floats that the matrices of a block shall not exceed, if there are fewer rows to take: half of most second-level
/// caches.
const BLOCK_FLOATS: usize = 1 << 16;

/// A network on the CPU: the widest instruction set that the machine has (AVX-512, AVX2, NEON, else scalar), one thread.
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

/// The packed weights of a plan.
#[derive(Debug)]
struct Loaded {
    plan: Arc<Plan>,
    layers: Vec<Box<dyn Kernel>>,
    log_std: Vec<f32>,
}

/// Matrices of a block.
#[derive(Clone, Debug)]
struct Scratch {
    /// Rows of a block, a multiple of [`TILE`].
    rows: usize,
    input: Floats,
    /// These have rows that are [`padded`].
    hidden: Vec<Floats>,
    params: Floats,
    value: Floats,
    layer: Floats,
    head: head::Scratch,
}

/// Floats of a block's matrices for one row.
fn row_floats(plan: &Plan) -> usize {
    plan.inputs + plan.hidden.iter().map(|width| padded(*width)).sum::<usize>()
}

fn block_rows(plan: &Plan) -> usize {
    (BLOCK_FLOATS / row_floats(plan).max(1)).clamp(TILE, BLOCK) / TILE * TILE
}

impl Scratch {
    fn new(plan: &Plan) -> Self {
        let rows = block_rows(plan);
        let matrix = |width: usize| Floats::zeros(rows * padded(width));
        Self {
            rows,
            input: Floats::zeros(rows * plan.inputs),
            hidden: plan.hidden.iter().map(|width| matrix(*width)).collect(),
            params: matrix(plan.head.params()),
            value: matrix(usize::from(plan.value)),
            layer: Floats::default(),
            head: head::Scratch::new(&plan.head),
        }
    }

    fn place(&mut self, place: Place) -> &mut Floats {
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

    /// Bytes of the matrices that a network allocates for the rows that it computes together.
    pub(crate) fn scratch_bytes(plan: &Plan) -> usize {
        4 * block_rows(plan) * row_floats(plan)
    }

    /// The operations.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

struct CpuPacker(Arc<Plan>);

impl Packer for CpuPacker {
    fn pack(&self, weights: &Weights) -> Result<PackedWeights, Error> {
        let Self(plan) = self;
        plan.check()?;
        weights.check(&plan.tensors())?;
        let pack = |operation: &Operation| layer::pack(operation, &Tensors::new(weights, &operation.name));
        let layers = plan.layers.iter().map(pack).collect();
        let log_std = plan.head.free_of(weights);
        Ok(Arc::new(Loaded { plan: plan.clone(), layers, log_std }))
    }
}

impl Network for CpuNetwork {
    fn packer(&self) -> Arc<dyn Packer> {
        Arc::new(CpuPacker(self.plan.clone()))
    }

    fn adopt(&mut self, packed: &PackedWeights) -> Result<(), Error> {
        let loaded = packed.clone().downcast::<Loaded>().ok();
        let same = |loaded: &Arc<Loaded>| Arc::ptr_eq(&loaded.plan, &self.plan) || loaded.plan == self.plan;
        let Some(loaded) = loaded.filter(same) else {
            let problem = "the weights are packed for another network; legal: the same plan, on the CPU".into();
            return Err(Error::State { call: "adopt", problem });
        };
        let scratch = loaded.layers.iter().map(|layer| layer.scratch(self.scratch.rows)).max().unwrap_or(0);
        if scratch != self.scratch.layer.len() {
            self.scratch.layer = Floats::zeros(scratch);
        }
        // From now on the plans are told to be the same at a glance.
        self.plan = loaded.plan.clone();
        self.weights = Some(loaded);
        Ok(())
    }

    fn forward(&mut self, input: &Forward<'_>, out: &mut Outcome<'_>) -> Result<(), Error> {
        call::check(&self.plan, input, out)?;
        let Some(weights) = &self.weights else {
            return Err(Error::State { call: "forward", problem: "no weights; legal: after load".into() });
        };
        if let Some(memory) = &input.memory
            && memory.needed() > memory.states.len()
        {
            let problem = format!("a place is {}; legal: below {}", memory.needed() - 1, memory.states.len());
            return Err(Error::State { call: "forward", problem });
        }
        let rows = input.keys.len();
        let block_rows = self.scratch.rows;
        for first in (0..rows).step_by(block_rows) {
            block(self.arch, &self.plan, weights, &mut self.scratch, input, out, first..rows.min(first + block_rows));
        }
        head::act(self.arch, &self.plan.head, &weights.log_std, input, out, &mut self.scratch.head);
        self.plan.head.entropies(&weights.log_std, input, out);
        Ok(())
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
    let memory = input.memory.map(|Memory { states, places, fresh }| Memory {
        states,
        places: &places[rows.clone()],
        fresh: &fresh[rows.clone()],
    });
    for (operation, kernel) in plan.layers.iter().zip(&weights.layers) {
        // Taken out, so that another can be read meanwhile.
        let mut to = std::mem::take(scratch.place(operation.to));
        let mut space = std::mem::take(&mut scratch.layer);
        let block_rows = scratch.rows;
        let from = &*scratch.place(operation.from);
        let block = layer::Block {
            rows: rows.len(),
            from: &from[operation.start..],
            stride: from.len() / block_rows,
            to_stride: to.len() / block_rows,
            to: &mut to,
            memory,
        };
        kernel.run(arch, block, &mut space);
        *scratch.place(operation.to) = to;
        scratch.layer = space;
    }
    let n = plan.head.params();
    let params = &mut out.params[rows.start * n..rows.end * n];
    // By columns: most heads have few, and the loop over rows is the long one.
    for column in 0..n {
        let from = scratch.params[column..].iter().step_by(padded(n));
        params[column..].iter_mut().step_by(n).zip(from).for_each(|(to, from)| *to = *from);
    }
    let values = &mut out.values[rows];
    if !plan.value {
        return values.fill(0.0);
    }
    for (to, from) in values.iter_mut().zip(scratch.value.chunks_exact(padded(1))) {
        *to = from[0];
    }
}

#[cfg(test)]
#[path = "cpu_tests/mod.rs"]
pub(super) mod tests;
