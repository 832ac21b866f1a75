mod bits;
mod convolutions;
mod distributions;
mod golden;
mod heads;
mod noise;

use safetensors::SafeTensors;

use super::*;
use crate::{
    components::{ActionKey, Episode, EpisodeStep, Masks},
    data::{Dtype, Field},
    policy::{
        HeadSpec, NetworkSpec,
        plan::{Activation, Annealed, Exploration, Head, LogStd, Noise, States},
    },
    seed::{Purpose, Seed},
    space::Space,
};

/// All that this machine has: the widest, what a lesser machine would take, none.
pub(in crate::policy) fn instruction_sets() -> Vec<Arch> {
    let lesser = match Arch::new() {
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        Arch::V4(wide) => Arch::V3(*wide),
        arch => arch,
    };
    vec![Arch::new(), lesser, Arch::Scalar]
}

/// Inputs and outputs of one call.
#[derive(Clone, Debug, PartialEq)]
struct Rows {
    inputs: Vec<f32>,
    keys: Vec<ActionKey>,
    episodes: Vec<Episode>,
    steps: Vec<EpisodeStep>,
    masks: Vec<[u8; 5]>,
    frames: u64,
    params: Vec<f32>,
    actions: Vec<u8>,
    log_probs: Vec<f32>,
    entropies: Vec<f32>,
    values: Vec<f32>,
    /// What rows remember, before and after.
    states: Vec<f32>,
}

impl Rows {
    fn new(plan: &Plan, inputs: Vec<f32>, first: u32) -> Self {
        let rows = inputs.len() / plan.inputs;
        let numbers = || first..first + rows as u32;
        let width = plan.state() as u32;
        Self {
            inputs,
            keys: numbers().map(|row| ActionKey(Seed(5).row_key(row, Purpose::Action))).collect(),
            episodes: numbers().map(Episode).collect(),
            steps: numbers().map(|row| EpisodeStep(3 * row)).collect(),
            masks: numbers().map(|row| std::array::from_fn(|i| u8::from(i as u32 != row % 5))).collect(),
            frames: 40,
            params: vec![f32::NAN; rows * plan.head.params()],
            actions: vec![u8::MAX; rows * plan.head.action_bytes()],
            log_probs: vec![f32::NAN; rows],
            entropies: vec![f32::NAN; rows],
            values: vec![f32::NAN; rows],
            states: numbers().flat_map(|row| (0..width).map(move |i| ((row * width + i) as f32).sin())).collect(),
        }
    }

    /// Runs with states of its own; every third row's episode begins.
    fn run(mut self, network: &mut CpuNetwork, exploration: Exploration, masked: bool) -> Self {
        let (rows, width) = (self.keys.len(), network.plan().state());
        let states = States::new(rows, width);
        for (place, state) in self.states.chunks_exact(width.max(1)).enumerate() {
            states.write(place, 0, state);
        }
        let places: Vec<_> = (0..rows as u32).collect();
        let fresh: Vec<_> = self.episodes.iter().map(|episode| u8::from(episode.0.is_multiple_of(3))).collect();
        self.forward(network, exploration, masked, Some(Memory { states: &states, places: &places, fresh: &fresh }));
        for (place, state) in self.states.chunks_exact_mut(width.max(1)).enumerate() {
            states.read(place, 0, state);
        }
        self
    }

    fn forward(
        &mut self,
        network: &mut CpuNetwork,
        exploration: Exploration,
        masked: bool,
        memory: Option<Memory<'_>>,
    ) {
        let masked = masked && network.plan().head.mask() > 0;
        let input = Forward {
            inputs: &self.inputs,
            masks: if masked { Masks::new(&self.masks) } else { Masks::new::<()>(&[]) },
            keys: &self.keys,
            episodes: &self.episodes,
            steps: &self.steps,
            exploration,
            frames: self.frames,
            memory,
        };
        let mut out = Outcome {
            params: &mut self.params,
            actions: &mut self.actions,
            log_probs: &mut self.log_probs,
            entropies: &mut self.entropies,
            values: &mut self.values,
        };
        network.forward(&input, &mut out).unwrap();
    }

    /// Element `at` of all actions that are indices.
    fn index(&self, at: usize) -> usize {
        i32::from_ne_bytes(self.actions[4 * at..4 * at + 4].try_into().unwrap()) as usize
    }

    /// Element `at` of all actions that are numbers.
    fn float(&self, at: usize) -> f32 {
        f32::from_ne_bytes(self.actions[4 * at..4 * at + 4].try_into().unwrap())
    }
}

/// The field that stores values of a space.
fn field(space: &Space) -> Field {
    let (dtype, shape) = match space {
        Space::Box { low, .. } => (Dtype::F32, vec![low.len()]),
        Space::MultiDiscrete { n } => (Dtype::I32, vec![n.len()]),
        Space::MultiBinary { n } => (Dtype::U8, vec![*n]),
        _ => (Dtype::I32, vec![]),
    };
    Field { name: "".into(), dtype, shape }
}

fn network(spec: &NetworkSpec, inputs: usize, space: &Space) -> CpuNetwork {
    let observation = Space::unbounded(inputs);
    network_on(spec, (&observation, field(&observation)), space)
}

