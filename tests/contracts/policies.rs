//! Several policies in one world: each acts for its own rows, under its own weights, as if it were alone.

use std::time::Duration;

use crate::support::{Ending, Script, Tag, stamp, stamped_network, stamped_weights, tags};
use gleaner::{
    policy::{Evaluator, HeadSpec, Normalize, RunningNorm, head::LogStd},
    prelude::*,
};

#[test]
fn each_range_acts_as_if_alone() {
    crate::support::alone::each_range_acts_as_if_alone(Backend::Cpu, 1);
}

#[test]
fn each_range_acts_as_if_alone_on_two_threads() {
    crate::support::alone::each_range_acts_as_if_alone(Backend::Cpu, 2);
}

/// Weights of policy 1 are stamped with this and their version.
const SECOND: u64 = 1_000;

fn generations() -> Collector<Tag> {
    let (first, second) = (stamped_network(), stamped_network().weights(stamped_weights(SECOND)));
    let builder = tags(Script::lengths(&[3, 7, 40], Ending::Terminated)).rows(5).frames_per_batch(5 * 10);
    builder.policies([(0..3, first), (3..5, second)]).exploration(Exploration::Mode).build().unwrap()
}

#[test]
fn each_row_acts_under_the_version_of_its_policy() {
    let mut collector = generations();
    let handles = [0, 1].map(|policy| collector.weights_of(policy).unwrap());
    assert!(collector.weights_of(2).is_none() && collector.evaluator_of(2).is_none());
    let mut seen = Vec::new();
    for publish in [[false, false], [true, false], [true, true], [false, true], [true, false]] {
        for (policy, handle) in handles.iter().enumerate().filter(|(policy, _)| publish[*policy]) {
            handle.publish(stamped_weights(policy as u64 * SECOND + handle.version() + 1)).unwrap();
        }
        let batch = collector.next().unwrap().unwrap();
        for i in 0..batch.len() {
            let policy = usize::from(i % 5 >= 3);
            assert_eq!(batch.policies().unwrap()[i], policy as u32);
            assert_eq!(batch.versions()[i], handles[policy].version(), "slot {i}");
            let stamp = stamp(policy as u64 * SECOND + batch.versions()[i]);
            assert_eq!((batch.actions()[i], batch.values().unwrap()[i]), (stamp, stamp), "slot {i}");
        }
        for trajectory in batch.trajectories() {
            let newest = handles[usize::from(trajectory.row.0 >= 3)].version();
            assert!(trajectory.first_version <= newest && trajectory.last_version == newest, "{trajectory:?}");
            assert!(trajectory.length > 10 || trajectory.first_version + 1 >= newest, "{trajectory:?}");
        }
        handles.iter().for_each(|handle| handle.wait_adopted(handle.version(), Duration::from_secs(5)).unwrap());
        let versions = handles.each_ref().map(WeightsHandle::version);
        assert_eq!(collector.stats().policy_versions, versions);
        assert_eq!(collector.stats().policy_version, Some(versions[0]));
        seen.push(versions);
    }
    assert_eq!(seen, [[0, 0], [1, 0], [2, 1], [2, 2], [3, 2]]);
}

#[test]
fn whole_trajectories_have_their_policies_versions_and_values() {
    let (first, second) = (stamped_network(), stamped_network().weights(stamped_weights(SECOND)));
    let builder = tags(Script::lengths(&[3, 7], Ending::Truncated)).rows(4).frames_per_batch(4 * 10).trajs_per_batch(6);
    let builder = builder.policies([(0..2, first), (2..4, second)]).exploration(Exploration::Mode);
    let mut collector = builder.total_frames(400).build().unwrap();
    let second = collector.weights_of(1).unwrap();
    while let Some(batch) = collector.next() {
        let batch = batch.unwrap();
        // Whole trajectories have no rows; the observations say them.
        let policies: Vec<u32> = batch.observations().iter().map(|seen| u32::from(seen.row > 2.0)).collect();
        assert_eq!(batch.policies().unwrap(), policies);
        let next = batch.bootstrap_values().unwrap();
        for i in 0..batch.len() {
            let first = u64::from(policies[i]) * SECOND;
            assert_eq!(batch.actions()[i], stamp(first + batch.versions()[i]));
            // Behind a cut episode the newest weights of its own policy give the value.
            let newest = if policies[i] == 1 { second.version() } else { 0 };
            if batch.ends()[i].truncated() {
                assert_eq!(next[i], stamp(first + newest), "slot {i}");
            }
        }
        let learned: Vec<usize> = (0..batch.len()).filter(|i| policies[*i] == 1).collect();
        assert!(batch.select(&learned).unwrap().policies().unwrap().iter().all(|policy| *policy == 1));
        second.publish(stamped_weights(SECOND + second.version() + 1)).unwrap();
        // Acted upon by the evaluator from the next frame on.
        if collector.next().is_none() {
            break;
        }
    }
}

fn gaussian(log_std: f32) -> Policy<Pendulum> {
    let head = HeadSpec::Gaussian { log_std: LogStd::Free(log_std) };
    let spec = NetworkSpec { head, normalize: Some(Normalize::default()), ..NetworkSpec::default() };
    Policy::network(spec).seed(1).backend(Backend::Cpu)
}

