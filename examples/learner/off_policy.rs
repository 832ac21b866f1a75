//! The loop of examples that learn from replay: collect, sample, learn and publish, either in turns or with a thread that
//! collects on meanwhile.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    thread,
};

use gleaner::{
    prelude::*,
    replay::{Replay, Sample, Sampler, sampler::Sampling},
};

use super::{Curve, Options, Progress, Result, evaluate, train::policy_file};

/// What learns from samples.
pub trait Learner<T: Task> {
    /// One step; returns new priorities, one a pick, if it has any. `remaining` is the part of the training still ahead.
    fn update(&mut self, sample: &Sample<T>, remaining: f64) -> Result<Option<Vec<f32>>>;

    /// The weights as they are published and saved.
    fn weights(&self) -> Result<Weights>;
}

/// A network, what it is trained from, and when that is enough.
pub struct OffPolicy {
    /// Title of the learning curve.
    pub title: &'static str,
    pub network: NetworkSpec,
    /// Environments that are stepped together.
    pub rows: usize,
    /// Ticks between two looks for new weights.
    pub ticks: usize,
    /// Frames that act at random, before the learner starts.
    pub random_frames: u64,
    /// Frames that the buffer holds.
    pub capacity: u64,
    pub sampling: Sampling,
    /// Steps of a return, and the discount.
    pub n_step: (u32, f32),
    /// Frames of a sample.
    pub batch: usize,
    /// Steps of the learner for each frame that is collected.
    pub steps_per_frame: f64,
    /// Whether the collector runs on while the learner is at work. It may then act with older weights, and no two runs are
    /// the same; in turns, a run is repeatable by its seed.
    pub collects_on: bool,
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

impl OffPolicy {
    /// Trains and leaves learning curve and policy, that of the best trial, in a folder. Returns the mean return of the
    /// policy as it was saved, none if training was stopped.
    pub fn run<E: Env + Default, L: Learner<E>>(
        &self,
        options: &Options,
        stop: &AtomicBool,
        learner: impl FnOnce(&Weights) -> Result<L>,
    ) -> Result<Option<f32>> {
        let out = options.out.display();
        std::fs::create_dir_all(&options.out).map_err(|error| format!("--out {out}: {error}; legal: a folder"))?;
        let rows = options.rows.unwrap_or(self.rows);
        let total = options.frames.unwrap_or(if options.quick { self.quick_frames } else { self.frames });
        let replay = Replay::<E>::new(self.capacity)?;
        let collector = options
            .collector::<E>()
            .policy(self.policy(options))
            .rows(rows)
            .frames_per_batch(rows * self.ticks)
            .init_random_frames(self.random_frames)
            .total_frames(total)
            .replay(&replay)
            .build()?;
        let published = collector.weights().ok_or("the policy is no network")?;
        let mut training = Training {
            learner: learner(&published.latest().1)?,
            sampler: replay
                .sampler()
                .sampling(self.sampling.clone())
                .batch_size(self.batch)
                .seed(options.seed)
                .n_step(self.n_step.0, self.n_step.1)
                .build()?,
            sample: Sample::default(),
            curve: Curve::new(self.title, self.episodes),
            progress: Progress::new(total),
            monitor: collector.monitor(),
            published,
            best: None,
        };
        self.train(&mut training, collector, options, stop)?;
        training.curve.draw(options.out.join("learning_curve.png"))?;
        let best = training.best.take().map_or_else(|| training.learner.weights(), |(_, weights)| Ok(weights))?;
        best.save(policy_file(&options.out))?;
        println!("{} frames; learning curve and policy are in {out}", training.monitor.stats().frames);
        if stop.load(Ordering::Relaxed) {
            println!("stopped by Ctrl-C: the policy was not evaluated");
            return Ok(None);
        }
        let saved = Weights::load(policy_file(&options.out))?;
        evaluate::<E>(self.policy(options).weights(saved), self.episodes, options.seed.wrapping_add(1)).map(Some)
    }

    /// In turns, or with a thread that collects on.
    fn train<E: Env + Default, L: Learner<E>>(
        &self,
        training: &mut Training<E, L>,
        mut collector: Collector<E>,
        options: &Options,
        stop: &AtomicBool,
    ) -> Result<()> {
        if !self.collects_on {
            return training.run(self, options, stop, collector.receipts());
        }
        // One receipt waits while the learner is at work: the collector is at most two batches ahead.
        let (sender, receipts) = sync_channel(1);
        thread::scope(|scope| {
            scope.spawn(move || write(collector, &sender));
            training.run(self, options, stop, receipts)
        })
    }

    fn policy<T: Task>(&self, options: &Options) -> Policy<T> {
        Policy::network(self.network.clone()).backend(options.backend).seed(options.seed)
    }
}

/// Collects into the buffer and says what it wrote, until the budget is used up or nobody listens.
fn write<E: Env>(mut collector: Collector<E>, sender: &SyncSender<std::result::Result<Receipt, Error>>) {
    for receipt in collector.receipts() {
        if sender.send(receipt).is_err() {
            break;
        }
    }
}

struct Training<T: Task, L> {
    learner: L,
    sampler: Sampler<T>,
    sample: Sample<T>,
    curve: Curve,
    progress: Progress,
    monitor: gleaner::stats::Monitor,
    published: WeightsHandle,
    /// The best trial's return and weights: values go up and down while they are learnt.
    best: Option<(f32, Weights)>,
}

impl<E: Env + Default, L: Learner<E>> Training<E, L> {
    /// Learns from what the receipts say is there.
    fn run(
        &mut self,
        goal: &OffPolicy,
        options: &Options,
        stop: &AtomicBool,
        receipts: impl IntoIterator<Item = std::result::Result<Receipt, Error>>,
    ) -> Result<()> {
        let (mut due, mut next_trial, mut good_trials) = (0.0, goal.trial_every, 0);
        for receipt in receipts {
            let receipt = receipt?;
            let stats = self.monitor.stats();
            if stats.frames > goal.random_frames {
                due += receipt.frames as f64 * goal.steps_per_frame;
            }
            while due >= 1.0 && !stop.load(Ordering::Relaxed) {
                self.sampler.sample_into(&mut self.sample)?;
                if let Some(priorities) = self.learner.update(&self.sample, 1.0 - self.progress.done())? {
                    self.sampler.update_priorities(self.sample.frames(), &priorities)?;
                }
                due -= 1.0;
            }
            let weights = self.learner.weights()?;
            let version = self.published.publish(weights.clone())?;
            self.progress.show(&stats, version);
            self.curve.train(&stats);
            if stats.frames >= next_trial {
                next_trial += goal.trial_every;
                let seed = options.seed.wrapping_add(version << 32);
                let mean = evaluate::<E>(goal.policy(options).weights(weights.clone()), goal.episodes, seed)?;
                self.progress.print(&format!("{} frames: mean return {mean:.2} in a trial", stats.frames));
                self.curve.trial(&stats, mean);
                if self.best.as_ref().is_none_or(|(best, _)| mean > *best) {
                    self.best = Some((mean, weights));
                }
                good_trials = if mean >= goal.good { good_trials + 1 } else { 0 };
            }
            if good_trials == 2 {
                self.progress.print("good in two trials in a row: done");
                break;
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }
}
