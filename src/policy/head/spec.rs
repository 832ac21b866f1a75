//! A head as a file describes it, and which action space takes which.

use serde::{Deserialize, Serialize};

use super::{Annealed, Head, LogStd, MAX_ELEMENTS, Noise};
use crate::{
    data::{Dtype, Field},
    error::Error,
    policy::{network::MAX_WIDTH, resolve::error},
    space::Space,
};

/// What turns parameters into actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum HeadSpec {
    /// By the action space: [`Categorical`](Self::Categorical), [`MultiDiscrete`](Self::MultiDiscrete),
    /// [`MultiBinary`](Self::MultiBinary), or `Gaussian(log_std: Free(0.0))`.
    #[default]
    Auto,
    /// One logit an action. Discrete spaces only.
    Categorical,
    /// A categorical distribution an element. Multi-discrete spaces only.
    MultiDiscrete,
    /// A probability a bit. Multi-binary spaces only.
    MultiBinary,
    /// A mean and a deviation an element. Boxes of `f32` only.
    Gaussian {
        /// `Free(initial)` for a tensor, `Network()` for parameters of the network.
        log_std: LogStd,
    },
    /// The same, squashed to the box. Boxes of `f32` with finite bounds only.
    TanhGaussian {
        /// As above.
        log_std: LogStd,
    },
    /// The action itself. Boxes of `f32` only; the environment gets it clipped to the box.
    Deterministic {
        /// What is added for exploration.
        noise: Noise,
    },
    /// The same, squashed to the box by a tanh, as the actors of DDPG and TD3: with the box's half width `s` an element is
    /// `centre + s · clip(tanh(x) + noise, -1, 1)`. Boxes of `f32` with finite bounds only.
    TanhDeterministic {
        /// What is added for exploration, in units of half the box's width, as in Stable-Baselines3.
        noise: Noise,
    },
    /// One value an action, of which the greatest is taken. Discrete spaces only.
    Q {
        /// Probability of a random action instead.
        epsilon: Annealed,
    },
}

impl HeadSpec {
    /// Checks what needs no task. Errors: [`Error::Network`] with the field.
    pub(in crate::policy) fn check(&self) -> Result<(), Error> {
        match *self {
            Self::Auto | Self::Categorical | Self::MultiDiscrete | Self::MultiBinary => Ok(()),
            Self::Gaussian { log_std } | Self::TanhGaussian { log_std } => check_log_std(log_std),
            Self::Deterministic { noise } | Self::TanhDeterministic { noise } => check_noise(noise),
            Self::Q { epsilon: Annealed { from, to, .. } } => {
                let ends = [("from", from), ("to", to)];
                match ends.into_iter().find(|(_, x)| !(0.0..=1.0).contains(x)) {
                    Some((end, x)) => Err(error(format!("head.epsilon.{end}"), x, "0 to 1")),
                    None => Ok(()),
                }
            }
        }
    }

