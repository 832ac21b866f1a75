//! Whether draws have the chances that they should have.

use std::{collections::BTreeMap, fmt::Debug};

/// Draws against chances by Pearson's chi-square: within five standard deviations of what chance gives, and nothing that
/// has no chance. Chances need not sum up to 1.
pub fn chi_square<K: Ord + Debug>(drawn: impl IntoIterator<Item = K>, chances: &BTreeMap<K, f64>) {
    let mut counts: BTreeMap<K, u64> = BTreeMap::new();
    drawn.into_iter().for_each(|key| *counts.entry(key).or_default() += 1);
    let odd: Vec<_> = counts.keys().filter(|key| !chances.contains_key(key)).collect();
    assert!(odd.is_empty(), "drawn without a chance: {odd:?}");
    let (all, sum) = (counts.values().sum::<u64>() as f64, chances.values().sum::<f64>());
    let square: f64 = chances
        .iter()
        .map(|(key, chance)| {
            let expected = all * chance / sum;
            assert!(expected >= 5.0, "too few draws for {key:?}");
            (counts.get(key).copied().unwrap_or(0) as f64 - expected).powi(2) / expected
        })
        .sum();
    let freedom = chances.len() as f64 - 1.0;
    assert!(square < freedom + 5.0 * (2.0 * freedom).sqrt() + 5.0, "chi-square {square} of {freedom}: {counts:?}");
}
