//! Rows reset alone, at once and wholly: automatic, forced and seeded resets leave nothing of the episode before.

use std::sync::{Arc, Mutex};

use crate::support::{Ending, NEVER, Script, Seen, Tag, balance, slow::slow, stamped_network, stamped_weights, tags};
use gleaner::{
    components::Truncation,
    env::CartPoleOptions,
    policy::{Exploration, Policy},
    prelude::{CartPole, Collector, Error, Rows, Task},
    seed::{Purpose, Seed, Stream},
};

#[test]
fn d1_only_the_row_that_ended_is_reset() {
    let lengths = [2, 5, 9];
    let script = Script::lengths(&lengths, Ending::Terminated);
    let mut collector = tags(script).rows(3).frames_per_batch(60).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    let mut dones = [0; 3];
    for i in 0..60 {
        let (row, seen) = (i % 3, batch.observations()[i]);
        assert_eq!(seen.t, ((i / 3) as u32 % lengths[row]) as f32, "slot {i}");
        assert_eq!(seen.resets, 1.0 + dones[row] as f32, "slot {i}");
        dones[row] += usize::from(batch.ends()[i].done());
    }
    assert_eq!(dones, [10, 4, 2]);
}

#[test]
fn d2_the_policy_sees_the_first_observation_of_every_episode() {
    let inputs = Arc::new(Mutex::new(Vec::<Seen>::new()));
    let log = inputs.clone();
    let policy = Policy::function(move |observations, _, _, actions: &mut [f32]| {
        log.lock().unwrap().extend_from_slice(observations);
        actions.fill(0.0);
    });
    let builder = tags(Script::lengths(&[2, 5, 9], Ending::Truncated)).rows(3).frames_per_batch(30);
    let collector = builder.total_frames(90).policy(policy).build().unwrap();
    let frames: Vec<_> = collector.flat_map(|batch| batch.unwrap().observations().to_vec()).collect();
    let inputs = inputs.lock().unwrap();
    assert!(inputs.iter().all(|seen| seen.row > 0.0), "a zero input");
    assert_eq!(*inputs, frames);
    assert_eq!(frames.iter().filter(|seen| seen.t == 0.0).count(), 15 + 6 + 4);
}

#[test]
fn d3_no_action_is_ignored() {
    // The last number that is seen is the sum of the episode's actions.
    let mut collector = slow(2, |_, _, _| {}).frames_per_batch(64).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    assert_eq!(batch.frames(), 64, "a reset takes no frame");
    let mut next = [0, 0];
    for i in 0..64 {
        let [_, episode, t, _, sum] = batch.observations()[i];
        assert_eq!([episode as u32, t as u32], next, "slot {i}");
        assert_eq!(batch.next_observation(i)[4], sum + batch.actions()[i], "slot {i}");
        let ended = next[1] + 1 == 2 + next[0] % 3;
        assert_eq!(batch.ends()[i].terminated(), ended, "slot {i}");
        next = if ended { [next[0] + 1, 0] } else { [next[0], next[1] + 1] };
    }
}

/// Frames until a row's episode is cut, from the collector's next frame on.
fn until_cut<T: Task>(collector: &mut Collector<T>, row: usize) -> usize {
    let rows = collector.rows();
    let batch = collector.rollout().unwrap();
    let ends = (row..batch.len()).step_by(rows).map(|i| batch.ends()[i].truncation());
    1 + ends.into_iter().position(|reason| reason == Some(Truncation::StepLimit)).expect("a cut")
}