#[test]
fn each_policy_records_its_distribution_and_normalises_by_its_own_statistics() {
    let builder = Collector::<Pendulum>::builder().rows(6).frames_per_batch(6 * 9).record_distribution(true);
    let builder = builder.policies([(0..4, gaussian(-1.0)), (4..6, gaussian(0.5))]);
    let mut collector = builder.build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    let counts = [0, 1].map(|policy| collector.normalization_of(policy).unwrap().count);
    assert_eq!(counts, [4 * 9, 2 * 9]);
    assert!(collector.normalization_of(2).is_none());
    let evaluators: [Evaluator<Pendulum>; 2] = [0, 1].map(|policy| collector.evaluator_of(policy).unwrap());
    for i in 0..batch.len() {
        let policy = usize::from(i % 6 >= 4);
        let own = evaluators[policy].evaluate(&batch.observations()[i..=i]).unwrap();
        assert_eq!(batch.column::<f32>("mean").unwrap()[i], own.params[0], "slot {i}");
        assert_eq!(batch.column::<f32>("entropy").unwrap()[i], own.entropies[0], "slot {i}");
        let std = [-1.0_f32, 0.5][policy].exp();
        assert!((batch.column::<f32>("std").unwrap()[i] - std).abs() < 1e-6, "slot {i}");
    }
}

fn error(policies: impl IntoIterator<Item = (std::ops::Range<usize>, Policy<CartPole>)>) -> String {
    let builder = Collector::<CartPole>::builder().rows(8).policies(policies);
    builder.record_distribution(true).build().expect_err("wrong").to_string()
}

#[test]
fn wrong_policies_are_named() {
    let network = || Policy::network(NetworkSpec::default());
    let q = HeadSpec::Q { epsilon: gleaner::policy::head::Annealed { from: 1.0, to: 0.1, frames: 10 } };
    let q = || Policy::network(NetworkSpec { head: q, critic: None, ..NetworkSpec::default() });
    let gap = error([(0..3, network()), (5..8, network())]);
    assert_eq!(gap, "policies is none for rows 3..5; legal: a policy for each row of 0..8");
    let overlap = error([(0..5, network()), (3..8, network())]);
    assert!(overlap.contains("rows 0..5 and rows 3..8, which share rows 3..5"), "{overlap}");
    let beyond = error([(0..4, network()), (4..9, network())]);
    assert_eq!(beyond, "policies is rows 4..9; legal: at least one row of 0..8");
    let all = error([(1..1, network()), (2..9, network())]);
    assert!(all.contains("rows 1..1") && all.contains("rows 2..9") && all.contains("none for rows 0..2"), "{all}");
    assert!(error([(0..4, network()), (4..8, Policy::system())]).contains("a host's system acts for all rows"));
    assert!(error([(0..4, network()), (4..8, q())]).contains("the same columns"));
    let wrong = NetworkSpec { head: HeadSpec::MultiBinary, ..NetworkSpec::default() };
    let wrong = error([(0..4, network()), (4..8, Policy::network(wrong))]);
    assert!(wrong.contains("policies[1]: head is MultiBinary"), "{wrong}");
}

#[test]
fn what_only_networks_have_fails_the_build_of_others() {
    let build = |policy: Policy<CartPole>| Collector::<CartPole>::builder().rows(4).policy(policy).build().map(drop);
    let function = || Policy::function(|_, _, _, actions: &mut [i32]| actions.fill(0));
    type Option = fn(Policy<CartPole>) -> Policy<CartPole>;
    let options: [(&str, Option); 4] = [
        ("backend", |policy| policy.backend(Backend::Cpu)),
        ("weights", |policy| policy.weights(Weights::new())),
        ("seed", |policy| policy.seed(1)),
        ("normalization", |policy| policy.normalization(RunningNorm::new(4, 10.0))),
    ];
    for (name, option) in options {
        for (kind, policy) in [("random", Policy::random()), ("function", function()), ("system", Policy::system())] {
            let message = build(option(policy)).unwrap_err().to_string();
            let expected = format!("{name} and policy: {kind} is no network");
            assert!(message.starts_with(&expected), "{message}");
        }
    }
    build(Policy::network(NetworkSpec::default()).backend(Backend::Cpu).seed(1)).unwrap();
}

#[test]
fn a_mode_needs_a_network() {
    let network = || Policy::network(NetworkSpec::default()).backend(Backend::Cpu);
    for exploration in [Exploration::Mode, Exploration::Mean] {
        let builder = || Collector::<Pendulum>::builder().rows(4).exploration(exploration);
        let function = Policy::function(|_, _, _, actions: &mut [[f32; 1]]| actions.fill([0.0]));
        for policies in [vec![(0..4, Policy::random())], vec![(0..2, Policy::random()), (2..4, function)]] {
            let message = builder().policies(policies).build().unwrap_err().to_string();
            assert!(
                message.contains("exploration and policy") && message.contains(&format!("{exploration:?}")),
                "{message}"
            );
        }
        // Such as a learner that is evaluated beside random ones.
        builder().policies([(0..2, Policy::random()), (2..4, network())]).build().unwrap();
    }
    let random = Collector::<Pendulum>::builder().exploration(Exploration::Random);
    let message = random.policy(Policy::system()).build().unwrap_err().to_string();
    assert!(message.contains("exploration and policy") && message.contains("system"), "{message}");
}
