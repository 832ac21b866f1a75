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

impl Part {
    /// Bytes of a row's value.
    fn bytes(self) -> usize {
        match self {
            Self::Params(n) | Self::Std(n) => 4 * n,
            Self::Entropy => 4,
        }
    }
}

impl<T: Task> Source for ParamsSource<T> {
    fn record(&mut self, world: &World, _in_order: bool, out: &mut [u8]) {
        for actor in self.policy.iter(world) {
            let (first, count) = (actor.duty.rows.start as usize, actor.duty.rows.len());
            let to = out.chunks_exact_mut(self.part.bytes()).skip(first).take(count);
            let network = if let ActorKind::Network(network) = &actor.kind { Some(network) } else { None };
            let Some((network, recorded)) = network.and_then(|network| Some((network, network.recorded.as_ref()?)))
            else {
                // An arena may hold what another rollout had there.
                to.for_each(|to| to.fill(0));
                continue;
            };
            let width = network.plan.head.params();
            let rows = recorded.params.chunks_exact(width).zip(&recorded.entropies).skip(first);
            for (to, (params, entropy)) in to.zip(rows) {
                match self.part {
                    Part::Entropy => to.copy_from_slice(&entropy.to_ne_bytes()),
                    Part::Params(n) => to.copy_from_slice(bytemuck::cast_slice(&params[..n])),
                    Part::Std(n) => std(network, params, n, to),
                }
            }
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

/// The columns of a head's distribution: "logits", "mean", "std", "q_values", for a struct "params", and "entropy", which
/// of a squashed Gaussian is an estimate, see [`Head::entropies`]. A deterministic head has none.
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
        // Of a squashed one they are those of the numbers before the squash, but for the entropy.
        Head::Gaussian { .. } | Head::TanhGaussian { .. } => {
            vec![column("mean", Part::Params(n)), column("std", Part::Std(n)), column("entropy", Part::Entropy)]
        }
        Head::Deterministic { .. } => vec![column("mean", Part::Params(n))],
        Head::Q { .. } => vec![column("q_values", Part::Params(head.params())), column("entropy", Part::Entropy)],
        Head::Fields { .. } => vec![column("params", Part::Params(head.params())), column("entropy", Part::Entropy)],
    }
}
