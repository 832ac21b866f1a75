//! Collections with options drawn at random.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use gleaner::{
    config::{CollectorBuilder, Delivery, TrajFormat},
    env::{AsyncBatched, Stepper},
    policy::{Backend, Exploration},
    prelude::{Collector, Executor, Overlap, Rows, Task, WeightsHandle},
};
use proptest::{collection::vec, option, prelude::*};

use super::{Ending, Log, Script, Seen, Tag, balance, sampling_network, stamped_network, stamped_weights, tags};

/// What batches are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Fixed frames.
    Rollout,
    /// Whole trajectories, one behind the other.
    Cat(usize),
    /// Whole trajectories, padded.
    Padded(usize),
}

/// Who publishes weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publish {
    Nobody,
    /// The consumer, after each batch.
    Between,
    /// Another thread, all the time.
    Thread,
}

/// One collection.
#[derive(Clone, Debug)]
pub struct Case {
    pub rows: usize,
    pub horizon: usize,
    /// Frames that are asked for less than `rows · horizon`; fewer than `rows`.
    pub short: usize,
    pub total: u64,
    pub script: Arc<Script>,
    pub mode: Mode,
    pub limit: Option<u32>,
    pub random: u64,
    pub edge: bool,
    pub reset_each: bool,
    pub threads: usize,
    pub executor: Executor,
    pub overlap: Overlap,
    /// Threads with worlds of their own, and how they deliver; 0 for none.
    pub workers: usize,
    pub delivery: Delivery,
    pub seed: u64,
    /// One simulator for all rows instead of an environment a row.
    pub simulator: bool,
    /// Actions drawn from a distribution instead of versions.
    pub sample: bool,
    pub publish: Publish,
    /// What the policy runs on.
    pub backend: Backend,
    /// Whether a pool of threads steps the rows, and how.
    pub pooled: Option<AsyncBatched>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            rows: 1,
            horizon: 8,
            short: 0,
            total: 64,
            script: Script::all(5, Ending::Terminated),
            mode: Mode::Rollout,
            limit: None,
            random: 0,
            edge: false,
            reset_each: false,
            threads: 1,
            executor: Executor::SingleThreaded,
            overlap: Overlap::None,
            workers: 0,
            delivery: Delivery::Sync,
            seed: 7,
            simulator: false,
            sample: false,
            publish: Publish::Nobody,
            backend: Backend::Cpu,
            pooled: None,
        }
    }
}

fn script() -> impl Strategy<Value = Script> {
    let ending = prop_oneof![
        4 => Just(Ending::Terminated),
        3 => Just(Ending::Truncated),
        1 => Just(Ending::Both),
        1 => Just(Ending::Nan),
    ];
    let length = prop_oneof![3 => 1..=6_u32, 2 => 1..=40_u32];
    vec(vec((length, ending), 1..4), 1..5).prop_map(Script)
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![3 => Just(Mode::Rollout), 1 => (1..9_usize).prop_map(Mode::Cat), 1 => (1..9_usize).prop_map(Mode::Padded)]
}

fn publish() -> impl Strategy<Value = Publish> {
    prop_oneof![Just(Publish::Nobody), Just(Publish::Between), Just(Publish::Thread)]
}

/// Any collection: rows 1 to 67, horizons 1 to 33, all modes.
pub fn case() -> impl Strategy<Value = Case> {
    let size = (1..=67_usize, 1..=33_usize, 0..67_usize, 1..=4_u64, any::<u64>());
    let limits = (option::of(1..=20_u32), prop_oneof![Just(0), 1..300_u64]);
    let switches = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let parts = (size, script(), mode(), limits, switches, publish());
    parts.prop_map(|(size, script, mode, (limit, random), switches, publish)| {
        let (rows, horizon, short, batches, shortfall) = size;
        let (edge, reset_each, two, multi, simulator, lanes) = switches;
        let batch = (rows * horizon) as u64;
        Case {
            rows,
            horizon,
            short: short % rows,
            total: batch * batches - shortfall % batch,
            script: Arc::new(script),
            mode,
            limit,
            random,
            edge: edge && mode == Mode::Rollout,
            reset_each,
            threads: if two { 2 } else { 1 },
            executor: if multi { Executor::MultiThreaded } else { Executor::SingleThreaded },
            overlap: if lanes && !simulator { Overlap::Two } else { Overlap::None },
            workers: 0,
            delivery: Delivery::Sync,
            seed: shortfall,
            simulator,
            sample: false,
            publish,
            backend: Backend::Cpu,
            pooled: None,
        }
    })
}

