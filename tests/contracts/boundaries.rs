//! Episodes end where the environment says so: flags are added and never lost, real last observations are kept, and the
//! policy never sees them.

use std::sync::{Arc, Mutex};

use crate::support::{Ending, Script, Seen, Tag, tags};
use gleaner::{
    components::Truncation,
    policy::{Backend, NetworkSpec, Policy},
    prelude::{Batch, CartPole, Collector, Pendulum, RewardTransform, Weights},
    rollout::estimate,
};

#[test]
fn a1_set_truncated_keeps_the_environments_ends() {
    let script = Script::all(3, Ending::Terminated);
    let mut collector = tags(script).frames_per_batch(5).set_truncated(true).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    let [real, edge] = [batch.ends()[2], batch.ends()[4]];
    assert!(real.terminated() && real.done() && !real.truncated());
    assert!(edge.truncated() && edge.done() && !edge.terminated());
    assert_eq!(edge.truncation(), Some(Truncation::BatchEdge));
    assert!([0, 1, 3].iter().all(|i| !batch.ends()[*i].done()));
    // The edge is a mark in that batch only.
    let next = collector.next().unwrap().unwrap();
    assert_eq!(next.trajectory_ids()[0], batch.trajectory_ids()[4]);
    assert_eq!(next.steps()[0].0, 2);
}

#[test]
fn a2_a_step_limit_keeps_the_environments_truncation() {
    let script = Script::all(3, Ending::Truncated);
    let mut collector = tags(script).frames_per_batch(4).max_frames_per_traj(10).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    let end = batch.ends()[2];
    assert!(end.truncated() && end.done() && !end.terminated());
    assert_eq!(end.truncation(), Some(Truncation::Env));
}

#[test]
fn a2_both_flags_may_stand() {
    let mut collector = tags(Script::all(3, Ending::Both)).frames_per_batch(4).max_frames_per_traj(3).build().unwrap();
    let end = collector.next().unwrap().unwrap().ends()[2];
    assert!(end.terminated() && end.truncation() == Some(Truncation::Env));
    let script = Script::all(3, Ending::Terminated);
    let mut collector = tags(script).frames_per_batch(4).max_frames_per_traj(3).build().unwrap();
    let end = collector.next().unwrap().unwrap().ends()[2];
    assert!(end.terminated() && end.truncation() == Some(Truncation::StepLimit));
}

/// A policy whose value is 1 in episode 0 and 100 in episode 1.
fn critic() -> Policy<Tag> {
    let mut weights = Weights::new();
    weights.insert("action.weight", [1, 5], vec![0.0; 5]);
    weights.insert("action.bias", [1], vec![0.0]);
    weights.insert("value.weight", [1, 5], vec![0.0, 99.0, 0.0, 0.0, 0.0]);
    weights.insert("value.bias", [1], vec![1.0]);
    weights.insert("log_std", [1], vec![0.0]);
    let spec = NetworkSpec { trunk: vec![], actor: vec![], critic: Some(vec![]), ..NetworkSpec::default() };
    Policy::network(spec).weights(weights).backend(Backend::Cpu)
}

#[test]
fn a3_an_advantage_bootstraps_from_its_own_trajectory() {
    let script = Script::all(2, Ending::Truncated);
    let nothing = RewardTransform { scale: 0.0, clip: None };
    let mut collector = tags(script).frames_per_batch(4).reward(nothing).policy(critic()).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    assert_eq!(batch.values().unwrap(), [1.0, 1.0, 100.0, 100.0]);
    let next = batch.bootstrap_values().unwrap();
    assert_eq!(next, [1.0, 1.0, 100.0, 100.0]);
    // V-trace with rho = c = 1: corrections add up within a trajectory.
    let gamma = 0.9;
    let (mut advantages, mut carry) = ([0.0; 4], 0.0);
    for i in (0..4).rev() {
        let end = batch.ends()[i];
        let value = if end.terminated() { 0.0 } else { next[i] };
        let delta = batch.rewards()[i] + gamma * value - batch.values().unwrap()[i];
        carry = delta + if end.ends_episode() { 0.0 } else { gamma * carry };
        advantages[i] = carry;
    }
    assert!((advantages[1] - -0.1_f32).abs() < 1e-6, "{advantages:?}");
    assert!((advantages[0] - -0.19_f32).abs() < 1e-6, "{advantages:?}");
}

#[test]
fn a6_the_final_observation_of_a_truncation_is_there() {
    let mut collector = tags(Script::all(3, Ending::Truncated)).frames_per_batch(8).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    let last = batch.final_observation(2).expect("an episode ended");
    assert_eq!((last.episode, last.t), (0.0, 3.0));
    let reset = batch.observations()[3];
    assert_eq!((reset.episode, reset.t), (1.0, 0.0));
    assert_eq!(batch.next_observation(2), last);
    assert_eq!(batch.final_observation(1), None);
}