/// Resets of all kinds begin the limit of 5 frames anew; rollouts are of 2 rows and 8 ticks.
fn begins_anew<T: Task>(build: impl Fn() -> Collector<T>) {
    let mut collector = build();
    assert_eq!(until_cut(&mut collector, 0), 5);
    // Three steps into the second episode: two are left, unless the row is reset.
    assert_eq!(until_cut(&mut collector, 0), 2);
    let mut collector = build();
    collector.rollout().unwrap();
    collector.reset(Rows::Some(&[1])).unwrap();
    let batch = collector.rollout().unwrap();
    let cuts = |row: usize| (0..8).filter(|tick| batch.ends()[tick * 2 + row].done()).collect::<Vec<_>>();
    assert_eq!((cuts(0), cuts(1)), (vec![1, 6], vec![4]));
    collector.reset(Rows::All).unwrap();
    assert_eq!(until_cut(&mut collector, 0), 5);
    collector.set_seed(3).unwrap();
    assert_eq!(until_cut(&mut collector, 1), 5);
    let mut file = Vec::new();
    collector.save_to(&mut file).unwrap();
    for reset in [false, true] {
        let mut resumed = build();
        resumed.load_from(&mut &file[..]).unwrap();
        if reset {
            resumed.reset(Rows::All).unwrap();
        }
        assert_eq!(until_cut(&mut resumed, 0), if reset { 5 } else { 2 });
    }
}

#[test]
fn d7_every_reset_starts_the_limit_anew() {
    let script = || Script::all(NEVER, Ending::Terminated);
    begins_anew(|| tags(script()).rows(2).frames_per_batch(16).max_frames_per_traj(5).build().unwrap());
    begins_anew(|| tags(script()).rows(2).frames_per_batch(16).max_frames_per_traj(5).workers(2).build().unwrap());
    let simulator = || Collector::with_simulator(Tag::simulator(&script(), 2));
    begins_anew(|| simulator().rows(2).frames_per_batch(16).max_frames_per_traj(5).build().unwrap());
}

#[test]
fn d8_returns_are_those_of_the_row_that_ended() {
    let script = Script::lengths(&[2, 5, 9], Ending::Terminated);
    let mut collector = tags(script).rows(3).frames_per_batch(60).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    assert_eq!(batch.trajectories().len(), 10 + 4 + 2);
    for trajectory in batch.trajectories() {
        let length = [2, 5, 9][trajectory.row.0 as usize];
        assert_eq!((trajectory.total_reward, trajectory.length), (length as f32, length));
    }
}

#[test]
fn o13_nothing_from_before_a_reset_comes_after_it() {
    let builder = tags(Script::lengths(&[3, 4, 50], Ending::Terminated)).rows(3).frames_per_batch(30);
    let builder = builder.trajs_per_batch(2).policy(stamped_network()).exploration(Exploration::Mode);
    let mut collector = builder.build().unwrap();
    let weights = collector.weights().unwrap();
    collector.next().unwrap().unwrap();
    assert!(collector.stats().in_flight_frames > 0, "nothing waits");
    weights.publish(stamped_weights(1)).unwrap();
    collector.reset(Rows::All).unwrap();
    let stats = collector.stats();
    assert_eq!((stats.trajectory_pending_frames, stats.in_flight_frames), (0, 0));
    assert!(stats.discarded.reset > 0);
    balance(&stats).unwrap();
    for _ in 0..20 {
        let batch = collector.next().unwrap().unwrap();
        assert!(batch.versions().iter().all(|version| *version == 1));
        assert!(batch.actions().iter().all(|action| *action == 1.0));
    }
}

#[test]
fn o13_other_rows_keep_what_waits() {
    let builder = tags(Script::lengths(&[4, 50], Ending::Terminated)).rows(2).frames_per_batch(20);
    let mut collector = builder.trajs_per_batch(1).build().unwrap();
    assert_eq!(collector.next().unwrap().unwrap().trajectories()[0].row.0, 0);
    // One of row 0 waits with two running frames; row 1 runs.
    collector.reset(Rows::Some(&[1])).unwrap();
    let stats = collector.stats();
    assert_eq!((stats.discarded.reset, stats.in_flight_frames, stats.trajectory_pending_frames), (10, 6, 2));
    let batch = collector.next().unwrap().unwrap();
    assert_eq!((batch.frames(), batch.observations()[0].resets), (4, 2.0));
    assert!(matches!(collector.reset(Rows::Some(&[2])), Err(Error::Config { field: "row", .. })));
}

