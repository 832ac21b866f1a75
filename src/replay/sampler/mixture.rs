use std::fmt;

use crate::{
    error::Error,
    replay::{
        Sample, Sampler,
        draws::Draws,
        sampling::{Frozen, Own, Sealed, Staged},
    },
    task::Task,
};

/// Samples of several buffers as one: each pick comes from one of several samplers, by chance or in fixed parts. It is
/// [saved](crate::replay::Replay::save) with each of its buffers.
///
/// ```
/// use gleaner::{prelude::*, replay::{Replay, sampler::Mixture}};
///
/// let buffers = [Replay::<CartPole>::new(1_000)?, Replay::<CartPole>::new(1_000)?];
/// for (replay, seed) in buffers.iter().zip(0..) {
///     for batch in Collector::<CartPole>::builder().seed(seed).total_frames(500).build()? {
///         replay.extend(&batch?)?;
///     }
/// }
/// let [old, new] = [&buffers[0], &buffers[1]].map(|replay| replay.sampler().build());
/// let mut mixture = Mixture::fixed([(old?, 1.0), (new?, 3.0)])?;
/// let sample = mixture.sample(32)?;
/// assert_eq!(sample.buffers().iter().filter(|buffer| **buffer == 1).count(), 24);
/// # Ok::<(), gleaner::Error>(())
/// ```
pub struct Mixture<T: Task> {
    samplers: Vec<Sampler<T>>,
    shares: Vec<f64>,
    /// None if parts are fixed.
    draws: Option<Draws>,
    /// By sampler: picks of the coming sample.
    counts: Vec<usize>,
    part: Sample<T>,
}

impl<T: Task> Mixture<T> {
    /// Every pick comes from a sampler that is drawn by weight, with this seed. Errors: no sampler, a weight that is negative
    /// or not finite, weights of which none is above 0.
    pub fn weighted(samplers: impl IntoIterator<Item = (Sampler<T>, f64)>, seed: u64) -> Result<Self, Error> {
        Self::new(samplers, Some(Draws::stream(seed, 1)))
    }

    /// Every sample has the same parts: of `n` picks each sampler gives its share, rounded so that they sum up to `n`.
    /// Errors: as those of [`weighted`](Self::weighted).
    pub fn fixed(samplers: impl IntoIterator<Item = (Sampler<T>, f64)>) -> Result<Self, Error> {
        Self::new(samplers, None)
    }

    fn new(samplers: impl IntoIterator<Item = (Sampler<T>, f64)>, draws: Option<Draws>) -> Result<Self, Error> {
        let (samplers, mut shares): (Vec<_>, Vec<_>) = samplers.into_iter().unzip();
        let sum: f64 = shares.iter().sum();
        if shares.iter().any(|share| share.is_nan() || *share < 0.0) || !(sum > 0.0 && sum.is_finite()) {
            return Err(Error::config("weights", format!("{shares:?}"), "numbers from 0 on, one of them more"));
        }
        shares.iter_mut().for_each(|share| *share /= sum);
        Ok(Self { counts: vec![0; samplers.len()], samplers, shares, draws, part: Sample::default() })
    }

    /// The samplers, in the order given.
    pub fn samplers(&mut self) -> &mut [Sampler<T>] {
        &mut self.samplers
    }

    /// A sample of `n` picks: those of the first sampler, of the second …; [`Sample::buffers`] says which is whose.
    /// Errors: those of the samplers, and buffers whose columns differ.
    pub fn sample(&mut self, n: usize) -> Result<Sample<T>, Error> {
        let mut sample = Sample::default();
        self.sample_into(n, &mut sample)?;
        Ok(sample)
    }

    /// A sample of `n` picks in the memory of an old one. Errors: those of [`sample`](Self::sample).
    pub fn sample_into(&mut self, n: usize, sample: &mut Sample<T>) -> Result<(), Error> {
        self.share_out(n);
        sample.clear();
        let parts = self.samplers.iter_mut().zip(&self.counts).enumerate();
        for (buffer, (sampler, count)) in parts.filter(|(_, (_, count))| **count > 0) {
            sampler.sample_n(*count, &mut self.part)?;
            sample.append(&self.part, buffer as u32)?;
        }
        Ok(())
    }

    fn share_out(&mut self, n: usize) {
        let Self { shares, counts, draws, .. } = self;
        let Some(draws) = draws else {
            // What was given up to each sampler is the rounded share up to it.
            let (mut upto, mut given) = (0.0, 0);
            for (share, count) in shares.iter().zip(counts) {
                upto += share;
                let end = ((upto * n as f64).round() as usize).min(n);
                (*count, given) = (end - given, end);
            }
            return;
        };
        counts.fill(0);
        let last = shares.iter().rposition(|share| *share > 0.0).unwrap_or(0);
        for _ in 0..n {
            let mut left = draws.unit();
            let drawn = shares.iter().position(|share| {
                left -= share;
                left < 0.0
            });
            counts[drawn.unwrap_or(last)] += 1;
        }
    }
}

impl<T: Task> Sealed<T> for Mixture<T> {
    fn freeze(&self) -> Frozen<'_, T> {
        let own = Own::Mixture { shares: self.shares.clone(), draws: self.draws };
        Frozen { own, samplers: self.samplers.iter().map(Sampler::still).collect() }
    }

    fn restore(&mut self, staged: Staged<T>) {
        if let Own::Mixture { draws, .. } = staged.own {
            self.draws = draws;
        }
        staged.samplers.into_iter().for_each(|(place, sampler)| self.samplers[place].resume(sampler));
    }
}

impl<T: Task> fmt::Debug for Mixture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mixture")
            .field("samplers", &self.samplers)
            .field("shares", &self.shares)
            .finish_non_exhaustive()
    }
}
