//! Two lanes: one steps while the policy acts for the other, and the data are the same, bit for bit.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::support::{
    Case, Log, Publish, Script, Tag, case,
    slow::{Slow, slow},
    tags,
};
use bevy_tasks::ComputeTaskPool;
use gleaner::{
    components::Masks,
    config::CollectorBuilder,
    env::RowStepper,
    policy::{HeadSpec, Layer, Normalize, plan::Annealed},
    prelude::*,
};
use proptest::{prelude::*, test_runner::Config};

/// All collectors of a process share bevy's threads: tests take turns, so that two lanes find two of them.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn data(log: &Log) -> impl PartialEq + std::fmt::Debug + '_ {
    (&log.frames, &log.trajectories, &log.notes, &log.finished)
}

proptest! {
    #![proptest_config(Config { cases: 256, failure_persistence: None, ..Config::default() })]

    /// Rows 1 to 67, horizons 1 to 33, all modes, limits, warm-ups, forced resets, faults, threads, executors.
    #[test]
    fn lanes_give_the_same_data(case in case(), sample in any::<bool>()) {
        let _turn = alone();
        // What another thread publishes acts from some tick on.
        let publish = if case.publish == Publish::Thread { Publish::Between } else { case.publish };
        let plain = Case { publish, sample, simulator: false, overlap: Overlap::None, ..case };
        let plain = Case { publish: if sample { Publish::Nobody } else { publish }, ..plain };
        let lanes = Case { overlap: Overlap::Two, ..plain.clone() };
        let (plain, lanes) = (plain.run(), lanes.run());
        prop_assert_eq!(data(&plain), data(&lanes));
    }
}

type CartPoles = CollectorBuilder<CartPole, RowStepper<CartPole>>;

/// All columns of all batches, values to bootstrap from, states, trajectories, counters; with new weights for each batch.
fn everything(builder: CartPoles, lanes: bool) -> Vec<(String, Vec<u8>)> {
    let builder = builder.rows(13).frames_per_batch(13 * 20).total_frames(3_000);
    let builder = builder.init_random_frames(100).max_frames_per_traj(30).threads(2);
    let builder = builder.infer_rows_per_thread(2).step_rows_per_thread(2).executor(Executor::MultiThreaded);
    let overlap = if lanes { Overlap::Two } else { Overlap::None };
    let collector = builder.overlap(overlap).build().unwrap();
    let handles: Vec<_> = (0..4).filter_map(|policy| collector.weights_of(policy)).collect();
    let mut collector = collector.erase();
    let mut found = Vec::new();
    for batch in collector.by_ref() {
        let batch = batch.unwrap();
        for spec in batch.columns() {
            found.push((spec.name.to_string(), batch.column_bytes(&spec.name).unwrap().to_vec()));
        }
        let batch = batch.downcast::<CartPole>().ok().unwrap();
        let floats = |floats: &[f32]| bytemuck::cast_slice(floats).to_vec();
        found.push(("initial states".into(), floats(batch.initial_states())));
        found.push(("bootstrap".into(), batch.bootstrap_values().map_or(Vec::new(), |values| floats(&values))));
        found.push(("trajectories".into(), format!("{:?}", batch.trajectories()).into()));
        for handle in &handles {
            let mut weights = (*handle.latest().1).clone();
            weights.0.values_mut().flat_map(|tensor| &mut tensor.data).for_each(|x| *x *= 1.1);
            handle.publish_copy(&weights).unwrap();
        }
    }
    found.push(("stats".into(), format!("{:?}", collector.stats()).into()));
    found
}

fn specs() -> Vec<NetworkSpec> {
    let trunk =
        |layer| NetworkSpec { trunk: vec![layer], actor: vec![], critic: Some(vec![]), ..NetworkSpec::default() };
    let epsilon = Annealed { from: 0.9, to: 0.1, frames: 2_000 };
    vec![
        NetworkSpec { normalize: Some(Normalize::default()), ..NetworkSpec::default() },
        NetworkSpec { normalize: Some(Normalize::default()), ..trunk(Layer::Gru(5)) },
        trunk(Layer::Lstm(5)),
        NetworkSpec { head: HeadSpec::Q { epsilon }, critic: None, ..NetworkSpec::default() },
    ]
}

fn network(spec: NetworkSpec) -> Policy<CartPole> {
    Policy::network(spec).backend(Backend::Cpu).seed(3)
}

fn assert_same(plain: Vec<(String, Vec<u8>)>, lanes: Vec<(String, Vec<u8>)>, what: &str) {
    assert_eq!(plain.len(), lanes.len(), "{what}");
    for ((name, plain), (_, lanes)) in plain.into_iter().zip(lanes) {
        assert!(plain == lanes, "{name} differs with {what}");
    }
}

#[test]
fn every_network_gives_the_same_in_lanes() {
    let _turn = alone();
    for spec in specs() {
        let recurrent = spec.trunk.iter().any(|layer| matches!(layer, Layer::Gru(_) | Layer::Lstm(_)));
        let builder = || {
            let builder = Collector::<CartPole>::builder().policy(network(spec.clone()));
            builder.record_distribution(true).record_states(recurrent)
        };
        assert_same(everything(builder(), false), everything(builder(), true), &format!("{spec:?}"));
    }
}