/// The same over workers that deliver in step.
pub fn with_workers() -> impl Strategy<Value = Case> {
    (case(), 1..=4_usize).prop_map(|(case, workers)| Case { workers: workers.min(case.rows), simulator: false, ..case })
}

/// The same over workers that deliver on their own.
pub fn with_async_workers() -> impl Strategy<Value = Case> {
    with_workers().prop_map(|case| Case { delivery: Delivery::Async, ..case })
}

/// How a pool steps the rows of a case.
fn pool() -> impl Strategy<Value = AsyncBatched> {
    let knobs = (option::of(1..=5_usize), 1..=8_usize, option::of(1..=16_usize));
    knobs.prop_map(|(threads, min_ready, max_ready)| AsyncBatched {
        threads,
        min_ready,
        max_ready,
        ..AsyncBatched::default()
    })
}

/// Any collection whose rows a pool of threads steps.
pub fn pooled_case() -> impl Strategy<Value = Case> {
    (case(), pool()).prop_map(|(case, pool)| case.stepped_by(pool))
}

/// [`mixed`], of collections whose rows a pool of threads steps.
pub fn pooled_mixed() -> impl Strategy<Value = (Case, Vec<Act>)> {
    (mixed(), pool()).prop_map(|((case, acts), pool)| (case.stepped_by(pool), acts))
}

/// Sets the options of a case.
pub fn configure<T, S>(builder: CollectorBuilder<T, S>, case: &Case) -> Collector<T>
where
    T: Task<Observation = Seen, Action = f32>,
    S: Stepper<T> + 'static,
{
    let policy = if case.sample { sampling_network() } else { stamped_network() }.backend(case.backend);
    let exploration = if case.sample { Exploration::Sample } else { Exploration::Mode };
    let mut builder = builder
        .rows(case.rows)
        .frames_per_batch(case.rows * case.horizon - case.short)
        .total_frames(case.total)
        .init_random_frames(case.random)
        .set_truncated(case.edge)
        .reset_at_each_iter(case.reset_each)
        .seed(case.seed)
        .policy(policy)
        .exploration(exploration);
    builder = match case.workers {
        0 => {
            let builder = builder.threads(case.threads).step_rows_per_thread(1).infer_rows_per_thread(1);
            builder.executor(case.executor).overlap(case.overlap)
        }
        workers => builder.workers(workers).delivery(case.delivery),
    };
    if let Some(limit) = case.limit {
        builder = builder.max_frames_per_traj(limit);
    }
    if let Some(options) = case.pooled {
        builder = builder.async_batched(options);
    }
    let built = match case.mode {
        Mode::Rollout => builder.build(),
        Mode::Cat(n) => builder.trajs_per_batch(n).build(),
        Mode::Padded(n) => builder.trajs_per_batch(n).traj_format(TrajFormat::Padded).build(),
    };
    built.expect("legal options")
}

/// Publishes versions 1, 2, … until `stop` is set.
pub fn publish_until(weights: &WeightsHandle, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        let version = weights.publish(stamped_weights(weights.version() + 1)).expect("the network's own tensors");
        assert_eq!(version, weights.version());
        thread::yield_now();
    }
}

impl Case {
    /// The case without what a pool excludes.
    fn stepped_by(self, pool: AsyncBatched) -> Self {
        let most = pool.max_ready.unwrap_or(self.rows).min(self.rows);
        let pooled = Some(AsyncBatched { min_ready: pool.min_ready.min(most), ..pool });
        Self { simulator: false, overlap: Overlap::None, edge: false, reset_each: false, pooled, ..self }
    }

