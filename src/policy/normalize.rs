//! Running normalisation of observations, a stage before the first layer: recorded observations stay raw.

use serde::{Deserialize, Serialize};

use crate::{data::finite, error::Error};

/// Added to the variance, as in Stable-Baselines3's `VecNormalize`.
pub const EPSILON: f64 = 1e-8;

/// Statistics of all observations so far, summed in f64 one row after the other (Welford, "Note on a method for
/// calculating corrected sums of squares and products", 1962), so that they do not depend on how rows are split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunningNorm {
    /// Rows summed.
    pub count: u64,
    /// Mean of each element.
    pub mean: Vec<f64>,
    /// Sum of squared distances from the mean, of each element.
    pub m2: Vec<f64>,
    /// Bound of a normalised element's magnitude.
    pub clip: f32,
    /// Whether [`update`](Self::update) does nothing, as in evaluation. Default: false.
    #[serde(default)]
    pub frozen: bool,
}

/// A [`RunningNorm`] at one moment, to be applied to rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Normalizer {
    /// Mean of each element.
    pub mean: Vec<f32>,
    /// `1 / √(variance + ε)` of each element.
    pub inv_std: Vec<f32>,
    /// Bound of a result's magnitude.
    pub clip: f32,
}

impl RunningNorm {
    /// Statistics of no row of `width` elements.
    pub fn new(width: usize, clip: f32) -> Self {
        Self { count: 0, mean: vec![0.0; width], m2: vec![0.0; width], clip, frozen: false }
    }

    /// Checks statistics that were read from a file against a row's width. Errors: [`Error::Network`] with the field.
    pub fn check(&self, width: usize) -> Result<(), Error> {
        let error = |field: &str, value: String, legal: String| {
            Err(Error::Network { field: format!("normalize.{field}"), value, legal })
        };
        for (field, values) in [("mean", &self.mean), ("m2", &self.m2)] {
            if values.len() != width {
                return error(field, format!("{} elements", values.len()), format!("{width} elements"));
            }
            let wrong = |x: &f64| !x.is_finite() || (field == "m2" && *x < 0.0);
            if let Some(i) = values.iter().position(wrong) {
                return error(&format!("{field}[{i}]"), values[i].to_string(), "a finite number; m2 at least 0".into());
            }
        }
        if !(self.clip > 0.0 && self.clip.is_finite()) {
            return error("clip", self.clip.to_string(), "a finite number above 0".into());
        }
        Ok(())
    }

    /// Adds `rows` (`[rows, width]`) in their order. Rows with `valid(row) == false` and rows with a number that is
    /// not finite are left out.
    pub fn update(&mut self, rows: &[f32], valid: impl Fn(usize) -> bool) {
        if self.frozen || self.mean.is_empty() {
            return;
        }
        for (i, row) in rows.chunks_exact(self.mean.len()).enumerate() {
            if !valid(i) || !row.iter().fold(true, |all, x| all & finite(*x)) {
                continue;
            }
            self.count += 1;
            let share = 1.0 / self.count as f64;
            for ((x, mean), m2) in row.iter().zip(&mut self.mean).zip(&mut self.m2) {
                let before = f64::from(*x) - *mean;
                *mean += before * share;
                *m2 += before * (f64::from(*x) - *mean);
            }
        }
    }

    /// What the statistics amount to now; with fewer than two rows every deviation counts as 1.
    pub fn snapshot(&self) -> Normalizer {
        let inv_std = |m2: &f64| match self.count {
            0 | 1 => 1.0,
            count => (1.0 / (m2 / count as f64 + EPSILON).sqrt()) as f32,
        };
        Normalizer {
            mean: self.mean.iter().map(|x| *x as f32).collect(),
            inv_std: self.m2.iter().map(inv_std).collect(),
            clip: self.clip,
        }
    }
}

