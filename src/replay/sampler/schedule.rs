use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A number that changes with the samples that were drawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Schedule {
    /// Always the same.
    Constant(f32),
    /// From one number to another over so many samples, and that one from then on.
    Linear {
        /// The first sample's.
        from: f32,
        /// What it is after `samples` samples.
        to: f32,
        /// 1 or more.
        samples: u64,
    },
    /// Multiplied by a factor every so many samples, until it reaches or goes beyond `to`, which it is from then on.
    Step {
        /// The first sample's.
        from: f32,
        /// The last value.
        to: f32,
        /// What each step multiplies by: more than 0.
        factor: f32,
        /// Samples between two steps: 1 or more.
        samples: u64,
    },
}

impl From<f32> for Schedule {
    fn from(value: f32) -> Self {
        Self::Constant(value)
    }
}

impl Schedule {
    /// The value after so many samples.
    pub fn at(&self, drawn: u64) -> f32 {
        match *self {
            Self::Constant(value) => value,
            Self::Linear { to, samples, .. } if drawn >= samples => to,
            Self::Linear { from, to, samples } => {
                let part = drawn as f64 / samples as f64;
                (f64::from(from) + part * (f64::from(to) - f64::from(from))) as f32
            }
            Self::Step { from, to, factor, samples } => {
                let steps = (drawn / samples.max(1)).min(1 << 30) as i32;
                let value = (f64::from(from) * f64::from(factor).powi(steps)) as f32;
                if from <= to { value.min(to) } else { value.max(to) }
            }
        }
    }

    /// Errors: values of `field` that are negative or not finite, steps that are none.
    pub(super) fn check(&self, field: &'static str, errors: &mut Vec<Error>) {
        let (values, factor, every) = match *self {
            Self::Constant(value) => ([value; 2], 1.0, 1),
            Self::Linear { from, to, samples } => ([from, to], 1.0, samples),
            Self::Step { from, to, factor, samples } => ([from, to], factor, samples),
        };
        if let Some(bad) = values.into_iter().find(|value| !(value.is_finite() && *value >= 0.0)) {
            errors.push(Error::config(field, bad, "a finite number from 0 on"));
        }
        if !(factor.is_finite() && factor > 0.0) {
            errors.push(Error::config(field, format!("a step by a factor of {factor}"), "a finite factor above 0"));
        }
        if every == 0 {
            errors.push(Error::config(field, "a change over 0 samples", "1 or more"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_begin_and_end_where_they_say() {
        let values = |schedule: Schedule| [0, 1, 2, 3, 4, 5, u64::MAX].map(|drawn| schedule.at(drawn));
        assert_eq!(values(0.5.into()), [0.5; 7]);
        assert_eq!(values(Schedule::Linear { from: 0.0, to: 1.0, samples: 4 }), [0.0, 0.25, 0.5, 0.75, 1.0, 1.0, 1.0]);
        let up = Schedule::Step { from: 0.25, to: 0.75, factor: 2.0, samples: 2 };
        assert_eq!(values(up), [0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 0.75]);
        let down = Schedule::Step { from: 1.0, to: 0.3, factor: 0.5, samples: 1 };
        assert_eq!(values(down), [1.0, 0.5, 0.3, 0.3, 0.3, 0.3, 0.3]);
    }
}
