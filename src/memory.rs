//! Memory that a collector will need, reckoned before any of it is allocated.

use crate::{
    components::ColumnSpec,
    config::CollectorConfig,
    error::Error,
    policy::{CpuNetwork, plan::Plan},
    task::Task,
};

/// Bytes of a row beside what its task's types say: counters, streams, entity.
const ROW: usize = 160;

/// Bytes of the columns of a rollout.
pub(crate) fn rollout_bytes(specs: &[ColumnSpec], rows: usize, ticks: usize) -> usize {
    let frame: usize = specs.iter().map(|spec| spec.stride).sum();
    let slots = rows.saturating_mul(ticks);
    // Columns that lead have one tick more.
    let more: usize = specs.iter().filter(|spec| spec.leads).map(|spec| spec.stride).sum();
    frame.saturating_mul(slots).saturating_add(rows.saturating_mul(more))
}

/// Compares rows, one rollout and the networks with `max_memory`. The error names the largest of them.
pub(crate) fn check<T: Task>(
    config: &CollectorConfig,
    specs: &[ColumnSpec],
    plans: &[Option<Plan>],
    max_memory: usize,
) -> Result<(), Error> {
    let rows = config.rows;
    let row = ROW + 2 * size_of::<T::Observation>() + size_of::<T::Action>() + size_of::<T::Mask>();
    // Inputs, parameters, entropy and states of a row, the latter once more where they are recorded.
    let networks = || plans.iter().flatten();
    let scratch: usize = networks().map(|plan| 4 * (plan.inputs + 2 * plan.head.params() + 2 + 4 * plan.state())).sum();
    // A published set, an initial one, and a packed one a thread, which has matrices for some rows too.
    let sets = config.threads.saturating_add(2);
    let network = |plan: &Plan| {
        let matrices = CpuNetwork::scratch_bytes(plan).saturating_mul(config.threads);
        plan.parameters().saturating_mul(4).saturating_mul(sets).saturating_add(matrices)
    };
    let parts = [
        (
            if config.frames_per_batch.is_some() { "frames_per_batch" } else { "rows" },
            rollout_bytes(specs, rows, config.horizon()),
        ),
        ("rows", rows.saturating_mul(row + scratch)),
        ("policy", networks().map(network).fold(0, usize::saturating_add)),
    ];
    let total = parts.iter().fold(0_usize, |sum, (_, bytes)| sum.saturating_add(*bytes));
    if total <= max_memory {
        return Ok(());
    }
    let [rollout, ..] = parts;
    let (field, bytes) = parts.into_iter().fold(rollout, |most, part| if part.1 > most.1 { part } else { most });
    let value = match field {
        "rows" => rows.to_string(),
        "frames_per_batch" => config.effective_frames_per_batch().to_string(),
        _ => {
            let parameters = networks().map(Plan::parameters).fold(0, usize::saturating_add);
            format!("a network of {parameters} parameters on {} threads", config.threads)
        }
    };
    let value = format!("{value}, which takes {bytes} bytes");
    Err(Error::config(field, value, format!("at most {max_memory} bytes for rows, a rollout and networks together")))
}
