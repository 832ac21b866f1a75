//! Estimators that every learner needs, on batches of any layout.
//!
//! Slots without a frame are skipped and give 0. A terminated frame is followed by nothing; a truncated one, and the
//! last one of each row in a batch, by the value of its real next observation ([`Batch::bootstrap_values`]): the
//! recursion is cut there. The same on plain slices, with values of the caller's own: [`Chain`].

use super::{
    batch::Batch,
    chain::{Chain, Estimate, VTrace},
};
use crate::{error::Error, task::Task};

/// Discounted sums of rewards from each frame to the end of its episode or of the batch, without any value: what
/// REINFORCE takes. `gamma` is 0 to 1. Errors: [`Error::Config`] for another one.
///
/// ```
/// use gleaner::{prelude::*, rollout::estimate};
/// let mut collector = Collector::<CartPole>::builder().trajs_per_batch(1).build()?;
/// let batch = collector.next().expect("endless")?;
/// let sums = estimate::rewards_to_go(&batch, 1.0)?;
/// assert_eq!(sums[0], batch.trajectories()[0].total_reward);
/// # Ok::<(), gleaner::Error>(())
/// ```
pub fn rewards_to_go<T: Task>(batch: &Batch<T>, gamma: f32) -> Result<Vec<f32>, Error> {
    Chain::of(batch).rewards_to_go(batch.rewards(), gamma)
}

/// Discounted returns from each frame, with a bootstrap value where an episode was cut. `gamma` is 0 to 1. Errors: those
/// of [`Batch::bootstrap_values`] and of [`Chain::returns_to_go`].
pub fn returns_to_go<T: Task>(batch: &Batch<T>, gamma: f32) -> Result<Vec<f32>, Error> {
    Chain::of(batch).returns_to_go(batch.rewards(), &batch.bootstrap_values()?, gamma)
}

/// `n`-step returns, `n` at least 1; see [`Chain::n_step`], also for errors. `gamma` is 0 to 1. Errors: also those of
/// [`Batch::bootstrap_values`].
pub fn n_step<T: Task>(batch: &Batch<T>, n: usize, gamma: f32) -> Result<Vec<f32>, Error> {
    Chain::of(batch).n_step(batch.rewards(), &batch.bootstrap_values()?, n, gamma)
}

/// Generalised advantage estimation; see [`Chain::gae`]. `gamma` and `lambda` are 0 to 1. Frames of the random warm-up,
/// which have no value recorded, get that of the newest adopted weights. Errors: those of [`Batch::bootstrap_values`]
/// and of [`Chain::gae`].
///
/// ```
/// use gleaner::{prelude::*, rollout::estimate};
/// let policy = Policy::network(NetworkSpec::default());
/// let mut collector = Collector::<CartPole>::builder().policy(policy).rows(4).frames_per_batch(128).build()?;
/// let batch = collector.next().expect("endless")?;
/// let gae = estimate::gae(&batch, 0.98, 0.8)?;
/// assert_eq!(gae.advantages.len(), batch.len());
/// # Ok::<(), gleaner::Error>(())
/// ```
pub fn gae<T: Task>(batch: &Batch<T>, gamma: f32, lambda: f32) -> Result<Estimate, Error> {
    let next_values = batch.bootstrap_values()?;
    Chain::of(batch).gae(batch.rewards(), &values(batch)?, &next_values, gamma, lambda)
}

/// V-trace; see [`Chain::vtrace`]. `log_probs` are the learner's, of the batch's actions, one a slot. Errors: those of
/// [`Batch::bootstrap_values`] and of [`Chain::vtrace`]; [`Error::Config`] for other than a number a slot;
/// [`Error::State`] if a frame is of the random warm-up, whose log-probability is not recorded: [`Batch::select`] the
/// others first.
pub fn vtrace<T: Task>(batch: &Batch<T>, log_probs: &[f32], options: &VTrace) -> Result<Estimate, Error> {
    let next_values = batch.bootstrap_values()?;
    if let Some(i) = batch.flags().iter().position(|flags| flags.random()) {
        let problem = format!("slot {i} is of the random warm-up; legal: frames whose action the policy chose");
        return Err(Error::State { call: "vtrace", problem });
    }
    if log_probs.len() != batch.len() {
        return Err(Error::config("log_probs", format!("{} elements", log_probs.len()), batch.len().to_string()));
    }
    let recorded = batch.log_probs().unwrap_or_default();
    let ratios: Vec<f32> = log_probs.iter().zip(recorded).map(|(new, old)| new - old).collect();
    let values = batch.values().unwrap_or_default();
    Chain::of(batch).vtrace(batch.rewards(), values, &next_values, &ratios, options)
}

/// The value of each observation.
fn values<T: Task>(batch: &Batch<T>) -> Result<Vec<f32>, Error> {
    let mut values = batch.values().unwrap_or_default().to_vec();
    let random: Vec<usize> = (0..batch.len()).filter(|i| batch.flags()[*i].random()).collect();
    if let (Some(critic), false) = (&batch.critic, random.is_empty()) {
        let observations: Vec<_> = random.iter().map(|i| batch.observations()[*i]).collect();
        // The network's memory begins with its first frame.
        let mut states = vec![0.0; observations.len() * critic.state_width()];
        let given =
            critic.values(&batch.policies_of(&random), &batch.workers_of(&random), &observations, &mut states)?;
        for (i, value) in random.into_iter().zip(given) {
            values[i] = value;
        }
    }
    Ok(values)
}
