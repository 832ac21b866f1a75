//! I7: a collection that is saved, loaded into a new collector and goes on is the one that was never interrupted, to the
//! bit, wherever it is saved.

mod draws;

use std::sync::Arc;

use gleaner::{
    components::ColumnSpec,
    config::{CollectorBuilder, TrajFormat},
    env::{RowStepper, Stepper, check_env},
    policy::{
        HeadSpec, Layer, Normalize,
        head::{Annealed, LogStd, Noise},
        plan::Activation,
    },
    prelude::*,
    replay::Replay,
};
use proptest::prelude::*;

use crate::support::{Ending, Script, Tag, tags};

/// All that a batch says.
fn told<T: Task>(batch: &Batch<T>, stats: &Stats) -> String {
    let finals: Vec<_> = (0..batch.len()).map(|slot| batch.final_observation(slot)).collect();
    let seen = (batch.layout(), batch.observations(), batch.actions(), batch.rewards(), batch.masks(), finals);
    let noted = (batch.ends(), batch.steps(), batch.trajectory_ids(), batch.flags(), batch.versions());
    let said = (batch.log_probs(), batch.values(), batch.policies(), batch.initial_states());
    let next = batch.bootstrap_values().map_err(|error| error.to_string());
    let floats = |spec: &ColumnSpec| batch.array::<f32>(&spec.name).ok().map(|array| array.iter().copied().collect());
    let others: Vec<Option<Vec<f32>>> = batch.columns().iter().map(floats).collect();
    format!("{} {seen:?} {noted:?} {said:?} {next:?} {others:?} {:?} {stats:?}", batch.index(), batch.trajectories())
}

/// What is done between two batches.
#[derive(Clone, Copy, Debug)]
struct Between {
    /// After every so many batches weights are published.
    publish: usize,
    /// After this one a row is reset.
    reset: usize,
    /// After this one the seed is changed.
    reseed: usize,
}

impl Between {
    const NOTHING: Self = Self { publish: 0, reset: usize::MAX, reseed: usize::MAX };

    fn after<T: Task>(&self, batch: usize, collector: &mut Collector<T>) {
        let policies = collector.policies().len();
        if self.publish > 0 && (batch + 1).is_multiple_of(self.publish) {
            for handle in (0..policies).filter_map(|policy| collector.weights_of(policy)) {
                let mut weights = (*handle.latest().1).clone();
                weights.0.values_mut().flat_map(|tensor| &mut tensor.data).for_each(|x| *x *= 1.25);
                handle.publish(weights).unwrap();
            }
        }
        if batch == self.reset {
            collector.reset(Rows::Some(&[collector.rows() as u32 / 2])).unwrap();
        }
        if batch == self.reseed {
            collector.set_seed(99).unwrap();
        }
    }
}

/// Collects up to batch number `to`, exclusive; the number of the first is `from`.
fn collect<T: Task>(collector: &mut Collector<T>, (from, to): (usize, usize), between: Between, log: &mut Vec<String>) {
    for batch in from..to {
        match collector.next() {
            Some(next) => log.push(told(&next.unwrap(), &collector.stats())),
            None => log.push(format!("the end {:?}", collector.stats())),
        }
        between.after(batch, collector);
    }
}

fn saved<T: Task>(collector: &Collector<T>) -> Vec<u8> {
    let mut file = Vec::new();
    collector.save_to(&mut file).unwrap();
    file
}

/// Compares `batches` batches in one go with those of a collector that is replaced after each `k` of them.
fn resumes<T: Task>(new: impl Fn() -> Collector<T>, batches: usize, between: Between) {
    let mut straight = Vec::new();
    collect(&mut new(), (0, batches), between, &mut straight);
    for k in 0..=batches {
        let (mut first, mut log) = (new(), Vec::new());
        collect(&mut first, (0, k), between, &mut log);
        let file = saved(&first);
        let stats = first.stats();
        assert_eq!(saved(&first), file, "a save changes nothing");
        drop(first);
        let mut second = new();
        second.load_from(&mut &file[..]).unwrap();
        assert_eq!(second.stats(), stats, "after {k}");
        assert!(saved(&second) == file, "what was loaded after {k} is not what was saved");
        collect(&mut second, (k, batches), between, &mut log);
        for (batch, (log, straight)) in log.iter().zip(&straight).enumerate() {
            assert_eq!(log, straight, "batch {batch}, saved after {k}");
        }
    }
}

/// What acts for tags.
#[derive(Clone, Copy, Debug)]
enum Acts {
    Random,
    Linear,
    Recurrent,
    Normalised,
    Noisy,
    Several,
}

