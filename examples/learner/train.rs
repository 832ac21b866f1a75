//! The loop that every training example runs: collect, learn, publish, and look how good the policy is.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use gleaner::prelude::*;

use super::{Curve, Options, Ppo, PpoConfig, Progress, Result, evaluate};

/// A network, how it is trained, and when that is enough.
pub struct Experiment {
    /// Title of the learning curve.
    pub title: &'static str,
    pub network: NetworkSpec,
    pub ppo: PpoConfig,
    /// Environments that are stepped together.
    pub rows: usize,
    /// Ticks of a batch.
    pub ticks: usize,
    /// What the learner gets of each reward.
    pub reward: RewardTransform,
    /// Frames to train for at most.
    pub frames: u64,
    /// The same with `--quick`.
    pub quick_frames: u64,
    /// Frames between two trials.
    pub trial_every: u64,
    /// Mean return of a good trial.
    pub good: f32,
    /// Episodes of a trial and of the evaluation.
    pub episodes: usize,
}

impl Experiment {
    /// Trains and leaves learning curve and policy in a folder. Returns the mean return of the policy as it was saved,
    /// none if training was stopped.
    pub fn run<E: Env + Default>(&self, options: &Options, stop: &AtomicBool) -> Result<Option<f32>> {
        let out = options.out.display();
        std::fs::create_dir_all(&options.out).map_err(|error| format!("--out {out}: {error}; legal: a folder"))?;
        let frames = self.train::<E>(options, stop)?;
        println!("{frames} frames; learning curve and policy are in {out}");
        if stop.load(Ordering::Relaxed) {
            println!("stopped by Ctrl-C: the policy was not evaluated");
            return Ok(None);
        }
        let saved = Weights::load(policy_file(&options.out))?;
        let seed = options.seed.wrapping_add(1);
        evaluate::<E>(self.policy(options).weights(saved), self.episodes, seed).map(Some)
    }

    /// Trains, writes learning curve and policy, and returns the frames that it took.
    fn train<E: Env + Default>(&self, options: &Options, stop: &AtomicBool) -> Result<u64> {
        let total = options.frames.unwrap_or(if options.quick { self.quick_frames } else { self.frames });
        let rows = options.rows.unwrap_or(self.rows);
        let mut collector = options
            .collector::<E>()
            .policy(self.policy(options))
            .rows(rows)
            .frames_per_batch(rows * self.ticks)
            .total_frames(total)
            .reward(self.reward)
            .build()?;
        let published = collector.weights().ok_or("the policy is no network")?;
        let monitor = collector.monitor();
        let mut ppo = Ppo::new::<E>(self.network.clone(), &published.latest().1, self.ppo.clone(), options.seed)?;
        let mut curve = Curve::new(self.title, self.episodes);
        let progress = Progress::new(total);
        let backend = monitor.stats().backend.ok_or("the policy is no network")?;
        progress.print(&format!("the policy runs on {backend}"));
        let (mut next_trial, mut good_trials) = (self.trial_every, 0);

        for batch in &mut collector {
            let weights = ppo.update(&batch?, 1.0 - progress.done())?;
            let version = published.publish(weights.clone())?;
            let stats = monitor.stats();
            progress.show(&stats, version);
            curve.train(&stats);
            if stats.frames >= next_trial {
                next_trial += self.trial_every;
                let seed = options.seed.wrapping_add(version << 32);
                let mean = evaluate::<E>(self.policy(options).weights(weights), self.episodes, seed)?;
                progress.print(&format!("{} frames: mean return {mean:.2} in a trial", stats.frames));
                curve.trial(&stats, mean);
                good_trials = if mean >= self.good { good_trials + 1 } else { 0 };
            }
            if good_trials == 2 {
                progress.print("good in two trials in a row: done");
                break;
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        curve.draw(options.out.join("learning_curve.png"))?;
        published.latest().1.save(policy_file(&options.out))?;
        Ok(collector.stats().frames)
    }

    fn policy<T: Task>(&self, options: &Options) -> Policy<T> {
        Policy::network(self.network.clone()).backend(options.backend).seed(options.seed)
    }
}

/// Where a training leaves its policy.
pub fn policy_file(out: &Path) -> std::path::PathBuf {
    out.join("policy.safetensors")
}