    /// The head for an action space. Errors: [`Error::Network`] if they do not go together.
    pub(in crate::policy) fn resolve(self, space: &Space, fields: &[Field]) -> Result<Head, Error> {
        // A struct of one field is stored as that field.
        let space = match space {
            Space::Fields(spaces) if spaces.len() == 1 => &spaces[0].1,
            space => space,
        };
        let floats = fields.first().is_some_and(|field| field.dtype == Dtype::F32);
        let head = match (self, space) {
            (Self::Auto | Self::Categorical, Space::Discrete { n }) => Head::Categorical { n: *n as usize },
            (Self::Auto | Self::MultiDiscrete, Space::MultiDiscrete { n }) => {
                Head::MultiDiscrete { n: n.iter().map(|n| *n as usize).collect() }
            }
            (Self::Auto | Self::MultiBinary, Space::MultiBinary { n }) => Head::MultiBinary { n: *n },
            (Self::Auto, Space::Box { low, .. }) if floats => {
                Head::Gaussian { n: low.len(), log_std: LogStd::Free(0.0) }
            }
            (Self::Gaussian { log_std }, Space::Box { low, .. }) if floats => Head::Gaussian { n: low.len(), log_std },
            (Self::TanhGaussian { log_std }, Space::Box { low, high }) if floats => {
                bounded(low, high)?;
                Head::TanhGaussian { low: low.clone(), high: high.clone(), log_std }
            }
            (Self::Deterministic { noise }, Space::Box { low, .. }) if floats => {
                Head::Deterministic { n: low.len(), noise, squash: None }
            }
            (Self::TanhDeterministic { noise }, Space::Box { low, high }) if floats => {
                bounded(low, high)?;
                Head::Deterministic { n: low.len(), noise, squash: Some([low.clone(), high.clone()]) }
            }
            (Self::Q { epsilon }, Space::Discrete { n }) => Head::Q { n: *n as usize, epsilon },
            _ => return Err(self.unfit(space, floats)),
        };
        let (field, most) = if head.elements() > 1 { ("elements", MAX_ELEMENTS) } else { ("actions", MAX_WIDTH) };
        if !(1..=MAX_ELEMENTS).contains(&head.elements()) || !(1..=MAX_WIDTH).contains(&head.params()) {
            return Err(error("action space", space, format!("1 to {most} {field}")));
        }
        Ok(head)
    }

    fn unfit(self, space: &Space, floats: bool) -> Error {
        let legal = match space {
            Space::Discrete { .. } => "Auto, Categorical or Q(…)",
            Space::MultiDiscrete { .. } => "Auto or MultiDiscrete",
            Space::MultiBinary { .. } => "Auto or MultiBinary",
            Space::Box { .. } if floats => {
                "Auto, Gaussian(…), TanhGaussian(…), Deterministic(…) or TanhDeterministic(…)"
            }
            _ => {
                let legal = "discrete(n), multi-discrete, multi-binary, a box of f32, or a struct of these; a function \
                             policy may use any space";
                return error("action space", space, legal);
            }
        };
        error("head", format!("{self:?}"), format!("{legal} for {space}"))
    }
}

fn bounded(low: &[f32], high: &[f32]) -> Result<(), Error> {
    let mut bounds = low.iter().zip(high).enumerate();
    match bounds.find(|(_, (low, high))| !(low.is_finite() && high.is_finite() && low < high)) {
        Some((i, (low, high))) => {
            let value = format!("{low} to {high} at element {i}");
            Err(error("action space", value, "finite bounds that differ, for squashed actions"))
        }
        None => Ok(()),
    }
}

fn check_log_std(log_std: LogStd) -> Result<(), Error> {
    match log_std {
        LogStd::Free(start) if !(-20.0..=20.0).contains(&start) => Err(error("head.log_std", start, "-20 to 20")),
        // Written so that NaN fails; 40 is where a deviation's square nears the end of `f32`.
        LogStd::Network { min, max } if !(-40.0 <= min && min <= max && max <= 40.0) => {
            Err(error("head.log_std", format!("{min} to {max}"), "-40 to 40, min up to max"))
        }
        _ => Ok(()),
    }
}

fn check_noise(noise: Noise) -> Result<(), Error> {
    let least = |name: &str, x: f32| match x {
        x if x >= 0.0 && x.is_finite() => Ok(()),
        x => Err(error(format!("head.noise.{name}"), x, "a finite number, at least 0")),
    };
    match noise {
        Noise::None => Ok(()),
        Noise::Gaussian { std } => least("std", std),
        Noise::OrnsteinUhlenbeck { theta, sigma, dt } => {
            least("theta", theta)?;
            least("sigma", sigma)?;
            least("dt", dt)?;
            if dt > 0.0 && theta * dt < 2.0 {
                return Ok(());
            }
            Err(error("head.noise.dt", dt, format!("above 0, and below 2 / theta, which is {}", 2.0 / theta)))
        }
    }
}