fn network(acts: Acts) -> NetworkSpec {
    let head = match acts {
        Acts::Noisy => HeadSpec::Deterministic { noise: Noise::OrnsteinUhlenbeck { theta: 0.2, sigma: 0.3, dt: 0.1 } },
        _ => HeadSpec::Gaussian { log_std: LogStd::Free(-0.5) },
    };
    let trunk = match acts {
        Acts::Recurrent => vec![Layer::Gru(5)],
        _ => vec![Layer::Linear(6), Layer::Tanh],
    };
    let normalize = matches!(acts, Acts::Normalised).then(Normalize::default);
    NetworkSpec { trunk, actor: vec![], critic: Some(vec![]), head, normalize, ..NetworkSpec::default() }
}

fn acting<T: Task, S: Stepper<T> + 'static>(
    builder: CollectorBuilder<T, S>,
    acts: Acts,
    rows: usize,
) -> CollectorBuilder<T, S> {
    let policy = |acts, seed| Policy::network(network(acts)).backend(Backend::Cpu).seed(seed);
    match acts {
        Acts::Random => builder.policy(Policy::random()),
        Acts::Several if rows > 2 => builder.policies([
            (1..rows - 1, policy(Acts::Recurrent, 1)),
            (0..1, policy(Acts::Normalised, 2)),
            (rows - 1..rows, Policy::random()),
        ]),
        acts => builder.policy(policy(acts, 3)),
    }
}

fn acts() -> impl Strategy<Value = Acts> {
    use Acts::*;
    prop_oneof![Just(Random), Just(Linear), Just(Recurrent), Just(Normalised), Just(Noisy), Just(Several)]
}

#[derive(Clone, Debug)]
struct Options {
    rows: usize,
    horizon: usize,
    total: Option<u64>,
    limit: Option<u32>,
    random: u64,
    seed: u64,
    /// Whole trajectories of a batch.
    joins: Option<(usize, TrajFormat)>,
    /// Forced resets, batch edges, lanes, two threads.
    switches: [bool; 4],
}

fn configured<T: Task, S: Stepper<T> + 'static>(
    builder: CollectorBuilder<T, S>,
    options: &Options,
) -> CollectorBuilder<T, S> {
    let Options { rows, horizon, total, limit, random, seed, joins, switches } = options.clone();
    let mut builder = builder.rows(rows).frames_per_batch(rows * horizon).init_random_frames(random).seed(seed);
    builder = builder.reset_at_each_iter(switches[0]).set_truncated(switches[1] && joins.is_none());
    builder = builder.step_rows_per_thread(1).infer_rows_per_thread(1).threads(1 + usize::from(switches[3]));
    if let Some(total) = total {
        builder = builder.total_frames(total);
    }
    if let Some(limit) = limit {
        builder = builder.max_frames_per_traj(limit);
    }
    match joins {
        Some((n, format)) => builder.trajs_per_batch(n).traj_format(format),
        None => builder,
    }
}

fn options() -> impl Strategy<Value = Options> {
    let format = prop_oneof![Just(TrajFormat::Cat), Just(TrajFormat::Padded)];
    let size = (1..10_usize, 1..12_usize, prop::option::of(1..300_u64), prop::option::of(1..20_u32));
    let others = (0..60_u64, any::<u64>(), prop::option::of((1..5_usize, format)), any::<[bool; 4]>());
    (size, others).prop_map(|((rows, horizon, total, limit), (random, seed, joins, switches))| Options {
        rows,
        horizon,
        total,
        limit,
        random,
        seed,
        joins,
        switches,
    })
}