#[test]
fn sc52_a_forced_reset_ends_the_trajectory_and_begins_another() {
    let mut collector = tags(Script::all(NEVER, Ending::Terminated)).rows(2).frames_per_batch(6).build().unwrap();
    let before = collector.next().unwrap().unwrap();
    collector.reset(Rows::Some(&[1])).unwrap();
    let after = collector.next().unwrap().unwrap();
    assert_eq!(after.trajectory_ids()[0], before.trajectory_ids()[0]);
    assert_ne!(after.trajectory_ids()[1], before.trajectory_ids()[1]);
    assert_eq!([after.steps()[0].0, after.steps()[1].0], [3, 0]);
    let [ended] = after.trajectories() else { panic!("{:?}", after.trajectories()) };
    assert_eq!((ended.id, ended.row.0, ended.length), (before.trajectory_ids()[1], 1, 3));
    assert_eq!((ended.end.truncation(), ended.tick), (Some(Truncation::ForcedReset), u32::MAX));
}

#[test]
fn sc12_reset_at_each_iter_cuts_at_the_batchs_last_frame() {
    let builder = tags(Script::all(NEVER, Ending::Terminated)).rows(2).frames_per_batch(6).reset_at_each_iter(true);
    let mut collector = builder.build().unwrap();
    for _ in 0..3 {
        let batch = collector.next().unwrap().unwrap();
        assert!(batch.steps()[..2].iter().all(|step| step.0 == 0));
        assert!(batch.ends()[4..].iter().all(|end| end.truncation() == Some(Truncation::ForcedReset)));
        assert!(batch.ends()[..4].iter().all(|end| !end.done()));
        assert_eq!(batch.final_observation(5).unwrap().t, 3.0);
        assert_eq!(batch.trajectories().len(), 2);
    }
}

#[test]
fn se01_a_seed_gives_the_data_of_a_new_collector() {
    let build =
        |seed| tags(Script::all(4, Ending::Terminated)).rows(3).frames_per_batch(30).seed(seed).build().unwrap();
    let data = |collector: &mut Collector<Tag>| {
        let batch = collector.next().unwrap().unwrap();
        let frame = |i: usize| {
            let seen = batch.observations()[i];
            (seen.row, seen.episode, seen.t, seen.noise, batch.actions()[i].to_bits())
        };
        (0..30).map(frame).collect::<Vec<_>>()
    };
    let mut collector = build(1);
    let first = data(&mut collector);
    assert_eq!(collector.set_seed(9).unwrap(), Seed(9).next().0);
    let second = data(&mut collector);
    assert_ne!(first, second);
    assert_eq!(second, data(&mut build(9)));
    assert_eq!(collector.set_seed_static(1).unwrap(), 1);
    assert_eq!(first, data(&mut collector));
}

#[test]
fn se01_the_chain_of_seeds_is_the_documented_one() {
    let [low, high] = Seed(5).row_key(0, Purpose::Chain);
    let mut collector = tags(Script::all(4, Ending::Terminated)).build().unwrap();
    assert_eq!(collector.set_seed(5).unwrap(), u64::from(low) | u64::from(high) << 32);
}

/// Also the rows that a budget's last, partial tick leaves out.
#[test]
fn a_reset_at_each_iter_ends_all_episodes_of_every_batch() {
    fn all_end<T: Task>(collector: Collector<T>) {
        let mut batches = 0;
        for batch in collector {
            let batch = batch.unwrap();
            let ends: Vec<_> = batch.trajectories().iter().map(|ended| (ended.row.0, ended.end.truncation())).collect();
            let mut rows: Vec<_> = ends.iter().map(|(row, _)| *row).collect();
            rows.sort_unstable();
            assert_eq!(rows, [0, 1, 2, 3], "batch {}", batch.index());
            assert!(ends.iter().all(|(_, reason)| *reason == Some(Truncation::ForcedReset)), "{ends:?}");
            batches += 1;
        }
        assert_eq!(batches, 2);
    }
    let script = Script::all(NEVER, Ending::Terminated);
    let build = tags(script.clone()).rows(4).frames_per_batch(12).total_frames(22).reset_at_each_iter(true);
    all_end(build.build().unwrap());
    let build = Collector::with_simulator(Tag::simulator(&script, 4)).rows(4).frames_per_batch(12).total_frames(22);
    all_end(build.reset_at_each_iter(true).build().unwrap());
}

