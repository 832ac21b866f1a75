//! Soft actor-critic (Haarnoja et al. 2018, "Soft actor-critic algorithms and applications"): two critics, an actor
//! whose entropy is kept near a target.

use candle_core::{Device, Tensor, Var};
use gleaner::{
    data::width,
    prelude::*,
    replay::Sample,
    seed::{Purpose, Seed},
};

use super::{Result, frames::matrix, mlp::Mlp, off_policy::Learner, optimizer::Adam};

/// How actor and critics learn.
#[derive(Clone, Debug)]
pub struct SacConfig {
    pub learning_rate: f64,
    /// How far the target critics follow with each step.
    pub tau: f64,
    /// Hidden layers of each critic.
    pub critic: Vec<usize>,
    /// Bounds of the actor's log-deviations, as the network's head has them.
    pub log_std: (f32, f32),
    /// Half the width of the box of actions, whose centre is 0.
    pub scale: f64,
}

/// Actor, critics and the weight of the entropy.
pub struct Sac {
    config: SacConfig,
    actor: Mlp,
    critics: [Mlp; 2],
    targets: [Mlp; 2],
    log_alpha: Var,
    actor_optimizer: Adam,
    critic_optimizer: Adam,
    alpha_optimizer: Adam,
    noise: Stream,
    actions: usize,
}

impl Sac {
    /// A learner for task `T` whose actor starts from the layers `names` of `weights`.
    pub fn new<T: Task>(weights: &Weights, names: &[&str], config: SacConfig, seed: u64) -> Result<Self> {
        let (observations, actions) = (width::<T::Observation>(), width::<T::Action>());
        let widths = [&[observations + actions], config.critic.as_slice(), &[1]].concat();
        let critics = [Mlp::new(&widths, seed)?, Mlp::new(&widths, seed ^ 1 << 63)?];
        let targets = [critics[0].copy()?, critics[1].copy()?];
        let actor = Mlp::of(weights, names)?;
        let log_alpha = Var::new(&[0.0_f32], &Device::Cpu)?;
        let unbounded = f64::INFINITY;
        Ok(Self {
            actor_optimizer: Adam::new(actor.vars(), unbounded)?,
            critic_optimizer: Adam::new(critics.iter().flat_map(Mlp::vars).collect(), unbounded)?,
            alpha_optimizer: Adam::new(vec![log_alpha.clone()], unbounded)?,
            noise: Stream::new(Seed(seed), 0, Purpose::Action, 0),
            config,
            actor,
            critics,
            targets,
            log_alpha,
            actions,
        })
    }

    /// Actions within -1 to 1 and their log-densities there (appendix C).
    fn act(&mut self, observations: &Tensor) -> candle_core::Result<(Tensor, Tensor)> {
        let frames = observations.dim(0)?;
        let noise: Vec<f32> = (0..frames * self.actions).map(|_| self.noise.normal()).collect();
        let noise = Tensor::from_vec(noise, (frames, self.actions), &Device::Cpu)?;
        let params = self.actor.forward(observations)?;
        let mean = params.narrow(1, 0, self.actions)?;
        let (min, max) = self.config.log_std;
        let log_std = params.narrow(1, self.actions, self.actions)?.clamp(min, max)?;
        let u = (mean + (log_std.exp()? * &noise)?)?;
        let normal = ((noise.sqr()? * -0.5)? - log_std)?.affine(1.0, -0.5 * (2.0 * std::f64::consts::PI).ln())?;
        // ln(1 - tanh²u) = 2 (ln 2 - u - softplus(-2u))
        let softplus = u.affine(-2.0, 0.0)?.exp()?.affine(1.0, 1.0)?.log()?;
        let slope = (u.affine(-1.0, std::f64::consts::LN_2)? - softplus)?.affine(2.0, 0.0)?;
        Ok((u.tanh()?, (normal - slope)?.sum(1)?))
    }

    /// The lower of two critics' values.
    fn value(critics: &[Mlp; 2], observations: &Tensor, actions: &Tensor) -> candle_core::Result<Tensor> {
        let x = Tensor::cat(&[observations, actions], 1)?;
        critics[0].forward(&x)?.minimum(&critics[1].forward(&x)?)?.squeeze(1)
    }
}

impl<T: Task> Learner<T> for Sac {
    fn update(&mut self, sample: &Sample<T>, _: f64) -> Result<Option<Vec<f32>>> {
        let slots: Vec<usize> = (0..sample.len()).collect();
        let vector = |data: &[f32]| Tensor::from_slice(data, data.len(), &Device::Cpu);
        let rate = self.config.learning_rate;
        let observations = matrix(sample.observations(), &slots)?;
        let actions = matrix(sample.actions(), &slots)?.clamp(-self.config.scale, self.config.scale)?;
        let actions = (actions / self.config.scale)?;
        let alpha = f64::from(self.log_alpha.exp()?.to_vec1::<f32>()?[0]);

        let next = matrix(sample.next_observations(), &slots)?;
        let (next_actions, next_log_probs) = self.act(&next)?;
        let soft = (Self::value(&self.targets, &next, &next_actions)? - (next_log_probs * alpha)?)?;
        let targets = (vector(sample.returns())? + (soft * vector(sample.discounts())?)?)?.detach();
        let x = Tensor::cat(&[&observations, &actions], 1)?;
        let error = |critic: &Mlp| (critic.forward(&x)?.squeeze(1)? - &targets)?.sqr()?.mean(0);
        let loss = (error(&self.critics[0])? + error(&self.critics[1])?)?;
        self.critic_optimizer.step(&loss, rate)?;

        let (new_actions, log_probs) = self.act(&observations)?;
        let gain = (Self::value(&self.critics, &observations, &new_actions)? - (&log_probs * alpha)?)?;
        self.actor_optimizer.step(&gain.mean(0)?.neg()?, rate)?;

        // The entropy's target is one unit below 0 an element.
        let surplus = log_probs.detach().mean(0)?.affine(1.0, -(self.actions as f64))?;
        let loss = self.log_alpha.broadcast_mul(&surplus)?.neg()?.sum_all()?;
        self.alpha_optimizer.step(&loss, rate)?;
        for (target, critic) in self.targets.iter().zip(&self.critics) {
            target.follow(critic, self.config.tau)?;
        }
        Ok(None)
    }

    fn weights(&self) -> Result<Weights> {
        self.actor.weights()
    }
}
