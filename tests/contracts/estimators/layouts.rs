//! Estimators on batches: every layout gives the same, and cut episodes are bootstrapped from what really came next.

use std::collections::BTreeMap;

use crate::support::{Ending, Script, Seen, Tag, tags};
use gleaner::{
    policy::{HeadSpec, head::LogStd},
    prelude::*,
    rollout::{VTrace, estimate},
};

type Numbers = BTreeMap<(u64, u32), [f32; 5]>;

/// All estimates by (trajectory, step) of episodes that lie in the batch from start to end.
fn whole_episodes(batch: &Batch<CartPole>) -> Numbers {
    let gae = estimate::gae(batch, 0.9, 0.8).unwrap();
    let vtrace = estimate::vtrace(batch, batch.log_probs().unwrap(), &VTrace::default()).unwrap();
    let n_step = estimate::n_step(batch, 3, 0.9).unwrap();
    let sums = estimate::rewards_to_go(batch, 0.9).unwrap();
    let returns = estimate::returns_to_go(batch, 0.9).unwrap();
    let started: Vec<_> = (0..batch.len()).filter(|i| batch.is_init(*i)).map(|i| batch.trajectory_ids()[i]).collect();
    let mut numbers = Numbers::new();
    for i in (0..batch.len()).filter(|i| batch.flags()[*i].valid()) {
        let id = batch.trajectory_ids()[i];
        if started.contains(&id) && batch.trajectories().iter().any(|trajectory| trajectory.id == id) {
            let all = [gae.advantages[i], vtrace.targets[i], n_step[i], sums[i], returns[i]];
            numbers.insert((id.0, batch.steps()[i].0), all);
        }
    }
    for i in (0..batch.len()).filter(|i| !batch.flags()[*i].valid()) {
        assert_eq!([gae.advantages[i], gae.targets[i], vtrace.advantages[i], n_step[i], returns[i]], [0.0; 5]);
    }
    numbers
}

fn collector(change: impl FnOnce(CollectorConfig) -> CollectorConfig) -> Collector<CartPole> {
    let config = CollectorConfig { rows: 5, seed: 3, max_frames_per_traj: Some(17), ..CollectorConfig::default() };
    let policy = Policy::network(NetworkSpec::default()).backend(Backend::Cpu);
    Collector::<CartPole>::builder().config(change(config)).policy(policy).build().unwrap()
}

#[test]
fn layouts_agree() {
    let blocks = collector(|config| CollectorConfig { frames_per_batch: Some(5 * 100), ..config }).next();
    let blocks = whole_episodes(&blocks.unwrap().unwrap());
    let batch = collector(|config| CollectorConfig { trajs_per_batch: Some(20), ..config }).next().unwrap().unwrap();
    let flat = whole_episodes(&batch);
    assert!(batch.ends().iter().any(|end| end.terminated()) && batch.ends().iter().any(|end| end.truncated()));
    let padded = collector(|config| CollectorConfig {
        trajs_per_batch: Some(20),
        traj_format: Some(TrajFormat::Padded),
        ..config
    });
    let padded = whole_episodes(&{ padded }.next().unwrap().unwrap());
    assert_eq!(flat, padded);
    assert!(flat.len() > 200);
    for (frame, numbers) in &flat {
        assert_eq!(blocks.get(frame), Some(numbers), "frame {frame:?}");
    }
}

#[test]
fn select_cuts_where_it_tears_frames_apart() {
    let batch = collector(|config| CollectorConfig { trajs_per_batch: Some(2), ..config }).next().unwrap().unwrap();
    // The first episode's frames 0, 1 and 3: 1 goes on elsewhere, so its value after comes from the critic.
    let part = batch.select(&[0, 1, 3]).unwrap();
    let next = batch.bootstrap_values().unwrap();
    let got = estimate::returns_to_go(&part, 0.5).unwrap();
    assert_eq!(got, [1.0 + 0.5 * (1.0 + 0.5 * next[1]), 1.0 + 0.5 * next[1], 1.0 + 0.5 * next[3]]);
}