#[test]
fn a7_the_policy_never_sees_a_last_observation() {
    let seen = Arc::new(Mutex::new(Vec::<Seen>::new()));
    let log = seen.clone();
    let policy = Policy::function(move |observations, _, _, actions: &mut [f32]| {
        log.lock().unwrap().extend_from_slice(observations);
        actions.fill(0.0);
    });
    let script = Script::all(3, Ending::Truncated);
    let mut collector = tags(script).rows(2).frames_per_batch(20).policy(policy).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 20);
    assert!(seen.iter().all(|seen| seen.t < 3.0));
    assert_eq!(&seen[..], batch.observations());
    for i in (0..20).filter(|i| batch.ends()[*i].done()) {
        assert_eq!(batch.next_observation(i).t, 3.0);
    }
}

#[test]
fn a8_a_simulator_keeps_last_observations_on_done_rows_only() {
    let lengths = [2, 3, 4, 5];
    let script = Script::lengths(&lengths, Ending::Truncated);
    let mut collector =
        Collector::with_simulator(Tag::simulator(&script, 4)).rows(4).frames_per_batch(40).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    let mut ended = 0;
    for i in 0..batch.len() {
        let last = batch.final_observation(i);
        assert_eq!(last.is_some(), batch.ends()[i].done(), "slot {i}");
        if let Some(last) = last {
            assert_eq!(last.t, lengths[i % 4] as f32);
            assert_eq!(last.resets, batch.observations()[i].resets);
            ended += 1;
        }
    }
    assert_eq!(ended, 5 + 3 + 2 + 2);
}

#[test]
fn a11_processing_leaves_observations_alone() {
    let policy = Policy::network(NetworkSpec::default()).backend(Backend::Cpu);
    let builder = Collector::<CartPole>::builder().policy(policy).rows(3).frames_per_batch(3 * 64);
    let batch = builder.max_frames_per_traj(20).build().unwrap().next().unwrap().unwrap();
    assert!(batch.trajectories().len() > 8);
    let seen = |batch: &Batch<CartPole>| -> (Vec<[f32; 4]>, Vec<[f32; 4]>) {
        (batch.observations().to_vec(), (0..batch.len()).map(|i| *batch.next_observation(i)).collect())
    };
    let before = seen(&batch);
    let next_values = batch.bootstrap_values().unwrap();
    let targets = estimate::n_step(&batch, 3, 0.5).unwrap();
    estimate::gae(&batch, 0.9, 0.9).unwrap();
    estimate::returns_to_go(&batch, 0.9).unwrap();
    let slots: Vec<usize> = (0..batch.len()).collect();
    let selected = batch.select(&slots).unwrap();
    assert!(seen(&batch) == before && seen(&selected) == before);
    // Three steps ahead, but not over an end; rewards are 1.
    for (i, target) in targets.iter().enumerate() {
        let (mut at, mut wanted, mut discount) = (i, 1.0, 0.5);
        for _ in 1..3 {
            if batch.ends()[at].done() || at + 3 >= batch.len() {
                break;
            }
            (at, wanted, discount) = (at + 3, wanted + discount, discount * 0.5);
        }
        wanted += if batch.ends()[at].terminated() { 0.0 } else { discount * next_values[at] };
        assert!((target - wanted).abs() < 1e-5, "slot {i}: {target}, not {wanted}");
    }
}

#[test]
fn rewards_are_scaled_then_clipped_and_returns_stay_raw() {
    let collect = |reward| {
        let builder = Collector::<Pendulum>::builder().rows(16).frames_per_batch(16 * 45).max_frames_per_traj(20);
        let mut collector = builder.seed(5).reward(reward).build().unwrap();
        (collector.next().unwrap().unwrap(), collector.stats().episodes)
    };
    let (raw, raw_episodes) = collect(RewardTransform::default());
    assert_eq!(raw.trajectories().len(), 16 * 2);
    // Rewards of a pendulum are 0 at most; a factor below 0 turns them over.
    for scale in [0.5, -0.5] {
        let (batch, episodes) = collect(RewardTransform { scale, clip: Some(2.0) });
        let expected: Vec<f32> = raw.rewards().iter().map(|reward| (reward * scale).clamp(-2.0, 2.0)).collect();
        assert_eq!(batch.rewards(), expected);
        let clipped = expected.iter().filter(|reward| reward.abs() == 2.0).count();
        assert!((1..expected.len()).contains(&clipped), "{clipped} of {}", expected.len());
        let returns =
            |batch: &Batch<Pendulum>| batch.trajectories().iter().map(|ended| ended.total_reward).collect::<Vec<_>>();
        assert_eq!(returns(&batch), returns(&raw));
        assert_eq!(episodes.mean_return, raw_episodes.mean_return);
    }
    for ended in raw.trajectories().iter().filter(|ended| ended.tick == 19) {
        let row = ended.row.0 as usize;
        let sum: f32 = (0..20).map(|tick| raw.rewards()[tick * 16 + row]).sum();
        assert!((ended.total_reward - sum).abs() < 1e-2, "row {row}: {} and {sum}", ended.total_reward);
    }
    let mean = raw.trajectories().iter().map(|ended| ended.total_reward).sum::<f32>() / 32.0;
    assert!((raw_episodes.mean_return.unwrap() - mean).abs() < 1e-2);
}
