//! Parameters of the action distribution as recorded columns.

use bevy_ecs::prelude::*;

use super::actor::{Actor, ActorKind};
use crate::{
    components::{ColumnSpec, Source},
    data::{Dtype, Field},
    policy::plan::Head,
    task::Task,
};

/// Records logits, means or standard deviations.
struct ParamsSource<T: Task> {
    policy: QueryState<&'static Actor<T>>,
    std: bool,
}

impl<T: Task> Source for ParamsSource<T> {
    fn record(&mut self, world: &World, _in_order: bool, out: &mut [u8]) {
        let Ok(actor) = self.policy.single(world) else { return };
        let ActorKind::Network(network) = &actor.kind else { return };
        if self.std {
            let std: &[u8] = bytemuck::cast_slice(&network.std);
            out.chunks_exact_mut(std.len().max(1)).for_each(|row| row.copy_from_slice(std));
        } else if let Some(recorded) = &network.recorded {
            let bytes: &[u8] = bytemuck::cast_slice(recorded);
            let n = bytes.len().min(out.len());
            out[..n].copy_from_slice(&bytes[..n]);
        }
    }
}

/// The columns of a head's parameters: "logits", or "mean" and "std".
pub(crate) fn params_columns<T: Task>(world: &mut World, head: &Head) -> Vec<(ColumnSpec, Box<dyn Source>)> {
    let mut column = |name: &'static str, std: bool| -> (ColumnSpec, Box<dyn Source>) {
        let fields = vec![Field { name: "", dtype: Dtype::F32, shape: vec![head.params()] }];
        let spec = ColumnSpec { name, fields, stride: 4 * head.params(), leads: false };
        (spec, Box::new(ParamsSource::<T> { policy: world.query(), std }))
    };
    match head {
        Head::Categorical { .. } => vec![column("logits", false)],
        Head::Gaussian { .. } => vec![column("mean", false), column("std", true)],
    }
}
