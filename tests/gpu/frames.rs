//! Every form of action and every layer in whole collectors on the GPU: each frame is what the CPU makes of the same
//! observations, in one world, over workers, and where rows act as they come.

use std::{collections::HashMap, marker::PhantomData};

use bevy_ecs::prelude::Component;
use gleaner::{
    policy::{
        HeadSpec, Layer,
        head::{Annealed, LogStd, Noise},
        plan::Activation,
    },
    prelude::*,
    seed::Seed,
};

/// Names and bodies.
pub const TESTS: &[(&str, fn())] = &[
    ("frames::of_a_world_are_the_cpus", || all_are_the_cpus(Way::World)),
    ("frames::of_two_workers_are_the_cpus", || all_are_the_cpus(Way::Workers)),
    ("frames::of_rows_as_they_come_are_the_cpus", || all_are_the_cpus(Way::AsTheyCome)),
];

gleaner::data! {
    /// Numbers that name a frame, and a kind.
    struct Seen {
        noise: [f32; 3],
        kind: i32,
    }
}

/// What is seen does not depend on what is done, so that rounding does not lead runs apart. One entry of a mask is not
/// legal, each frame another.
#[derive(Component, Default)]
struct Board<A: Send + Sync + 'static> {
    steps: u32,
    action: PhantomData<A>,
}

macro_rules! board {
    ($action:ty, $mask:ty, $space:expr) => {
        impl Task for Board<$action> {
            type Observation = Seen;
            type Action = $action;
            type Mask = $mask;
            fn observation_space() -> Space {
                let field = |name: &str, space| (name.to_string(), space);
                Space::Fields(vec![field("noise", Space::unbounded(3)), field("kind", Space::discrete(5))])
            }
            fn action_space() -> Space {
                $space
            }
        }

        impl Env for Board<$action> {
            type Options = ();
            fn reset(&mut self, (): &(), stream: &mut Stream) -> Seen {
                self.steps = 0;
                seen(stream)
            }
            fn step(&mut self, _: &$action, stream: &mut Stream) -> Transition<Seen> {
                self.steps += 1;
                Transition { observation: seen(stream), reward: 0.0, terminated: self.steps == 13, truncated: false }
            }
            fn action_mask(&self, mask: &mut $mask) {
                let bytes = bytemuck::bytes_of_mut(mask).iter_mut().zip(0..);
                bytes.for_each(|(legal, i)| *legal = u8::from(i != self.steps % 5));
            }
        }
    };
}
board!(i32, [u8; 5], Space::discrete(5));
board!([i32; 2], [u8; 5], Space::MultiDiscrete { n: vec![2, 3] });
board!([u8; 3], (), Space::MultiBinary { n: 3 });
board!([f32; 2], (), Space::bounded([-1.0, 0.5], [2.0, 4.0]));

fn seen(stream: &mut Stream) -> Seen {
    Seen { noise: std::array::from_fn(|_| stream.normal()), kind: stream.below(5) as i32 }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    World,
    Workers,
    AsTheyCome,
}

const ROWS: usize = 38;

/// By what was seen: the action's bytes, and log-probability, value and distribution.
type Frames = HashMap<Vec<u8>, (Vec<u8>, Vec<f32>)>;

fn frames<E: Env + Default>(spec: &NetworkSpec, backend: Backend, way: Way, total: usize) -> Frames {
    let plan = spec.plan::<E>().unwrap();
    let mut weights = spec.initial_weights(&plan, Seed(3));
    // New ones are so small that all actions are about as likely.
    let last = &mut weights.0.get_mut("action.weight").unwrap().data;
    last.iter_mut().for_each(|x| *x *= if let HeadSpec::Q { .. } = spec.head { 1.0 } else { 100.0 });
    let policy = Policy::<E>::network(spec.clone()).weights(weights).backend(backend);
    let builder = Collector::<E>::builder().rows(ROWS).frames_per_batch(ROWS * 10).total_frames((ROWS * total) as u64);
    let builder = builder.record_distribution(true).policy(policy);
    let mut collector = match way {
        Way::World => builder,
        Way::Workers => builder.workers(2),
        Way::AsTheyCome => builder.async_batched(AsyncBatched { threads: Some(2), ..AsyncBatched::default() }),
    }
    .build()
    .unwrap();
    let mut frames = Frames::new();
    for batch in &mut collector {
        let batch = batch.unwrap();
        let names = ["logits", "q_values", "mean", "std", "entropy", "log_prob", "value"];
        let specs = batch.columns().iter().filter(|spec| names.contains(&&*spec.name));
        let columns: Vec<Vec<f32>> =
            specs.map(|spec| batch.array::<f32>(&spec.name).unwrap().iter().copied().collect()).collect();
        for (i, action) in batch.actions().iter().enumerate() {
            let of_frame = |column: &Vec<f32>| {
                let width = column.len() / batch.len();
                column[i * width..(i + 1) * width].to_vec()
            };
            let frame = (bytemuck::bytes_of(action).to_vec(), columns.iter().flat_map(of_frame).collect());
            let key = bytemuck::bytes_of(&batch.observations()[i]).to_vec();
            assert!(frames.insert(key, frame).is_none(), "no two frames see the same");
        }
    }
    assert_eq!(collector.stats().backend.as_deref() == Some("cpu"), backend == Backend::Cpu);
    frames
}