fn network_on(spec: &NetworkSpec, observation: (&Space, Field), space: &Space) -> CpuNetwork {
    let plan = spec.plan_for((observation.0, &[observation.1]), (space, &[field(space)])).unwrap();
    let mut weights = spec.initial_weights(&plan, Seed(11));
    // The small initial logits would leave the heads nearly untested.
    let scale = if matches!(plan.head, Head::Q { .. }) { 2.0 } else { 200.0 };
    weights.0.get_mut("action.weight").unwrap().data.iter_mut().for_each(|x| *x *= scale);
    let mut network = CpuNetwork::new(plan);
    network.load(&weights).unwrap();
    network
}

/// Every head with a space; where there is a mask, it is of five bytes.
fn heads() -> Vec<(HeadSpec, Space)> {
    let (five, two) = (Space::discrete(5), Space::MultiDiscrete { n: vec![2, 3] });
    let (bits, free, bounded) =
        (Space::MultiBinary { n: 3 }, Space::unbounded(3), Space::bounded([-1.0, -2.0, 0.5], [1.0, 0.5, 4.0]));
    let process = Noise::OrnsteinUhlenbeck { theta: 0.15, sigma: 0.2, dt: 0.5 };
    vec![
        (HeadSpec::Categorical, five.clone()),
        (HeadSpec::MultiDiscrete, two),
        (HeadSpec::MultiBinary, bits),
        (HeadSpec::Gaussian { log_std: LogStd::Free(-1.0) }, free.clone()),
        (HeadSpec::Gaussian { log_std: LogStd::Network { min: -1.5, max: 0.25 } }, free.clone()),
        (HeadSpec::TanhGaussian { log_std: LogStd::Free(-0.5) }, bounded.clone()),
        (HeadSpec::TanhGaussian { log_std: LogStd::NETWORK }, bounded.clone()),
        (HeadSpec::TanhDeterministic { noise: Noise::Gaussian { std: 0.3 } }, bounded),
        (HeadSpec::Deterministic { noise: Noise::None }, free.clone()),
        (HeadSpec::Deterministic { noise: Noise::Gaussian { std: 0.3 } }, free.clone()),
        (HeadSpec::Deterministic { noise: process }, free),
        (HeadSpec::Q { epsilon: Annealed { from: 1.0, to: 0.1, frames: 100 } }, five),
    ]
}

/// A default network with this head.
fn head_network(head: HeadSpec, space: &Space) -> CpuNetwork {
    network(&NetworkSpec { head, ..Default::default() }, 4, space)
}

fn golden(name: &str) -> Vec<f32> {
    let bytes = std::fs::read("tests/data/forward.safetensors").unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let data = file.tensor(name).unwrap().data().to_vec();
    data.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect()
}

/// Within what rounding may change.
fn close(got: &[f32], want: &[f32], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (a, b)) in got.iter().zip(want).enumerate() {
        assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{what}, element {i}: {a} is not {b}");
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let mut network = network(&NetworkSpec::default(), 4, &Space::discrete(5));
    let mut call = |inputs: &[f32], exploration| {
        let masks = Masks::new::<()>(&[]);
        let input =
            Forward { inputs, masks, keys: &[], episodes: &[], steps: &[], exploration, frames: 0, memory: None };
        let mut out =
            Outcome { params: &mut [], actions: &mut [], log_probs: &mut [], entropies: &mut [], values: &mut [] };
        network.forward(&input, &mut out).map_err(|error| error.to_string())
    };
    assert_eq!(call(&[], Exploration::Sample), Ok(()));
    assert!(call(&[1.0], Exploration::Sample).unwrap_err().contains("inputs has 1 elements for 0 rows; legal: 0"));
    assert!(call(&[], Exploration::Mean).unwrap_err().contains("no mean"));
    assert!(call(&[], Exploration::Random).unwrap_err().contains("random"));
    assert!(network.load(&Weights::new()).is_err());
    let plan = network.plan().clone();
    let mut circular = plan.clone();
    circular.layers[1].from = circular.layers[1].to;
    let message = CpuNetwork::new(circular).load(&Weights::new()).unwrap_err().to_string();
    assert!(message.contains("actor.2"), "{message}");
    for squash in [[vec![], vec![1.0; 5]], [vec![0.0; 5], vec![1.0; 4]]] {
        let mut unbounded = plan.clone();
        unbounded.head = Head::Deterministic { n: 5, noise: Noise::None, squash: Some(squash) };
        let message = CpuNetwork::new(unbounded).load(&Weights::new()).unwrap_err().to_string();
        assert!(message.contains("bound for each element"), "{message}");
    }
    let mut empty = CpuNetwork::new(plan);
    assert!(empty.weights.is_none());
    let packed = network.packer().pack(&NetworkSpec::default().initial_weights(network.plan(), Seed(1))).unwrap();
    empty.adopt(&packed).unwrap();
    network.adopt(&packed).unwrap();
    assert!(Arc::ptr_eq(empty.weights.as_ref().unwrap(), network.weights.as_ref().unwrap()), "packed once");
    let other: PackedWeights = Arc::new(());
    assert!(empty.adopt(&other).unwrap_err().to_string().contains("another network"));
}
