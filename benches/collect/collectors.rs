//! The collectors that are measured.

use gleaner::{policy::plan::Activation, prelude::*};

use super::equal::next;

pub const SEED: u64 = 7;

/// CartPole with random actions.
pub fn random(rows: usize, ticks: usize, threads: usize) -> Result<Collector<CartPole>, Error> {
    Collector::<CartPole>::builder().rows(rows).frames_per_batch(rows * ticks).threads(threads).seed(SEED).build()
}

/// The same in batches of `n` whole trajectories.
pub fn whole(rows: usize, ticks: usize, n: usize) -> Result<Collector<CartPole>, Error> {
    Collector::<CartPole>::builder().rows(rows).frames_per_batch(rows * ticks).seed(SEED).trajs_per_batch(n).build()
}

/// CartPole with two hidden layers of 64, and a critic of the same size on request.
pub fn network(rows: usize, ticks: usize, threads: usize, critic: bool) -> Result<Collector<CartPole>, Error> {
    let mut spec = NetworkSpec::mlp(&[64, 64], Activation::Tanh);
    if !critic {
        spec.critic = None;
    }
    let policy = Policy::network(spec).backend(Backend::Cpu);
    let builder = Collector::<CartPole>::builder().policy(policy).rows(rows).frames_per_batch(rows * ticks);
    builder.threads(threads).seed(SEED).build()
}

/// Makes a batch, drops it, and says how many frames were stepped for it.
pub fn side<T: Task>(mut collector: Collector<T>) -> impl FnMut() -> u64 {
    let monitor = collector.monitor();
    move || {
        let before = monitor.stats().stepped_frames;
        let batch = next(&mut collector).unwrap_or_else(|error| panic!("{error}"));
        drop(std::hint::black_box(batch));
        monitor.stats().stepped_frames - before
    }
}
