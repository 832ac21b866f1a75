//! Estimators on plain slices: what follows what, and the recursions along it.

use super::{batch::Batch, block::Layout};
use crate::{
    components::{End, Flags},
    error::Error,
    task::Task,
};

/// What follows the frame of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The slot holds no frame: nothing of it is read, its results are 0.
    Empty,
    /// The task ended: nothing follows that has a value.
    Terminal,
    /// The episode was cut, or goes on elsewhere: the value of the real next observation stands for what follows.
    Edge,
    /// The next frame of the episode is one stride later.
    Next,
}

/// Which slot follows which: all that an estimator must know of a layout.
///
/// ```
/// use gleaner::{components::{End, Flags, Truncation}, rollout::Chain};
/// // One row: two frames, then a cut by the step limit.
/// let ends = [End::RUNNING, End::truncated_by(Truncation::StepLimit)];
/// let chain = Chain::new(&ends, &[Flags::VALID; 2], 1)?;
/// let gae = chain.gae(&[0.0, 0.0], &[1.0, 1.0], &[1.0, 1.0], 0.9, 0.0)?;
/// assert!((gae.advantages[1] - -0.1).abs() < 1e-6);
/// # Ok::<(), gleaner::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    links: Vec<Link>,
    stride: usize,
}

/// Advantages and the targets of values, a number a slot; 0 in slots without a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// How much better than the value each action was.
    pub advantages: Vec<f32>,
    /// What the value of each observation should have been.
    pub targets: Vec<f32>,
}

/// Options of V-trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VTrace {
    /// Discount, 0 to 1. Default: 0.99.
    pub gamma: f32,
    /// Factor of each trace, 0 to 1: λ of the paper's remark 2. Default: 1.
    pub lambda: f32,
    /// Bound ρ̄ of the importance ratio in the temporal differences, above 0. Default: 1.
    pub rho_clip: f32,
    /// Bound c̄ of the importance ratio in the traces, above 0. Default: 1.
    pub c_clip: f32,
}

impl Default for VTrace {
    fn default() -> Self {
        Self { gamma: 0.99, lambda: 1.0, rho_clip: 1.0, c_clip: 1.0 }
    }
}

impl Chain {
    /// From how frames ended and which slots hold one, where the frame after slot `i` would be slot `i + stride`: the
    /// number of rows for `[ticks, rows]`, 1 for `[frames]` and `[trajectories, length]`. Errors: [`Error::Config`] for
    /// slices of different lengths, and for a stride that does not divide them.
    pub fn new(ends: &[End], flags: &[Flags], stride: usize) -> Result<Self, Error> {
        same_length("flags", flags.len(), ends.len())?;
        if stride == 0 || !ends.len().is_multiple_of(stride) {
            return Err(Error::config("stride", stride, format!("a divisor of {} slots", ends.len())));
        }
        let follows = |i: usize| flags.get(i + stride).is_some_and(|flags| flags.valid());
        let links = (0..ends.len()).map(|i| link(ends[i], flags[i], || follows(i))).collect();
        Ok(Self { links, stride })
    }

    /// The chain of a batch, in any layout. Frames that [`Batch::select`] tore from their successors are edges.
    pub fn of<T: Task>(batch: &Batch<T>) -> Self {
        let stride = match batch.layout() {
            Layout::TimeMajor { rows, .. } => rows.max(1),
            Layout::Flat { .. } | Layout::Padded { .. } => 1,
        };
        let (ends, flags, ids, steps) = (batch.ends(), batch.flags(), batch.trajectory_ids(), batch.steps());
        let follows = |i: usize| {
            let next = i + stride;
            let valid = flags.get(next).is_some_and(|flags| flags.valid());
            valid && ids[next] == ids[i] && steps[next].0 == steps[i].0.wrapping_add(1)
        };
        let links = (0..batch.len()).map(|i| link(ends[i], flags[i], || follows(i))).collect();
        Self { links, stride }
    }

