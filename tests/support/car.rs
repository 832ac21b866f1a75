//! A task whose action is a struct, and what its networks must give.

use bevy_ecs::prelude::Component;
use gleaner::{
    env::{Env, Transition},
    policy::{
        HeadSpec,
        head::{LogStd, categorical, gaussian, multi_binary},
        plan::Activation,
    },
    prelude::*,
};

gleaner::data! {
    /// What a driver does.
    pub struct Controls {
        pub gear: i32,
        pub steer: [f32; 2],
        pub lights: [u8; 4],
    }
}

/// Sees random numbers; the first gear is legal in every second frame only.
#[derive(Component, Default)]
pub struct Car {
    steps: u32,
}

impl Task for Car {
    type Observation = [f32; 3];
    type Action = Controls;
    type Mask = [u8; 3];
    fn observation_space() -> Space {
        Space::unbounded(3)
    }
    fn action_space() -> Space {
        let field = |name: &str, space| (name.to_string(), space);
        Space::Fields(vec![
            field("gear", Space::discrete(3)),
            field("steer", Space::uniform(-1.0, 1.0, 2)),
            field("lights", Space::MultiBinary { n: 4 }),
        ])
    }
}

impl Env for Car {
    type Options = ();
    fn reset(&mut self, _: &(), stream: &mut Stream) -> [f32; 3] {
        self.steps = 0;
        std::array::from_fn(|_| stream.normal())
    }
    fn step(&mut self, action: &Controls, stream: &mut Stream) -> Transition<[f32; 3]> {
        self.steps += 1;
        assert!(action.steer.iter().all(|x| x.abs() <= 1.0), "continuous fields come clipped");
        let observation = std::array::from_fn(|_| stream.normal());
        Transition { observation, reward: action.gear as f32, terminated: self.steps == 30, truncated: false }
    }
    fn action_mask(&self, mask: &mut [u8; 3]) {
        *mask = [(self.steps % 2) as u8, 1, 1];
    }
}

/// Bounds of the logarithms of the deviations.
const MIN: f32 = -1.0;
const MAX: f32 = 0.5;

/// Heads by field; the last one follows from the space.
pub fn spec() -> NetworkSpec {
    let text = r#"(
        actor: [Linear(24), Tanh],
        critic: [],
        heads: {"gear": Categorical, "steer": Gaussian(log_std: Network(min: -1.0, max: 0.5))},
    )"#;
    NetworkSpec::from_ron_str(text).expect("legal")
}

/// A collector of `rows` rows whose distributions are far from uniform.
pub fn cars(rows: usize, backend: Backend, exploration: Exploration) -> Collector<Car> {
    let policy = Policy::network(spec()).backend(backend).seed(2);
    let builder = Collector::<Car>::builder().rows(rows).frames_per_batch(rows * 50).policy(policy).seed(6);
    let collector = builder.record_distribution(true).exploration(exploration).build().expect("builds");
    let handle = collector.weights().expect("a network");
    let mut weights = (*handle.latest().1).clone();
    weights.0.get_mut("action.weight").expect("the last layer").data.iter_mut().for_each(|x| *x *= 200.0);
    handle.publish(weights).expect("its own tensors");
    collector
}

fn close(a: f32, b: f32, what: &str) {
    assert!((a - b).abs() <= 1e-4 * b.abs().max(1.0), "{what}: {a} is not {b}");
}

/// Log-probabilities and entropies are the sums over the fields, of what the parameters say.
pub fn check_sums(batch: &Batch<Car>) {
    let params = batch.column::<[f32; 11]>("params").expect("recorded");
    let entropies = batch.column::<f32>("entropy").expect("recorded");
    for i in 0..batch.len() {
        let (action, mask, params) = (batch.actions()[i], batch.masks().expect("masks")[i], &params[i]);
        let (logits, means, bits) = (&params[..3], &params[3..5], &params[7..]);
        let log_std = [params[5].clamp(MIN, MAX), params[6].clamp(MIN, MAX)];
        assert_ne!(mask[action.gear as usize], 0, "slot {i}: gear {}", action.gear);
        let log_prob = categorical::log_prob(logits, &mask, action.gear as usize)
            + gaussian::log_prob(means, &log_std, &action.steer)
            + multi_binary::log_prob(bits, &action.lights);
        close(batch.log_probs().expect("a network")[i], log_prob, "log-probability");
        let entropy = categorical::entropy(logits, &mask) + gaussian::entropy(log_std) + multi_binary::entropy(bits);
        close(entropies[i], entropy, "entropy");
    }
}

/// Rows are the same, to the bit, whatever rows share the batch.
pub fn check_bits(backend: Backend) {
    let [mut few, mut many] = [5, 70].map(|rows| cars(rows, backend, Exploration::Sample));
    for _ in 0..2 {
        let [few, many] = [&mut few, &mut many].map(|cars| cars.next().expect("endless").expect("no fault"));
        check_sums(&many);
        for i in 0..few.len() {
            let j = i / 5 * 70 + i % 5;
            assert_eq!(bytemuck::bytes_of(&few.actions()[i]), bytemuck::bytes_of(&many.actions()[j]), "slot {i}");
            let outputs = |batch: &Batch<Car>, i: usize| {
                let columns = [batch.log_probs(), batch.values(), batch.column::<f32>("entropy").ok()];
                columns.map(|column| column.expect("recorded")[i].to_bits())
            };
            assert_eq!(outputs(&few, i), outputs(&many, j), "slot {i}");
        }
    }
}

/// Heads that do not go with the action, and what the message says.
pub fn wrong() -> Vec<(NetworkSpec, &'static str)> {
    let heads = |name: &str, head| NetworkSpec { heads: [(name.to_string(), head)].into(), ..NetworkSpec::default() };
    let process = gleaner::policy::head::Noise::OrnsteinUhlenbeck { theta: 0.1, sigma: 0.1, dt: 0.1 };
    let free = HeadSpec::Gaussian { log_std: LogStd::Free(99.0) };
    vec![
        (heads("horn", HeadSpec::Auto), "heads is horn; legal: gear, steer, lights"),
        (heads("gear", HeadSpec::MultiBinary), "heads.gear is MultiBinary; legal: Auto, Categorical or Q(…)"),
        (heads("steer", HeadSpec::Deterministic { noise: process }), "heads.steer.noise is OrnsteinUhlenbeck"),
        (heads("steer", free), "heads.steer.log_std is 99"),
        (NetworkSpec { head: HeadSpec::Categorical, ..NetworkSpec::mlp(&[4], Activation::Relu) }, "Auto for a struct"),
    ]
}
