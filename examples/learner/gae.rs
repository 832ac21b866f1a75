//! Advantages.

use gleaner::{components::Flags, prelude::*};

/// Generalised advantage estimation (Schulman et al. 2016) of time-major columns, `[ticks, rows]`; `next_values` are the
/// values of the real observation after each frame.
///
/// A frame that terminated has no value after it; one that was truncated has, but the sum of later errors ends there.
pub fn gae(batch: &Columns<'_>, next_values: &[f32], rows: usize, gamma: f32, lambda: f32) -> Vec<f32> {
    let mut advantages = vec![0.0; batch.rewards.len()];
    for i in (0..advantages.len()).rev() {
        if !batch.flags[i].valid() {
            continue;
        }
        let end = batch.ends[i];
        let next_value = if end.terminated() { 0.0 } else { next_values[i] };
        let error = batch.rewards[i] + gamma * next_value - batch.values[i];
        let later = if end.done() { 0.0 } else { advantages.get(i + rows).copied().unwrap_or(0.0) };
        advantages[i] = error + gamma * lambda * later;
    }
    advantages
}

/// Columns of a batch that the estimate needs.
pub struct Columns<'a> {
    pub rewards: &'a [f32],
    pub values: &'a [f32],
    pub ends: &'a [End],
    pub flags: &'a [Flags],
}