/// Where the episodes of a row began, by the tick.
fn starts(collector: &mut Collector<CartPole>, row: usize) -> Vec<(usize, [f32; 4])> {
    let batch = collector.rollout().unwrap();
    let rows = batch.rows().len();
    assert_eq!(batch.rows()[row].0 as usize, row);
    let own = (row..batch.len()).step_by(rows).filter(|i| batch.steps()[*i].0 == 0);
    own.map(|i| (i / rows, batch.observations()[i])).collect()
}

#[test]
fn options_act_on_the_resets_behind_them() {
    let at = |x| CartPoleOptions { low: x, high: x };
    for workers in [0, 2] {
        for row in 0..4 {
            // Episodes of four ticks, in batches of six.
            let builder = Collector::<CartPole>::builder().rows(4).frames_per_batch(4 * 6).max_frames_per_traj(4);
            let builder = if workers > 0 { builder.workers(workers) } else { builder };
            let mut collector = builder.reset_options(at(0.02)).build().unwrap();
            assert_eq!(starts(&mut collector, row), [(0, [0.02; 4]), (4, [0.02; 4])], "row {row}");
            collector.set_reset_options(at(-0.01));
            assert_eq!(starts(&mut collector, row), [(2, [-0.01; 4])], "row {row}");
            // All rows stand at a start; this one gets another, for one episode.
            collector.reset_with(Rows::Some(&[1]), at(0.03)).unwrap();
            let first = if row == 1 { 0.03 } else { -0.01 };
            assert_eq!(starts(&mut collector, row), [(0, [first; 4]), (4, [-0.01; 4])], "row {row}");
        }
    }
}

#[test]
fn default_options_start_elsewhere() {
    let mut collector = Collector::<CartPole>::builder().rows(4).frames_per_batch(4).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    assert!(batch.observations().iter().flatten().all(|x| (-0.05..0.05).contains(x)));
    assert_ne!(batch.observations()[0], batch.observations()[1]);
}

#[test]
fn a_factory_draws_a_parameter_for_each_row() {
    const PARAMETERS: u32 = 1 << 20;
    let parameters = |seed: u64, workers: usize| {
        let script = Script::all(3, Ending::Terminated);
        let builder =
            Collector::with_factory(move |context| Ok(Tag::new(script.clone(), context.stream.below(PARAMETERS))));
        let builder = builder.rows(4).frames_per_batch(4 * 8).seed(seed);
        let builder = if workers > 0 { builder.workers(workers) } else { builder };
        let batch = builder.build().unwrap().next().unwrap().unwrap();
        // A row tells its number plus one: here the parameter's.
        let seen: Vec<u32> = batch.observations().iter().map(|seen| seen.row as u32 - 1).collect();
        assert!((0..seen.len()).all(|i| seen[i] == seen[i % 4]), "episodes of a row differ: {seen:?}");
        seen[..4].to_vec()
    };
    for seed in [3, 4] {
        let drawn = |row| Stream::new(Seed(seed), row, Purpose::Factory, 0).below(PARAMETERS);
        let expected: Vec<u32> = (0..4).map(drawn).collect();
        for workers in [0, 1, 2] {
            assert_eq!(parameters(seed, workers), expected, "seed {seed}, {workers} workers");
        }
    }
    let drawn = parameters(3, 0);
    assert_ne!(drawn, parameters(4, 0));
    assert!((1..4).all(|row| drawn[row] != drawn[0]), "{drawn:?}");
}
