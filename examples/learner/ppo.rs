//! Proximal policy optimisation with a clipped ratio (Schulman et al. 2017).

use candle_core::{Device, Tensor};
use gleaner::{
    prelude::*,
    rollout::{Estimate, estimate},
    seed::{Purpose, Seed},
};

use super::{
    Result,
    frames::{Frames, matrix},
    network::ActorCritic,
    optimizer::Adam,
};

/// The defaults are Stable-Baselines3's.
#[derive(Clone, Debug)]
pub struct PpoConfig {
    pub epochs: usize,
    pub minibatch: usize,
    pub learning_rate: f64,
    pub gamma: f32,
    pub lambda: f32,
    pub clip: f64,
    pub value_coefficient: f64,
    pub entropy_coefficient: f64,
    pub max_gradient_norm: f64,
}

impl Default for PpoConfig {
    fn default() -> Self {
        Self {
            epochs: 10,
            minibatch: 64,
            learning_rate: 3e-4,
            gamma: 0.99,
            lambda: 0.95,
            clip: 0.2,
            value_coefficient: 0.5,
            entropy_coefficient: 0.0,
            max_gradient_norm: 0.5,
        }
    }
}

pub struct Ppo {
    config: PpoConfig,
    network: ActorCritic,
    optimizer: Adam,
    seed: u64,
    epochs_done: u64,
}

impl Ppo {
    /// A learner for a collector of task `T` whose policy is `spec` and acts with `weights`; `seed` shuffles.
    pub fn new<T: Task>(spec: NetworkSpec, weights: &Weights, config: PpoConfig, seed: u64) -> Result<Self> {
        // Once so much was given back, glibc keeps up to twice as much: memory of minibatches is not asked for anew.
        drop(std::hint::black_box(Vec::<u8>::with_capacity(31 << 20)));
        let network = ActorCritic::new::<T>(spec, weights)?;
        let optimizer = Adam::new(network.vars(), config.max_gradient_norm)?;
        Ok(Self { config, network, optimizer, seed, epochs_done: 0 })
    }

    /// Learns from a time-major batch and returns the new weights. `remaining` is the part of the training still ahead,
    /// 1 at its start: the learning rate falls with it.
    pub fn update<T: Task>(&mut self, batch: &Batch<T>, remaining: f64) -> Result<Weights> {
        let data = Experience::new(batch, &self.config)?;
        for _ in 0..self.config.epochs {
            self.epochs_done += 1;
            for slots in self.minibatches(batch) {
                let data = data.minibatch(batch, &slots, self.network.is_recurrent())?;
                let loss = loss(&self.network, &self.config, &data)?;
                self.optimizer.step(&loss, self.config.learning_rate * remaining)?;
            }
        }
        self.network.weights()
    }

    /// The slots of each minibatch of an epoch: any frames, or all ticks of a few rows for a recurrent network.
    fn minibatches<T: Task>(&self, batch: &Batch<T>) -> Vec<Vec<usize>> {
        let parts = batch.frames().div_ceil(self.config.minibatch);
        let seed = self.seed ^ self.epochs_done << 32;
        if !self.network.is_recurrent() {
            return batch.minibatches(parts, seed).collect();
        }
        let all = batch.rows().len();
        let mut order: Vec<usize> = (0..all).collect();
        let mut stream = Stream::new(Seed(seed), 0, Purpose::Shuffle, 0);
        (1..all).rev().for_each(|i| order.swap(i, stream.below(i as u32 + 1) as usize));
        // The last tick of the last batch may be a part of one: it is left out.
        let ticks = batch.frames() / all;
        let slots = |rows: &[usize]| (0..ticks).flat_map(|tick| rows.iter().map(move |row| tick * all + row)).collect();
        order.chunks(all.div_ceil(parts)).map(slots).collect()
    }
}

fn loss(network: &ActorCritic, config: &PpoConfig, data: &Minibatch) -> candle_core::Result<Tensor> {
    let (distribution, values) = network.forward(&data.frames)?;
    let ratio = (distribution.log_prob(&data.actions)? - &data.log_probs)?.exp()?;
    let clipped = ratio.clamp(1.0 - config.clip, 1.0 + config.clip)?;
    let gain = (ratio * &data.advantages)?.minimum(&(clipped * &data.advantages)?)?.mean(0)?;
    let value_loss = (values - &data.returns)?.sqr()?.mean(0)?;
    let loss = ((value_loss * config.value_coefficient)? - gain)?;
    if config.entropy_coefficient == 0.0 {
        return Ok(loss);
    }
    loss - (distribution.entropy()? * config.entropy_coefficient)?
}

/// What PPO adds to a batch.
struct Experience {
    advantages: Vec<f32>,
    returns: Vec<f32>,
    log_probs: Vec<f32>,
}

struct Minibatch {
    frames: Frames,
    actions: Tensor,
    log_probs: Tensor,
    advantages: Tensor,
    returns: Tensor,
}

impl Experience {
    fn new<T: Task>(batch: &Batch<T>, config: &PpoConfig) -> Result<Self> {
        let log_probs = batch.log_probs().ok_or("the policy is no network")?.to_vec();
        let Estimate { advantages, targets: returns } = estimate::gae(batch, config.gamma, config.lambda)?;
        Ok(Self { advantages, returns, log_probs })
    }

    fn minibatch<T: Task>(&self, batch: &Batch<T>, slots: &[usize], recurrent: bool) -> candle_core::Result<Minibatch> {
        let vector = |from: &[f32]| slots.iter().map(|slot| from[*slot]).collect::<Vec<_>>();
        let mut advantages = vector(&self.advantages);
        normalize(&mut advantages);
        let tensor = |data: Vec<f32>| Tensor::from_vec(data, slots.len(), &Device::Cpu);
        Ok(Minibatch {
            frames: Frames::new(batch, slots, recurrent)?,
            actions: matrix(batch.actions(), slots)?,
            log_probs: tensor(vector(&self.log_probs))?,
            advantages: tensor(advantages)?,
            returns: tensor(vector(&self.returns))?,
        })
    }
}

/// Mean 0 and standard deviation 1, except for a single number.
fn normalize(x: &mut [f32]) {
    if x.len() < 2 {
        return;
    }
    let mean = x.iter().sum::<f32>() / x.len() as f32;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / (x.len() - 1) as f32;
    x.iter_mut().for_each(|x| *x = (*x - mean) / (variance.sqrt() + 1e-8));
}
