//! What the classic-control tasks share.

use crate::seed::{Stream, unit};

/// Two numbers, uniform in `[low, high)`, from one draw.
///
/// Panics, as Gymnasium raises, unless `low ≤ high`: the options of a reset are known no earlier.
#[inline]
pub(super) fn uniform_pair(stream: &mut Stream, low: f32, high: f32) -> [f32; 2] {
    let [pair] = uniform_pairs(stream, low, high);
    pair
}

/// Two such numbers from each of `N` draws.
#[inline]
pub(super) fn uniform_pairs<const N: usize>(stream: &mut Stream, low: f32, high: f32) -> [[f32; 2]; N] {
    check_bounds(low, high);
    stream.pairs().map(|pair| pair.map(|word| low + (high - low) * unit(word)))
}

/// The same for those of `streams` that `rows` gives, many side by side: one draw's operations wait for each other.
#[inline(always)]
pub(super) fn uniform_pairs_of<const N: usize>(
    streams: &mut [Stream],
    low: f32,
    high: f32,
    mut rows: impl Iterator<Item = usize>,
    mut each: impl FnMut(usize, [[f32; 2]; N]),
) {
    const LANES: usize = 16;
    while let Some(first) = rows.next() {
        let (mut places, mut count) = ([first; LANES], 1);
        check_bounds(low, high);
        for row in rows.by_ref().take(LANES - 1) {
            places[count] = row;
            count += 1;
        }
        let words: [[[u32; LANES]; 2]; N] = Stream::pairs_of(streams, &places);
        let mut pairs = [[[0.0; 2]; N]; LANES];
        for draw in 0..N {
            for word in 0..2 {
                for lane in 0..LANES {
                    pairs[lane][draw][word] = low + (high - low) * unit(words[draw][word][lane]);
                }
            }
        }
        for (row, pairs) in places.into_iter().zip(pairs).take(count) {
            each(row, pairs);
        }
    }
}

fn check_bounds(low: f32, high: f32) {
    assert!(low <= high, "options of reset: low is {low}, high is {high}; legal: low ≤ high");
}

/// The angle in `[-π, π]`, for up to some thousand turns.
///
/// Rounds by adding and subtracting 1.5 · 2²³: unlike `f32::round` that vectorises on every target.
#[inline(always)]
pub(super) fn wrap_angle(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0;
    const TURN: f32 = 1.0 / std::f32::consts::TAU;
    // 2π in two parts, the first short, so that its product with the turns is exact.
    const TAU: [f32; 2] = [6.281_25, 1.935_307_2e-3];
    let turns = (x * TURN + ROUND) - ROUND;
    (x - turns * TAU[0]) - turns * TAU[1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{Purpose, Seed};

    #[test]
    fn wraps_to_the_nearest_turn() {
        for i in -100_000..100_000 {
            let x = i as f32 * 1e-3;
            let exact = f64::from(x) - (f64::from(x) / std::f64::consts::TAU).round() * std::f64::consts::TAU;
            let error = (f64::from(wrap_angle(x)) - exact).abs();
            // On the seam both ends are right.
            assert!(error < 1e-6 || (error - std::f64::consts::TAU).abs() < 1e-5, "{x}: {}", wrap_angle(x));
        }
    }

    #[test]
    #[should_panic = "low is 1, high is -1; legal: low ≤ high"]
    fn reversed_bounds_are_named() {
        uniform_pair(&mut Stream::new(Seed(0), 0, Purpose::Env, 0), 1.0, -1.0);
    }
}