impl Normalizer {
    /// Checks one that was read from a file against a row's width. Errors: [`Error::Network`] with the field.
    pub(crate) fn check(&self, width: usize) -> Result<(), Error> {
        for (field, values) in [("mean", &self.mean), ("inv_std", &self.inv_std)] {
            if values.len() != width || !values.iter().all(|x| finite(*x)) || self.clip.is_nan() || self.clip <= 0.0 {
                let (field, value) = (format!("normalize.{field}"), format!("{values:?}"));
                return Err(Error::Network {
                    field,
                    value,
                    legal: format!("{width} finite numbers, and a clip above 0"),
                });
            }
        }
        Ok(())
    }

    /// Normalises rows in place, `[rows, width]`: `clip((x - mean) · inv_std)`. NaN stays NaN.
    #[inline]
    pub fn apply(&self, rows: &mut [f32]) {
        for row in rows.chunks_exact_mut(self.mean.len().max(1)) {
            for ((x, mean), inv_std) in row.iter_mut().zip(&self.mean).zip(&self.inv_std) {
                *x = ((*x - mean) * inv_std).clamp(-self.clip, self.clip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_are_those_of_the_rows() {
        let rows: Vec<f32> = (0..2_000).map(|i| ((i * 37) % 101) as f32 * if i % 2 == 0 { 1.0 } else { 1e3 }).collect();
        let mut norm = RunningNorm::new(2, 10.0);
        norm.update(&rows, |_| true);
        for element in 0..2 {
            let values: Vec<f64> = rows.iter().skip(element).step_by(2).map(|x| f64::from(*x)).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / values.len() as f64;
            assert!((norm.mean[element] - mean).abs() < 1e-9 * mean);
            assert!((norm.m2[element] / norm.count as f64 - variance).abs() < 1e-9 * variance);
        }
        let normalizer = norm.snapshot();
        let mut row = [norm.mean[0] as f32, 1e9];
        normalizer.apply(&mut row);
        assert!(row[0].abs() < 1e-6);
        assert_eq!(row[1], 10.0);
    }

    #[test]
    fn a_split_gives_the_same_bits() {
        let rows: Vec<f32> = (0..900).map(|i| (i as f32).sin() * 3.0).collect();
        let (mut whole, mut parts) = (RunningNorm::new(3, 5.0), RunningNorm::new(3, 5.0));
        whole.update(&rows, |_| true);
        for part in rows.chunks(3 * 7) {
            parts.update(part, |_| true);
        }
        assert_eq!(whole, parts);
    }

    #[test]
    fn invalid_and_not_finite_rows_are_left_out() {
        let (mut norm, mut without) = (RunningNorm::new(1, 5.0), RunningNorm::new(1, 5.0));
        norm.update(&[1.0, 1e30, 2.0, f32::NAN, f32::INFINITY, 4.0], |row| row != 1);
        without.update(&[1.0, 2.0, 4.0], |_| true);
        assert_eq!(norm, without);
    }

    #[test]
    fn fewer_than_two_rows_leave_the_scale_alone() {
        let mut norm = RunningNorm::new(1, 5.0);
        assert_eq!(norm.snapshot(), Normalizer { mean: vec![0.0], inv_std: vec![1.0], clip: 5.0 });
        norm.update(&[3.0], |_| true);
        assert_eq!(norm.snapshot(), Normalizer { mean: vec![3.0], inv_std: vec![1.0], clip: 5.0 });
    }

    #[test]
    fn frozen_statistics_stay() {
        let mut norm = RunningNorm::new(1, 5.0);
        norm.update(&[3.0, 4.0], |_| true);
        norm.frozen = true;
        let before = norm.clone();
        norm.update(&[100.0], |_| true);
        assert_eq!(norm, before);
    }

    #[test]
    fn statistics_survive_a_file_and_are_checked() {
        let mut norm = RunningNorm::new(2, 5.0);
        norm.update(&[0.1, 2.0, 0.3, 5.0], |_| true);
        let text = ron::to_string(&norm).unwrap();
        let mut read: RunningNorm = ron::from_str(&text).unwrap();
        assert_eq!(read, norm);
        read.check(2).unwrap();
        assert!(read.check(3).unwrap_err().to_string().contains("normalize.mean is 2 elements; legal: 3"));
        read.m2[1] = f64::NAN;
        assert!(read.check(2).unwrap_err().to_string().contains("normalize.m2[1] is NaN"));
    }
}
