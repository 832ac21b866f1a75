//! How a network's parameters become actions in a collector: epsilon follows the frames acted for, noise follows the
//! episode, and neither depends on threads or on how batches are cut; actions of every form are recorded as taken.

use crate::support::slow::{Slow, slow};
use bevy_ecs::{
    prelude::{Component, IntoScheduleConfigs, Query, World},
    schedule::{Schedule, ScheduleCleanupPolicy},
};
use gleaner::{
    math,
    policy::{
        HeadSpec,
        head::{multi_binary, multi_discrete, q},
        plan::{Annealed, Noise},
    },
    prelude::*,
    seed::{DRAWS_PER_FRAME, Purpose, Seed, threefry},
};

const ROWS: usize = 8;
const EPSILON: Annealed = Annealed { from: 0.9, to: 0.1, frames: 500 };

fn spec(head: HeadSpec) -> NetworkSpec {
    NetworkSpec { head, ..NetworkSpec::default() }
}

/// Actions, log-probabilities and values of a run.
type Frames = (Vec<i32>, Vec<f32>, Vec<[f32; 2]>);

fn collect(collector: &mut Collector<CartPole>) -> Frames {
    let mut frames = Frames::default();
    for batch in collector {
        let batch = batch.unwrap();
        frames.0.extend(batch.actions());
        frames.1.extend(batch.log_probs().unwrap());
        frames.2.extend(batch.column::<[f32; 2]>("q_values").unwrap());
    }
    frames
}

fn greedy(total: u64, horizon: usize, threads: usize, random: u64) -> Collector<CartPole> {
    let builder = Collector::<CartPole>::builder().rows(ROWS).frames_per_batch(ROWS * horizon).total_frames(total);
    let policy = Policy::network(spec(HeadSpec::Q { epsilon: EPSILON })).backend(Backend::Cpu);
    let builder = builder.policy(policy).record_distribution(true).init_random_frames(random);
    builder.threads(threads).infer_rows_per_thread(1).step_rows_per_thread(1).build().unwrap()
}

/// The frames that the policy has acted for before the tick of frame `i`.
fn acted(i: usize, random: u64) -> u64 {
    ((i / ROWS * ROWS) as u64).saturating_sub(random)
}

fn is_epsilon_greedy((actions, log_probs, values): &Frames, first: usize, random: u64) {
    for (i, (action, log_prob)) in actions.iter().zip(log_probs).enumerate() {
        let frame = first + i;
        if (frame as u64) < random {
            assert_eq!(*log_prob, 0.0, "frame {frame} is of the warm-up");
            continue;
        }
        let want = q::log_prob(&values[i], &[], EPSILON.at(acted(frame, random)), *action as usize);
        assert_eq!(*log_prob, want, "frame {frame}");
    }
}

#[test]
fn epsilon_follows_the_frames_that_the_policy_acted_for() {
    // The warm-up ends in the middle of a tick.
    for random in [0, 44] {
        let frames = collect(&mut greedy(800, 10, 1, random));
        assert_eq!(frames.0.len(), 800);
        is_epsilon_greedy(&frames, 0, random);
        for (horizon, threads) in [(10, 3), (7, 1), (100, 2)] {
            assert_eq!(
                frames,
                collect(&mut greedy(800, horizon, threads, random)),
                "{horizon} ticks, {threads} threads"
            );
        }
    }
}

#[test]
fn epsilon_goes_on_with_the_counters() {
    let mut first = greedy(400, 10, 1, 44);
    collect(&mut first);
    let mut second = greedy(800, 10, 1, 44);
    second.load_counters(&first.counters()).unwrap();
    let frames = collect(&mut second);
    assert_eq!(frames.0.len(), 400);
    is_epsilon_greedy(&frames, 400, 44);
}