fn script() -> Arc<Script> {
    Arc::new(Script(vec![
        vec![(3, Ending::Terminated), (17, Ending::Truncated), (1, Ending::Both)],
        vec![(5, Ending::Nan), (40, Ending::Terminated)],
        vec![(1, Ending::Nan), (2, Ending::Truncated)],
        vec![(29, Ending::Truncated)],
    ]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn i7_a_run_goes_on_bit_for_bit(
        options in options(),
        acts in acts(),
        simulator in any::<bool>(),
        publish in 0..3_usize,
        (reset, reseed) in (0..8_usize, 0..12_usize),
    ) {
        let between = Between { publish, reset, reseed };
        if simulator {
            let new = || {
                let builder = Collector::with_simulator(Tag::simulator(&script(), options.rows));
                acting(configured(builder, &options), acts, options.rows).build().unwrap()
            };
            resumes(new, 6, between);
        } else {
            let overlap = if options.switches[2] { Overlap::Two } else { Overlap::None };
            let new = || {
                let builder: CollectorBuilder<Tag, RowStepper<Tag>> = configured(tags(script()), &options);
                acting(builder, acts, options.rows).overlap(overlap).build().unwrap()
            };
            resumes(new, 6, between);
        }
    }
}

/// Environments go on within their episodes.
fn goes_on<E: Env + Default>(policy: impl Fn() -> Policy<E>) {
    let new = || Collector::<E>::builder().rows(5).frames_per_batch(5 * 30).policy(policy()).seed(8).build().unwrap();
    resumes(new, 5, Between::NOTHING);
    let mut collector = new();
    collector.next().unwrap().unwrap();
    assert!(collector.stats().trajectory_pending_frames > 0);
}

#[test]
fn i7_environments_with_and_without_masks_go_on() {
    goes_on::<CartPole>(Policy::random);
    goes_on::<Pendulum>(Policy::random);
    goes_on::<GridWorld>(|| Policy::network(NetworkSpec::default()).backend(Backend::Cpu));
}

/// What the collector asks of an environment: a codec, by which new instances go on as the old ones.
fn can_go_on<E: Env + Default>() {
    assert!(E::STATE.is_some(), "{}", std::any::type_name::<E>());
    check_env::<E>().unwrap();
}

#[test]
fn i7_every_environment_brings_its_state() {
    can_go_on::<Acrobot>();
    can_go_on::<CartPole>();
    can_go_on::<GridWorld>();
    can_go_on::<MountainCar>();
    can_go_on::<MountainCarContinuous>();
    can_go_on::<Pendulum>();
    can_go_on::<Stacked<Pendulum, 3>>();
    can_go_on::<Stacked<GridWorld, 2>>();
}

/// G1: an annealed epsilon goes on where it was, and the run ends where it was to end.
#[test]
fn g1_epsilon_and_budget_go_on() {
    let policy = || {
        let epsilon = Annealed { from: 1.0, to: 0.1, frames: 700 };
        let spec =
            NetworkSpec { critic: None, head: HeadSpec::Q { epsilon }, ..NetworkSpec::mlp(&[8], Activation::Relu) };
        Policy::network(spec).backend(Backend::Cpu)
    };
    let new = || {
        let builder = Collector::<CartPole>::builder().rows(4).frames_per_batch(100).total_frames(950);
        builder.init_random_frames(70).policy(policy()).build().unwrap()
    };
    resumes(new, 12, Between { publish: 2, ..Between::NOTHING });
    let mut first = new();
    first.by_ref().take(5).for_each(|batch| drop(batch.unwrap()));
    let mut second = new();
    second.load_from(&mut &saved(&first)[..]).unwrap();
    assert_eq!((second.by_ref().count(), second.stats().frames, second.stats().completed), (5, 950, true));
}

#[test]
fn i7_recorded_distributions_and_states_go_on() {
    let new = || {
        let spec = NetworkSpec { trunk: vec![Layer::Lstm(4)], actor: vec![], ..NetworkSpec::default() };
        let policy = Policy::network(NetworkSpec { critic: Some(vec![]), ..spec }).backend(Backend::Cpu);
        let builder = Collector::<CartPole>::builder().rows(3).frames_per_batch(3 * 7).policy(policy);
        builder.record_distribution(true).record_states(true).trajs_per_batch(2).build().unwrap()
    };
    resumes(new, 8, Between { publish: 3, ..Between::NOTHING });
}

/// Receipts that wait, episodes that are held and pieces that were let go.
#[test]
fn i7_writes_to_a_replay_buffer_go_on() {
    for (per_write, mode) in [(None, ReplayWriteMode::Rollout), (Some(1), ReplayWriteMode::Trajectory)] {
        let new = |replay: &Replay<Tag>| {
            let mut builder = tags(script()).rows(5).frames_per_batch(5 * 9).replay(replay).replay_write_mode(mode);
            if let Some(per_write) = per_write {
                builder = builder.trajs_per_write(per_write).max_open_frames(40);
            }
            acting(builder, Acts::Recurrent, 5).total_frames(400).build().unwrap()
        };
        let run = |collector: &mut Collector<Tag>, n: usize| -> Vec<_> {
            collector.receipts().take(n).map(Result::unwrap).collect()
        };
        let file = |replay: &Replay<Tag>| {
            let mut file = Vec::new();
            replay.save_to(&mut file, &[]).unwrap();
            file
        };
        let straight = Replay::<Tag>::new(1_000).unwrap();
        let mut collector = new(&straight);
        let wanted = run(&mut collector, usize::MAX);
        assert!(wanted.len() > 8, "{wanted:?}");
        assert!(mode == ReplayWriteMode::Rollout || collector.stats().early_pieces > Some(0));
        for k in 0..wanted.len() {
            let replay = Replay::<Tag>::new(1_000).unwrap();
            let mut first = new(&replay);
            let mut receipts = run(&mut first, k);
            let files = (saved(&first), file(&replay));
            let stats = first.stats();
            let replay = Replay::<Tag>::new(1_000).unwrap();
            replay.load_from(&mut &files.1[..], &mut []).unwrap();
            let mut second = new(&replay);
            second.load_from(&mut &files.0[..]).unwrap();
            assert_eq!(second.stats(), stats);
            receipts.extend(run(&mut second, usize::MAX));
            assert_eq!(receipts, wanted, "saved after {k}");
            assert!(file(&replay) == file(&straight), "saved after {k}");
        }
    }
}
