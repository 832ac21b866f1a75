//! How good a policy is without exploration.

use std::collections::BTreeMap;

use gleaner::prelude::*;

use super::Result;

/// Mean return of `episodes` episodes, one in each row of a fresh collector, under the mode of the distribution.
///
/// The first episode of each row counts: the first that end, whatever their row, would be the short ones.
pub fn evaluate<E: Env + Default>(policy: Policy<E>, episodes: usize, seed: u64) -> Result<f32> {
    let mut collector = Collector::<E>::builder()
        .policy(policy)
        .rows(episodes)
        .trajs_per_batch(episodes)
        .exploration(Exploration::Mode)
        .seed(seed)
        .build()?;
    let mut returns = BTreeMap::new();
    while returns.len() < episodes {
        let batch = collector.next().ok_or("an endless collector ended")??;
        for trajectory in batch.trajectories() {
            returns.entry(trajectory.row.0).or_insert(trajectory.total_reward);
        }
    }
    Ok(returns.values().sum::<f32>() / episodes as f32)
}