/// Whether numbers agree as the two backends' do.
fn near(got: &[f32], want: &[f32]) -> bool {
    got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() <= 1e-4 * b.abs().max(1.0))
}

fn are_the_cpus<E: Env + Default>(name: &str, spec: &NetworkSpec, way: Way, continuous: bool) {
    let got = frames::<E>(spec, Backend::Gpu, way, 40);
    // Rows that act as they come get about as far as each other.
    let want = frames::<E>(spec, Backend::Cpu, Way::World, if way == Way::AsTheyCome { 160 } else { 40 });
    let (mut common, mut differ) = (0, 0);
    for (seen, (action, numbers)) in &got {
        let Some((theirs, expected)) = want.get(seen) else { continue };
        common += 1;
        let floats = |bytes: &[u8]| bytemuck::pod_collect_to_vec::<u8, f32>(bytes);
        if continuous {
            assert!(near(&floats(action), &floats(theirs)), "{name}, {way:?}: {action:?} is not {theirs:?}");
        } else if action != theirs {
            differ += 1;
            continue;
        }
        assert!(near(numbers, expected), "{name}, {way:?}: {numbers:?} is not {expected:?}");
    }
    assert!(
        if way == Way::AsTheyCome { common > ROWS * 30 } else { common == want.len() },
        "{name}, {way:?}: {common}"
    );
    // Where a draw is within rounding of where two actions meet.
    assert!(differ <= common / 500, "{name}, {way:?}: {differ} of {common} actions differ");
}

fn all_are_the_cpus(way: Way) {
    let log_std = LogStd::Network { min: -2.0, max: 0.5 };
    let process = Noise::OrnsteinUhlenbeck { theta: 0.15, sigma: 0.2, dt: 0.5 };
    let noise = Noise::Gaussian { std: 0.2 };
    let head = |head| NetworkSpec { head, ..NetworkSpec::mlp(&[24], Activation::Tanh) };
    for (name, spec) in [
        ("gaussian", HeadSpec::Gaussian { log_std }),
        ("tanh-Gaussian", HeadSpec::TanhGaussian { log_std }),
        ("deterministic", HeadSpec::Deterministic { noise }),
        ("deterministic with a process", HeadSpec::Deterministic { noise: process }),
        ("squashed", HeadSpec::TanhDeterministic { noise }),
    ] {
        are_the_cpus::<Board<[f32; 2]>>(name, &head(spec), way, true);
    }
    are_the_cpus::<Board<[u8; 3]>>("multi-binary", &head(HeadSpec::MultiBinary), way, false);
    are_the_cpus::<Board<[i32; 2]>>("multi-discrete", &head(HeadSpec::MultiDiscrete), way, false);
    let epsilon = Annealed { from: 0.4, to: 0.4, frames: 0 };
    are_the_cpus::<Board<i32>>("Q", &head(HeadSpec::Q { epsilon }), way, false);
    let trunk = |trunk: Vec<Layer>| NetworkSpec { trunk, ..head(HeadSpec::Categorical) };
    let fields = [("kind".to_string(), vec![Layer::Embedding(6)])].into();
    for (name, spec) in [
        ("LSTM", trunk(vec![Layer::Lstm(12)])),
        ("GRU", trunk(vec![Layer::Gru(12)])),
        ("layer norm", trunk(vec![Layer::Linear(20), Layer::LayerNorm, Layer::GeluErf])),
        ("embedding", NetworkSpec { fields, ..trunk(vec![]) }),
    ] {
        are_the_cpus::<Board<i32>>(name, &spec, way, false);
    }
}