    /// Collects to the end of the budget.
    pub fn run(&self) -> Log {
        if self.simulator {
            let sim = Tag::simulator(&self.script, self.rows);
            // A simulator has no lanes.
            let case = Self { overlap: Overlap::None, ..self.clone() };
            self.collect(configure(Collector::with_simulator(sim), &case))
        } else {
            self.collect(configure(tags(self.script.clone()), self))
        }
    }

    fn collect<T: Task<Observation = Seen, Action = f32>>(&self, mut collector: Collector<T>) -> Log {
        let mut log = Log::new(self.clone());
        let weights = collector.weights().expect("a network");
        log.announced = collector.len();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            if self.publish == Publish::Thread {
                scope.spawn(|| publish_until(&weights, &stop));
            }
            while let Some(batch) = collector.next() {
                log.read(&batch.expect("no fault"), collector.stats());
                if self.publish == Publish::Between {
                    weights.publish(stamped_weights(weights.version() + 1)).expect("the network's own tensors");
                }
            }
            stop.store(true, Relaxed);
        });
        log.finished = Some(collector.stats());
        if self.publish == Publish::Nobody {
            let seen: Vec<Seen> = log.frames.iter().map(|frame| frame.observation).collect();
            log.evaluated = collector.evaluator().expect("a network").evaluate(&seen).expect("numbers").values;
        }
        log
    }
}

/// What a user may do between batches.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    Batch,
    Rollout,
    ResetAll,
    Reset(u32),
    SetSeed(u64),
    /// Counters go on in a new collector.
    Reload,
}

/// Batches, resets, seeds and reloads in any order; the ledger is looked at after each.
pub fn mixed() -> impl Strategy<Value = (Case, Vec<Act>)> {
    let act = prop_oneof![
        3 => Just(Act::Batch),
        1 => Just(Act::Rollout),
        1 => Just(Act::ResetAll),
        2 => (0..67_u32).prop_map(Act::Reset),
        1 => any::<u64>().prop_map(Act::SetSeed),
        1 => Just(Act::Reload),
    ];
    (case(), vec(act, 1..12))
}

/// The same over workers, whose counters stay theirs.
pub fn mixed_with_workers() -> impl Strategy<Value = (Case, Vec<Act>)> {
    (mixed(), with_workers())
        .prop_map(|((_, acts), case)| (case, acts.into_iter().filter(|act| !matches!(act, Act::Reload)).collect()))
}

impl Case {
    /// Does `acts`, then collects to the end. Errors: what the ledger says when it does not close.
    pub fn act(&self, acts: &[Act]) -> Result<Log, String> {
        let mut log = Log::new(self.clone());
        let mut collector = configure(tags(self.script.clone()), self);
        for act in acts {
            match *act {
                Act::Batch => {
                    if let Some(batch) = collector.next() {
                        log.read(&batch.expect("no fault"), collector.stats());
                    }
                }
                Act::Rollout => {
                    // Refused in trajectory mode and behind the budget's end.
                    if let Ok(batch) = collector.rollout() {
                        log.read(&batch, collector.stats());
                    }
                }
                Act::ResetAll => collector.reset(Rows::All).expect("rows"),
                Act::Reset(row) => collector.reset(Rows::Some(&[row % self.rows as u32])).expect("a row"),
                Act::SetSeed(seed) => drop(collector.set_seed(seed).expect("a seed")),
                Act::Reload => {
                    let counters = collector.counters();
                    collector = configure(tags(self.script.clone()), self);
                    collector.load_counters(&counters).expect("a new collector");
                    log.run += 1;
                }
            }
            balance(&collector.stats()).map_err(|problem| format!("after {act:?}: {problem}"))?;
        }
        while let Some(batch) = collector.next() {
            log.read(&batch.expect("no fault"), collector.stats());
            balance(&collector.stats())?;
        }
        log.finished = Some(collector.stats());
        Ok(log)
    }
}