/// Policies that remember, explore and do neither, in ranges of which one is in both lanes.
#[test]
fn several_policies_give_the_same_in_lanes() {
    let _turn = alone();
    let builder = || {
        let [plain, gru, _, q]: [NetworkSpec; 4] = specs().try_into().unwrap();
        let policies = [(5..9, network(plain)), (0..3, network(q)), (9..13, network(gru)), (3..5, Policy::random())];
        Collector::<CartPole>::builder().policies(policies)
    };
    assert_same(everything(builder(), false), everything(builder(), true), "several policies");
}

/// Who did what from when to when: stage, row, span.
type Spans = Arc<Mutex<Vec<(&'static str, usize, Instant, Instant)>>>;

const SLOW: Duration = Duration::from_millis(2);
const ROWS: usize = 4;

fn span(spans: &Spans, stage: &'static str, row: usize) {
    let start = Instant::now();
    thread::sleep(SLOW);
    spans.lock().unwrap().push((stage, row, start, Instant::now()));
}

fn acting(spans: &Spans) -> Policy<Slow> {
    let spans = spans.clone();
    Policy::function(move |rows: &[[f32; 5]], _: &Masks<'_>, _: &mut Streams<'_>, actions: &mut [f32]| {
        actions.fill(0.0);
        span(&spans, "infer", rows[0][0] as usize);
    })
}

fn taking_time(spans: &Spans) -> CollectorBuilder<Slow, RowStepper<Slow>> {
    let theirs = spans.clone();
    let builder = slow(1_000, move |row, _, _| span(&theirs, "step", row as usize));
    builder.policy(acting(spans)).rows(ROWS).frames_per_batch(ROWS * 10)
}

/// Steps of each lane that are to go on while the policy acts for the other.
const ENOUGH: usize = 8;

/// How many steps of each lane went on while the policy acted for the other: in ten batches without lanes, with lanes in as
/// many as it takes until they are enough, as a busy machine may be late for some.
fn overlaps(overlap: Overlap) -> [usize; 2] {
    let spans = Spans::default();
    let mut collector = taking_time(&spans).overlap(overlap).executor(Executor::MultiThreaded).build().unwrap();
    let lane = |row: usize| row / (ROWS / 2);
    let (mut count, deadline) = ([0; 2], Instant::now() + Duration::from_secs(60));
    for turn in 0.. {
        let over = match overlap {
            Overlap::None => turn == 10,
            Overlap::Two => count.iter().all(|steps| *steps >= ENOUGH) || Instant::now() > deadline,
        };
        if over {
            break;
        }
        collector.next().unwrap().unwrap();
        let spans = std::mem::take(&mut *spans.lock().unwrap());
        let of = |stage| spans.iter().filter(move |span| span.0 == stage);
        assert_eq!(of("step").count(), ROWS * 10);
        // Once a tick and lane: what was made ahead is used.
        assert_eq!(of("infer").count(), if overlap == Overlap::Two { 20 } else { 10 });
        for (_, stepped, start, end) in of("step") {
            for (_, acted, ..) in of("infer").filter(|(_, _, from, to)| from < end && start < to) {
                assert_ne!(lane(*stepped), lane(*acted), "a lane stepped before its actions were there");
                count[lane(*stepped)] += 1;
            }
        }
    }
    count
}

#[test]
fn one_lane_steps_while_the_policy_acts_for_the_other() {
    let _turn = alone();
    assert_eq!(overlaps(Overlap::None), [0, 0]);
    // On a machine with one core, one thread does both.
    if ComputeTaskPool::get().thread_num() > 1 {
        let count = overlaps(Overlap::Two);
        assert!(count.iter().all(|steps| *steps >= ENOUGH), "only {count:?} steps overlapped");
    }
}

#[test]
fn what_each_of_several_policies_made_ahead_is_used() {
    let _turn = alone();
    let spans = Spans::default();
    let builder = taking_time(&spans).policies([(0..1, acting(&spans)), (1..ROWS, acting(&spans))]);
    let mut collector = builder.overlap(Overlap::Two).executor(Executor::MultiThreaded).build().unwrap();
    collector.next().unwrap().unwrap();
    let spans = spans.lock().unwrap();
    // Once a tick: the first row, the other one of the lower lane, the upper lane.
    let acted = [0, 1, 2].map(|row| spans.iter().filter(|span| span.0 == "infer" && span.1 == row).count());
    assert_eq!((acted, spans.iter().filter(|span| span.0 == "infer").count()), ([10; 3], 30));
}

#[test]
fn what_cannot_have_lanes_is_named() {
    let script = Script::all(4, crate::support::Ending::Terminated);
    let simulator = Collector::with_simulator(Tag::simulator(&script, 4)).rows(4).overlap(Overlap::Two).build();
    let message = simulator.err().unwrap().to_string();
    assert!(message.contains("overlap") && message.contains("with_simulator"), "{message}");
    let system = tags(script).rows(4).policy(Policy::system()).overlap(Overlap::Two).build();
    let message = system.err().unwrap().to_string();
    assert!(message.contains("overlap") && message.contains("policy"), "{message}");
    let config: gleaner::config::CollectorConfig = ron::from_str("(rows: 4, overlap: Two)").unwrap();
    assert_eq!(config.overlap, Overlap::Two);
}
