mod bits;
mod golden;
mod heads;

use safetensors::SafeTensors;

use super::*;
use crate::{
    components::{ActionKey, Episode, EpisodeStep, Masks},
    policy::{NetworkSpec, plan::Activation},
    seed::{Purpose, Seed},
    space::Space,
};

/// Inputs and outputs of one call.
#[derive(Clone, Debug, PartialEq)]
struct Rows {
    inputs: Vec<f32>,
    keys: Vec<ActionKey>,
    episodes: Vec<Episode>,
    steps: Vec<EpisodeStep>,
    masks: Vec<[u8; 5]>,
    params: Vec<f32>,
    actions: Vec<u32>,
    log_probs: Vec<f32>,
    values: Vec<f32>,
}

impl Rows {
    fn new(plan: &Plan, inputs: Vec<f32>, first: u32) -> Self {
        let rows = inputs.len() / plan.inputs;
        let numbers = || first..first + rows as u32;
        Self {
            inputs,
            keys: numbers().map(|row| ActionKey(Seed(5).row_key(row, Purpose::Action))).collect(),
            episodes: numbers().map(Episode).collect(),
            steps: numbers().map(|row| EpisodeStep(3 * row)).collect(),
            masks: numbers().map(|row| std::array::from_fn(|i| u8::from(i as u32 != row % 5))).collect(),
            params: vec![f32::NAN; rows * plan.head.params()],
            actions: vec![u32::MAX; rows * plan.head.action_words()],
            log_probs: vec![f32::NAN; rows],
            values: vec![f32::NAN; rows],
        }
    }

    fn run(mut self, network: &mut CpuNetwork, exploration: Exploration, masked: bool) -> Self {
        self.forward(network, exploration, masked, None);
        self
    }

    fn forward(
        &mut self,
        network: &mut CpuNetwork,
        exploration: Exploration,
        masked: bool,
        memory: Option<Memory<'_>>,
    ) {
        let input = Forward {
            inputs: &self.inputs,
            masks: if masked { Masks::new(&self.masks) } else { Masks::new::<()>(&[]) },
            keys: &self.keys,
            episodes: &self.episodes,
            steps: &self.steps,
            exploration,
            memory,
        };
        let mut out = Outcome {
            params: &mut self.params,
            actions: &mut self.actions,
            log_probs: &mut self.log_probs,
            values: &mut self.values,
        };
        network.forward(&input, &mut out).unwrap();
    }
}

fn network(spec: &NetworkSpec, inputs: usize, space: &Space) -> CpuNetwork {
    let field = |dtype, shape| crate::data::Field { name: "", dtype, shape };
    let fields = match space {
        Space::Box { low, .. } => field(crate::data::Dtype::F32, vec![low.len()]),
        _ => field(crate::data::Dtype::I32, vec![]),
    };
    let observation = field(crate::data::Dtype::F32, vec![inputs]);
    let plan = spec.plan_for((&Space::unbounded(inputs), &[observation]), (space, &[fields])).unwrap();
    let mut weights = spec.initial_weights(&plan, Seed(11));
    // The small initial logits would leave the heads nearly untested.
    weights.0.get_mut("action.weight").unwrap().data.iter_mut().for_each(|x| *x *= 200.0);
    let mut network = CpuNetwork::new(plan);
    network.load(&weights).unwrap();
    network
}

fn golden(name: &str) -> Vec<f32> {
    let bytes = std::fs::read("tests/data/forward.safetensors").unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let data = file.tensor(name).unwrap().data().to_vec();
    data.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect()
}

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
        let input = Forward { inputs, masks, keys: &[], episodes: &[], steps: &[], exploration, memory: None };
        let mut out = Outcome { params: &mut [], actions: &mut [], log_probs: &mut [], values: &mut [] };
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
    let mut empty = CpuNetwork::new(plan);
    assert!(empty.weights.is_none());
    empty.share(&network).unwrap();
    assert!(empty.weights.is_some());
}