#[test]
fn a_process_of_noise_begins_with_its_episode() {
    let (theta, sigma, dt) = (0.3, 0.7, 0.25);
    let noise = Noise::OrnsteinUhlenbeck { theta, sigma, dt };
    let run = |horizon: usize, threads: usize| {
        let builder = Collector::<Pendulum>::builder().rows(ROWS).frames_per_batch(ROWS * horizon).seed(5);
        let policy = Policy::network(spec(HeadSpec::Deterministic { noise })).backend(Backend::Cpu);
        let builder = builder.policy(policy).record_distribution(true).max_frames_per_traj(13).total_frames(560);
        let mut collector = builder.threads(threads).infer_rows_per_thread(1).step_rows_per_thread(1).build().unwrap();
        let mut noise = Vec::new();
        for batch in &mut collector {
            let batch = batch.unwrap();
            let pairs = batch.actions().iter().zip(batch.column::<f32>("mean").unwrap());
            noise.extend(pairs.zip(batch.steps()).map(|((action, mean), step)| (action[0] - mean, step.0)));
        }
        noise
    };
    let noise = run(10, 1);
    assert_eq!(noise.len(), 560);
    for (i, (x, step)) in noise.iter().enumerate() {
        let (row, episode) = ((i % ROWS) as u32, (i / ROWS / 13) as u32);
        let key = Seed(5).row_key(row, Purpose::Action);
        let [a, b] = threefry(key, [step * DRAWS_PER_FRAME, episode]);
        let before = if *step == 0 { 0.0 } else { noise[i - ROWS].0 };
        let want = before - theta * before * dt + sigma * dt.sqrt() * math::box_muller(a, b)[0];
        assert!((x - want).abs() < 1e-5, "row {row}, step {step}: {x} is not {want}");
    }
    assert_eq!(noise, run(3, 3));
}

/// A panel of switches, or of dials: what is set comes back in the next observation.
#[derive(Component, Default)]
struct Panel<A>(A);

macro_rules! panel {
    ($action:ty, $mask:ty, $space:expr) => {
        impl Task for Panel<$action> {
            type Observation = [f32; 3];
            type Action = $action;
            type Mask = $mask;
            fn observation_space() -> Space {
                Space::unbounded(3)
            }
            fn action_space() -> Space {
                $space
            }
        }
    };
}
panel!([u8; 3], (), Space::MultiBinary { n: 3 });
panel!([i32; 2], [u8; 5], Space::MultiDiscrete { n: vec![2, 3] });

impl Env for Panel<[u8; 3]> {
    type Options = ();
    fn reset(&mut self, (): &(), stream: &mut Stream) -> [f32; 3] {
        [stream.normal(), 0.0, 0.0]
    }
    fn step(&mut self, action: &[u8; 3], _: &mut Stream) -> Transition<[f32; 3]> {
        Transition { observation: action.map(f32::from), reward: 0.0, terminated: false, truncated: false }
    }
}

impl Env for Panel<[i32; 2]> {
    type Options = ();
    fn reset(&mut self, (): &(), stream: &mut Stream) -> [f32; 3] {
        [stream.normal(), 0.0, 0.0]
    }
    fn step(&mut self, action: &[i32; 2], _: &mut Stream) -> Transition<[f32; 3]> {
        self.0 = *action;
        let observation = [action[0] as f32, action[1] as f32, 1.0];
        Transition { observation, reward: 0.0, terminated: false, truncated: false }
    }
    /// The dial's last value is not allowed again.
    fn action_mask(&self, mask: &mut [u8; 5]) {
        *mask = [1; 5];
        mask[2 + self.0[1] as usize] = 0;
    }
}

#[test]
fn bits_are_recorded_with_their_distribution() {
    let policy = Policy::network(NetworkSpec::default());
    let builder = Collector::<Panel<[u8; 3]>>::builder().rows(5).frames_per_batch(100).policy(policy);
    let batch = builder.record_distribution(true).build().unwrap().rollout().unwrap();
    let logits = batch.column::<[f32; 3]>("logits").unwrap();
    for (i, (action, log_prob)) in batch.actions().iter().zip(batch.log_probs().unwrap()).enumerate() {
        let logits = &logits[i];
        assert!(action.iter().all(|bit| *bit < 2));
        assert!((multi_binary::log_prob(logits, action) - log_prob).abs() < 1e-6, "frame {i}");
        let entropy = batch.column::<f32>("entropy").unwrap()[i];
        assert!((multi_binary::entropy(logits) - entropy).abs() < 1e-6, "frame {i}");
    }
    assert!((0..3).all(|bit| (0..2).all(|x| batch.actions().iter().any(|action| action[bit] == x))));
}