#[test]
fn warm_up_frames_get_the_critics_values_and_no_vtrace() {
    let with = |frames| collector(|config| CollectorConfig { init_random_frames: frames, ..config }).next().unwrap();
    let batch = with(7).unwrap();
    let gae = estimate::gae(&batch, 0.9, 0.0).unwrap();
    let (value, next) = (gae.targets[0] - gae.advantages[0], batch.bootstrap_values().unwrap());
    assert!(batch.values().unwrap()[0] == 0.0 && value != 0.0);
    assert!((gae.targets[0] - (1.0 + 0.9 * next[0])).abs() < 1e-6);
    let error = estimate::vtrace(&batch, batch.log_probs().unwrap(), &VTrace::default()).unwrap_err().to_string();
    assert!(error.contains("slot 0 is of the random warm-up"), "{error}");
}

#[test]
fn a_policy_without_values_is_an_error() {
    let mut spec = NetworkSpec::default();
    for critic in [false, true] {
        spec.critic = None;
        let policy = if critic { Policy::network(spec.clone()).backend(Backend::Cpu) } else { Policy::random() };
        let mut collector = Collector::<CartPole>::builder().policy(policy).build().unwrap();
        let error = estimate::gae(&collector.next().unwrap().unwrap(), 0.9, 0.9).unwrap_err().to_string();
        assert!(error.contains("a network with a critic"), "{error}");
    }
}

/// Two frames an episode, cut by itself; the critic says 1 in the first episode and 100 in the second.
fn pairs(config: CollectorConfig) -> Collector<Tag> {
    let mut weights = Weights::new();
    weights.insert("action.weight", [1, 5], [0.0; 5]);
    weights.insert("action.bias", [1], [0.0]);
    weights.insert("log_std", [1], [0.0]);
    // Row, episode, step, noise, resets.
    weights.insert("value.weight", [1, 5], [0.0, 99.0, 0.0, 0.0, 0.0]);
    weights.insert("value.bias", [1], [1.0]);
    let head = HeadSpec::Gaussian { log_std: LogStd::Free(0.0) };
    let spec = NetworkSpec { actor: vec![], critic: Some(vec![]), head, ..NetworkSpec::default() };
    let policy = Policy::network(spec).weights(weights).backend(Backend::Cpu);
    tags(Script::all(2, Ending::Truncated)).policy(policy).config(config).build().unwrap()
}

#[test]
fn a3_a_cut_is_bootstrapped_from_its_own_episode() {
    let modes = [
        CollectorConfig { frames_per_batch: Some(4), ..Default::default() },
        CollectorConfig { frames_per_batch: Some(4), set_truncated: true, ..Default::default() },
        CollectorConfig { trajs_per_batch: Some(2), ..Default::default() },
        CollectorConfig { trajs_per_batch: Some(2), traj_format: Some(TrajFormat::Padded), ..Default::default() },
    ];
    for config in modes {
        let batch = pairs(config).next().unwrap().unwrap();
        assert_eq!(batch.values().unwrap(), [1.0, 1.0, 100.0, 100.0]);
        let options = VTrace { gamma: 0.9, ..Default::default() };
        let vtrace = estimate::vtrace(&batch, batch.log_probs().unwrap(), &options).unwrap();
        let gae = estimate::gae(&batch, 0.9, 1.0).unwrap();
        // Rewards are 1: they add 1.9 and 1.
        let wanted = [0.81 - 1.0 + 1.9, -0.1 + 1.0, 81.0 - 100.0 + 1.9, -10.0 + 1.0];
        for advantages in [vtrace.advantages, gae.advantages] {
            for (got, want) in advantages.iter().zip(wanted) {
                assert!((got - want).abs() < 1e-5, "{advantages:?}");
            }
        }
    }
}

#[test]
fn a6_the_final_observation_is_there_and_is_not_the_next_reset() {
    for config in [
        CollectorConfig { frames_per_batch: Some(4), ..Default::default() },
        CollectorConfig { trajs_per_batch: Some(2), ..Default::default() },
    ] {
        let batch = pairs(config).next().unwrap().unwrap();
        let place = |seen: &Seen| [seen.episode, seen.t];
        assert_eq!(batch.final_observation(0), None);
        assert_eq!(batch.final_observation(1).map(place), Some([0.0, 2.0]));
        assert_eq!(place(batch.next_observation(1)), [0.0, 2.0]);
        assert_eq!(place(&batch.observations()[2]), [1.0, 0.0]);
        assert!(batch.ends()[1].truncated() && !batch.ends()[1].terminated());
        assert_eq!(batch.bootstrap_values().unwrap(), [1.0, 1.0, 100.0, 100.0]);
    }
}