    /// What follows each slot.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Discounted sums of the rewards from each frame to the end of its chain, without a bootstrap value: what was
    /// really received. Errors: [`Error::Config`] for a slice with other than a number a slot, and for a `gamma`
    /// outside 0 to 1.
    pub fn rewards_to_go(&self, rewards: &[f32], gamma: f32) -> Result<Vec<f32>, Error> {
        self.check([("rewards", rewards)], [("gamma", gamma)])?;
        let mut sums = vec![0.0; rewards.len()];
        self.backward(|i, next| store(&mut sums[i], f64::from(rewards[i]) + f64::from(gamma) * next.unwrap_or(0.0)));
        Ok(sums)
    }

    /// Discounted returns from each frame: as [`rewards_to_go`](Self::rewards_to_go), and at an edge the discounted
    /// value of the real next observation. Errors: those of `rewards_to_go`.
    pub fn returns_to_go(&self, rewards: &[f32], next_values: &[f32], gamma: f32) -> Result<Vec<f32>, Error> {
        self.check([("rewards", rewards), ("next_values", next_values)], [("gamma", gamma)])?;
        let mut sums = vec![0.0; rewards.len()];
        self.backward(|i, next| {
            let next = next.unwrap_or_else(|| self.after(i, next_values));
            store(&mut sums[i], f64::from(rewards[i]) + f64::from(gamma) * next)
        });
        Ok(sums)
    }

    /// `n`-step returns (Sutton and Barto 2018, equation 7.1): the rewards of up to `n` frames, then the value of the
    /// real next observation, unless the task ended. Fewer than `n` where the chain ends. Errors: those of
    /// [`rewards_to_go`](Self::rewards_to_go); [`Error::Config`] for an `n` of 0.
    pub fn n_step(&self, rewards: &[f32], next_values: &[f32], n: usize, gamma: f32) -> Result<Vec<f32>, Error> {
        self.check([("rewards", rewards), ("next_values", next_values)], [("gamma", gamma)])?;
        if n == 0 {
            return Err(Error::config("n", 0, "1 or more"));
        }
        let gamma = f64::from(gamma);
        let from = |start: usize| {
            let (mut sum, mut discount, mut i) = (0.0, 1.0, start);
            for left in (0..n).rev() {
                sum += discount * f64::from(rewards[i]);
                discount *= gamma;
                if left == 0 || self.links[i] != Link::Next {
                    break;
                }
                i += self.stride;
            }
            (sum + discount * self.after(i, next_values)) as f32
        };
        let frames = self.links.iter().enumerate();
        Ok(frames.map(|(i, link)| if *link == Link::Empty { 0.0 } else { from(i) }).collect())
    }

    /// Generalised advantage estimation (Schulman et al. 2016, equation 16): `Â = δ + γλ Â'` with
    /// `δ = r + γ V' - V`. Targets are `Â + V`, the λ-returns. Errors: [`Error::Config`] for a slice with other than a
    /// number a slot, and for a `gamma` or `lambda` outside 0 to 1.
    pub fn gae(
        &self,
        rewards: &[f32],
        values: &[f32],
        next_values: &[f32],
        gamma: f32,
        lambda: f32,
    ) -> Result<Estimate, Error> {
        let columns = [("rewards", rewards), ("values", values), ("next_values", next_values)];
        self.check(columns, [("gamma", gamma), ("lambda", lambda)])?;
        let (gamma, trace) = (f64::from(gamma), f64::from(gamma) * f64::from(lambda));
        let mut estimate = Estimate::zeros(rewards.len());
        self.backward(|i, next| {
            let value = f64::from(values[i]);
            let delta = f64::from(rewards[i]) + gamma * self.after(i, next_values) - value;
            let advantage = delta + trace * next.unwrap_or(0.0);
            store(&mut estimate.targets[i], advantage + value);
            store(&mut estimate.advantages[i], advantage)
        });
        Ok(estimate)
    }