#[test]
fn numbers_obey_their_masks() {
    let policy = Policy::network(NetworkSpec::default());
    let builder = Collector::<Panel<[i32; 2]>>::builder().rows(5).frames_per_batch(100).policy(policy);
    let batch = builder.record_distribution(true).build().unwrap().rollout().unwrap();
    let (logits, masks) = (batch.column::<[f32; 5]>("logits").unwrap(), batch.masks().unwrap());
    for (i, (action, log_prob)) in batch.actions().iter().zip(batch.log_probs().unwrap()).enumerate() {
        assert_ne!(masks[i][2 + action[1] as usize], 0, "frame {i}: {action:?}");
        let want = multi_discrete::log_prob(&[2, 3], &logits[i], &masks[i], action);
        assert!((want - log_prob).abs() < 1e-6, "frame {i}: {log_prob} is not {want}");
        assert!(batch.column::<f32>("entropy").unwrap()[i] <= (4.0_f32).ln() + 1e-6);
    }
}

#[test]
fn a_mean_that_there_is_not_fails_the_build() {
    let log_std = gleaner::policy::plan::LogStd::NETWORK;
    let build = |head| {
        let policy = Policy::network(spec(head));
        Collector::<Pendulum>::builder().policy(policy).exploration(Exploration::Mean).build().map(|_| ())
    };
    assert!(build(HeadSpec::Gaussian { log_std }).is_ok());
    let message = build(HeadSpec::TanhGaussian { log_std }).unwrap_err().to_string();
    assert!(message.contains("exploration is Mean") && message.contains("closed form"), "{message}");
}

/// Legal, and sums of them are exact.
fn act([row, episode, t, ..]: [f32; 5]) -> f32 {
    (row * 8.0 + episode * 4.0 + t) / 256.0 - 0.5
}

fn act_by_what_is_seen(mut rows: Query<(&mut Action<Slow>, &Observation<Slow>)>) {
    rows.iter_mut().for_each(|(mut action, seen)| action.0 = act(seen.0));
}

/// Takes gleaner's own systems out of the stage, of which there are `own`, and puts the host's in.
fn act_instead(world: &mut World, schedule: &mut Schedule, own: usize) {
    let policy = ScheduleCleanupPolicy::RemoveSystemsOnly;
    assert_eq!(schedule.remove_systems_in_set(CollectSystems::Infer, world, policy).unwrap(), own);
    schedule.add_systems(act_by_what_is_seen.in_set(CollectSystems::Infer));
}

#[test]
fn the_actions_of_a_hosts_system_are_acted_on_and_recorded() {
    let system: (fn() -> Policy<Slow>, _) = (Policy::system, 0);
    let replaced: (fn() -> Policy<Slow>, _) = (Policy::random, 1);
    for (executor, (policy, own)) in [
        (Executor::SingleThreaded, system),
        (Executor::MultiThreaded, system),
        (Executor::SingleThreaded, replaced),
        (Executor::MultiThreaded, replaced),
    ] {
        let builder = slow(3, |_, _, _| {}).rows(4).frames_per_batch(40).total_frames(120).executor(executor);
        let builder = builder.policy(policy()).setup(move |world, schedule| act_instead(world, schedule, own));
        let mut frames = 0;
        for batch in builder.build().unwrap() {
            let batch = batch.unwrap();
            for (i, action) in batch.actions().iter().enumerate() {
                let seen = batch.observations()[i];
                assert_eq!(*action, act(seen), "slot {i}");
                // The last number that is seen is the sum of the episode's actions.
                assert_eq!(batch.next_observation(i)[4], seen[4] + action, "slot {i}");
            }
            frames += batch.frames();
        }
        assert_eq!(frames, 120);
    }
}

/// Arenas are used again, by rollouts and by batches of whole trajectories.
#[test]
fn rows_without_a_distribution_have_none_recorded() {
    let network = Policy::network(NetworkSpec::default()).backend(Backend::Cpu);
    let builder = Collector::<CartPole>::builder().rows(6).frames_per_batch(60).trajs_per_batch(1).max_arenas(2);
    let builder = builder.policies([(0..2, Policy::random()), (2..6, network)]).record_distribution(true);
    let mut rows = [0; 6];
    for batch in builder.build().unwrap().take(60) {
        let batch = batch.unwrap();
        let row = batch.trajectories()[0].row.0 as usize;
        let logits = batch.column::<[f32; 2]>("logits").unwrap();
        assert!(logits.iter().all(|logits| (*logits == [0.0; 2]) == (row < 2)), "row {row}: {logits:?}");
        rows[row] += 1;
    }
    assert!(rows.iter().all(|batches| *batches > 3), "{rows:?}");
}
