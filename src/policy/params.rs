//! The action distribution as recorded columns.

use bevy_ecs::prelude::*;

use super::actor::{Actor, ActorKind, NetworkActor};
use crate::{
    components::{ColumnSpec, Source},
    data::{Dtype, Field},
    policy::plan::Head,
    task::Task,
};

/// Records one part of the distribution.
struct ParamsSource<T: Task> {
    policy: QueryState<&'static Actor<T>>,
    part: Part,
}

#[derive(Clone, Copy)]
enum Part {
    /// So many of the head's parameters, from the first.
    Params(usize),
    /// So many standard deviations.
    Std(usize),
    Entropy,
}

impl<T: Task> Source for ParamsSource<T> {
    fn record(&mut self, world: &World, _in_order: bool, out: &mut [u8]) {
        let Ok(actor) = self.policy.single(world) else { return };
        let ActorKind::Network(network) = &actor.kind else { return };
        let Some(recorded) = &network.recorded else { return };
        let rows = recorded.params.chunks_exact(network.plan.head.params());
        match self.part {
            Part::Entropy => {
                let bytes: &[u8] = bytemuck::cast_slice(&recorded.entropies);
                let n = bytes.len().min(out.len());
                out[..n].copy_from_slice(&bytes[..n]);
            }
            Part::Params(n) => {
                out.chunks_exact_mut(4 * n).zip(rows).for_each(|(to, row)| {
                    to.copy_from_slice(bytemuck::cast_slice(&row[..n]));
                });
            }
            Part::Std(n) => out.chunks_exact_mut(4 * n).zip(rows).for_each(|(to, row)| std(network, row, n, to)),
        }
    }
}

fn std<T: Task>(network: &NetworkActor<T>, params: &[f32], n: usize, to: &mut [u8]) {
    let Some(log_std) = network.plan.head.log_std() else { return };
    if network.std.len() == n {
        return to.copy_from_slice(bytemuck::cast_slice(&network.std));
    }
    for (i, to) in to.chunks_exact_mut(4).enumerate() {
        to.copy_from_slice(&crate::math::exp(log_std.of(&[], params, n, i)).to_ne_bytes());
    }
}

/// The columns of a head's distribution: "logits", "mean", "std", "q_values", and "entropy" where it has one in closed
/// form.
pub(crate) fn params_columns<T: Task>(world: &mut World, head: &Head) -> Vec<(ColumnSpec, Box<dyn Source>)> {
    let mut column = |name: &'static str, part: Part| -> (ColumnSpec, Box<dyn Source>) {
        let shape = match part {
            Part::Params(n) | Part::Std(n) => vec![n],
            Part::Entropy => Vec::new(),
        };
        let fields = vec![Field { name: "".into(), dtype: Dtype::F32, shape }];
        let spec = ColumnSpec { name: name.into(), stride: 4 * fields[0].len(), fields, leads: false };
        (spec, Box::new(ParamsSource::<T> { policy: world.query(), part }))
    };
    let n = head.elements();
    match head {
        Head::Categorical { .. } | Head::MultiDiscrete { .. } | Head::MultiBinary { .. } => {
            vec![column("logits", Part::Params(head.params())), column("entropy", Part::Entropy)]
        }
        Head::Gaussian { .. } => {
            vec![column("mean", Part::Params(n)), column("std", Part::Std(n)), column("entropy", Part::Entropy)]
        }
        // Those of the numbers before they are squashed.
        Head::TanhGaussian { .. } => vec![column("mean", Part::Params(n)), column("std", Part::Std(n))],
        Head::Deterministic { .. } => vec![column("mean", Part::Params(n))],
        Head::Q { .. } => vec![column("q_values", Part::Params(head.params())), column("entropy", Part::Entropy)],
    }
}