    /// V-trace (Espeholt et al. 2018, equation 1 in its recursive form, remark 1): with the ratios
    /// `π(a|x) / μ(a|x) = exp(log_ratios)`, `v - V = ρδ + γ c (v' - V')`. Advantages are those of the policy gradient,
    /// `ρ (r + γ v' - V)`; targets are `v`. At an edge `v'` is the value of the real next observation. Errors:
    /// [`Error::Config`] for a slice with other than a number a slot, and for an option out of its bounds.
    pub fn vtrace(
        &self,
        rewards: &[f32],
        values: &[f32],
        next_values: &[f32],
        log_ratios: &[f32],
        options: &VTrace,
    ) -> Result<Estimate, Error> {
        let columns =
            [("rewards", rewards), ("values", values), ("next_values", next_values), ("log_ratios", log_ratios)];
        self.check(columns, [("gamma", options.gamma), ("lambda", options.lambda)])?;
        for (name, clip) in [("rho_clip", options.rho_clip), ("c_clip", options.c_clip)] {
            // Infinity is legal: no clipping.
            if clip.is_nan() || clip <= 0.0 {
                return Err(Error::config(name, clip, "a number above 0"));
            }
        }
        let (gamma, lambda) = (f64::from(options.gamma), f64::from(options.lambda));
        let (rho_clip, c_clip) = (f64::from(options.rho_clip), f64::from(options.c_clip));
        let mut estimate = Estimate::zeros(rewards.len());
        self.backward(|i, next| {
            let (reward, value, ratio) = (f64::from(rewards[i]), f64::from(values[i]), f64::from(log_ratios[i]).exp());
            let (rho, trace) = (ratio.min(rho_clip), lambda * ratio.min(c_clip));
            let after = self.after(i, next_values);
            let delta = rho * (reward + gamma * after - value);
            let correction = delta + gamma * trace * next.unwrap_or(0.0);
            let target = next.map_or(after, |next| next + f64::from(values[i + self.stride]));
            estimate.advantages[i] = (rho * (reward + gamma * target - value)) as f32;
            store(&mut estimate.targets[i], value + correction);
            correction
        });
        Ok(estimate)
    }

    /// The value after slot `i`: selected, not multiplied, as the value of what follows a real end may be anything.
    fn after(&self, i: usize, next_values: &[f32]) -> f64 {
        if self.links[i] == Link::Terminal { 0.0 } else { f64::from(next_values[i]) }
    }

    /// Calls `step` for each frame, the last tick first, with what it returned for the frame that follows.
    fn backward(&self, mut step: impl FnMut(usize, Option<f64>) -> f64) {
        let mut after = vec![0.0; self.stride];
        for start in (0..self.links.len()).step_by(self.stride).rev() {
            for (slot, after) in after.iter_mut().enumerate() {
                let link = self.links[start + slot];
                if link != Link::Empty {
                    *after = step(start + slot, (link == Link::Next).then_some(*after));
                }
            }
        }
    }

    fn check<const C: usize, const F: usize>(
        &self,
        columns: [(&'static str, &[f32]); C],
        factors: [(&'static str, f32); F],
    ) -> Result<(), Error> {
        for (name, column) in columns {
            same_length(name, column.len(), self.links.len())?;
        }
        match factors.into_iter().find(|(_, factor)| !(0.0..=1.0).contains(factor)) {
            Some((name, factor)) => Err(Error::config(name, factor, "0 to 1")),
            None => Ok(()),
        }
    }
}

impl Estimate {
    fn zeros(slots: usize) -> Self {
        Self { advantages: vec![0.0; slots], targets: vec![0.0; slots] }
    }
}

fn link(end: End, flags: Flags, follows: impl FnOnce() -> bool) -> Link {
    match end {
        _ if !flags.valid() => Link::Empty,
        end if end.terminated() => Link::Terminal,
        end if !end.truncated() && follows() => Link::Next,
        _ => Link::Edge,
    }
}

/// Recursions go on in f64, so that long episodes lose nothing.
fn store(place: &mut f32, x: f64) -> f64 {
    *place = x as f32;
    x
}

fn same_length(name: &'static str, have: usize, want: usize) -> Result<(), Error> {
    if have == want {
        Ok(())
    } else {
        Err(Error::config(name, format!("{have} elements"), format!("{want}, one a slot")))
    }
}
