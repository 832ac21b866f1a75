use proptest::prelude::*;
use safetensors::SafeTensors;

use super::*;
use crate::{
    components::{ActionKey, Episode, EpisodeStep, Masks},
    policy::{
        NetworkSpec,
        plan::{Activation, Linear},
    },
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
        let input = Forward {
            inputs: &self.inputs,
            masks: if masked { Masks::new(&self.masks) } else { Masks::new::<()>(&[]) },
            keys: &self.keys,
            episodes: &self.episodes,
            steps: &self.steps,
            exploration,
        };
        let mut out = Outcome {
            params: &mut self.params,
            actions: &mut self.actions,
            log_probs: &mut self.log_probs,
            values: &mut self.values,
        };
        network.forward(&input, &mut out).unwrap();
        self
    }
}

fn network(spec: &NetworkSpec, inputs: usize, space: &Space) -> CpuNetwork {
    let field = |dtype, shape| crate::data::Field { name: "", dtype, shape };
    let fields = match space {
        Space::Box { low, .. } => field(crate::data::Dtype::F32, vec![low.len()]),
        _ => field(crate::data::Dtype::I32, vec![]),
    };
    let plan = spec.plan_for(inputs, space, &[fields]).unwrap();
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
fn networks_equal_pytorch() {
    for (name, activation) in [("mlp_tanh", Activation::Tanh), ("mlp_relu", Activation::Relu)] {
        let layer = |name: &str, inputs, outputs, activation, from, to| Linear {
            name: name.into(),
            inputs,
            outputs,
            activation,
            from,
            to,
        };
        let plan = Plan {
            inputs: 4,
            hidden: vec![64, 64],
            layers: vec![
                layer("0", 4, 64, activation, Place::Input, Place::Hidden(0)),
                layer("2", 64, 64, activation, Place::Hidden(0), Place::Hidden(1)),
                layer("4", 64, 2, Activation::Identity, Place::Hidden(1), Place::Params),
            ],
            head: Head::Categorical { n: 2 },
            value: false,
        };
        let mut weights = Weights::new();
        for spec in plan.tensors() {
            weights.insert(spec.name.clone(), spec.shape, golden(&format!("{name}/weights/{}", spec.name)));
        }
        let mut network = CpuNetwork::new(plan);
        network.load(&weights).unwrap();
        let rows = Rows::new(network.plan(), golden(&format!("{name}/input")), 0);
        let rows = rows.run(&mut network, Exploration::Sample, false);
        close(&rows.params, &golden(&format!("{name}/output")), name);
        assert_eq!(rows.values, [0.0; 37]);
    }
}

#[test]
fn log_probabilities_equal_pytorch() {
    let (logits, mask, actions) =
        (golden("categorical/logits"), golden("categorical/mask"), golden("categorical/action"));
    let mask: Vec<u8> = mask.iter().map(|x| u8::from(*x != 0.0)).collect();
    let row = |i: usize| head::categorical::log_prob(&logits[i * 5..][..5], &mask[i * 5..][..5], actions[i] as usize);
    close(&(0..37).map(row).collect::<Vec<_>>(), &golden("categorical/log_prob"), "categorical");

    let (mean, log_std, action) = (golden("gaussian/mean"), golden("gaussian/log_std"), golden("gaussian/action"));
    let row = |i: usize| head::gaussian::log_prob(&mean[i * 3..][..3], &log_std[i * 3..][..3], &action[i * 3..][..3]);
    close(&(0..37).map(row).collect::<Vec<_>>(), &golden("gaussian/log_prob"), "gaussian");
}

#[test]
fn sampled_actions_are_legal_with_their_masked_log_probability() {
    let mut network = network(&NetworkSpec::default(), 4, &Space::discrete(5));
    let inputs = (0..4 * 1_000).map(|i| ((i * 7_919) % 211) as f32 * 0.02 - 2.0).collect();
    let rows = Rows::new(network.plan(), inputs, 0).run(&mut network, Exploration::Sample, true);
    for row in 0..1_000 {
        let (logits, action) = (&rows.params[row * 5..][..5], rows.actions[row] as usize);
        assert_ne!(rows.masks[row][action], 0, "row {row}");
        let want = head::categorical::log_prob(logits, &rows.masks[row], action);
        assert!((rows.log_probs[row] - want).abs() < 1e-6, "row {row}: {} is not {want}", rows.log_probs[row]);
    }
    let modes = Rows::new(network.plan(), rows.inputs.clone(), 0).run(&mut network, Exploration::Mode, true);
    for row in 0..1_000 {
        let logit = |i: usize| if modes.masks[row][i] == 0 { f32::NEG_INFINITY } else { modes.params[row * 5 + i] };
        let best = (0..5).rev().max_by(|a, b| logit(*a).total_cmp(&logit(*b))).unwrap();
        assert_eq!(modes.actions[row] as usize, best, "row {row}");
    }
}

#[test]
fn sampled_frequencies_are_the_probabilities() {
    let mut network = network(&NetworkSpec::default(), 4, &Space::discrete(5));
    let count = 20_000;
    let rows = Rows::new(network.plan(), [0.3, -0.1, 0.8, -0.5].repeat(count), 0);
    let rows = rows.run(&mut network, Exploration::Sample, false);
    for action in 0..5 {
        let probability = f64::from(head::categorical::log_prob(&rows.params[..5], &[], action)).exp();
        let share = rows.actions.iter().filter(|x| **x as usize == action).count() as f64 / count as f64;
        // Four standard deviations of a binomial share.
        let bound = 4.0 * (probability * (1.0 - probability) / count as f64).sqrt();
        assert!((share - probability).abs() < bound, "action {action}: {share} is not {probability}");
    }
}

#[test]
fn gaussian_actions_have_the_means_and_deviations_of_the_parameters() {
    let spec = NetworkSpec { head: crate::policy::HeadSpec::Gaussian { log_std: -1.0 }, ..Default::default() };
    let mut network = network(&spec, 4, &Space::unbounded(3));
    let count = 20_000;
    let rows = Rows::new(network.plan(), [0.3, -0.1, 0.8, -0.5].repeat(count), 0);
    let drawn = rows.clone().run(&mut network, Exploration::Sample, false);
    let action = |row: usize, i: usize| f32::from_bits(drawn.actions[row * 3 + i]);
    for i in 0..3 {
        let distance = |row: usize| f64::from(action(row, i) - drawn.params[i]);
        let mean = (0..count).map(distance).sum::<f64>() / count as f64;
        let variance = (0..count).map(|row| distance(row).powi(2)).sum::<f64>() / count as f64;
        assert!(mean.abs() < 0.011 && (variance.sqrt() - (-1_f64).exp()).abs() < 0.008, "{mean}, {variance}");
    }
    for row in 0..100 {
        let actions: [f32; 3] = std::array::from_fn(|i| action(row, i));
        close(
            &[drawn.log_probs[row]],
            &[head::gaussian::log_prob(&drawn.params[row * 3..][..3], &[-1.0; 3], &actions)],
            "log-density",
        );
    }
    let mean = rows.run(&mut network, Exploration::Mean, false);
    assert_eq!(mean.actions, mean.params.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
}

#[test]
fn not_a_number_does_not_panic_and_stays_legal() {
    for space in [Space::discrete(5), Space::unbounded(3)] {
        let mut network = network(&NetworkSpec::default(), 4, &space);
        let mut inputs = vec![0.5; 4 * 20];
        inputs[4 * 7] = f32::NAN;
        inputs[4 * 9] = f32::INFINITY;
        for exploration in [Exploration::Sample, Exploration::Mode] {
            let rows = Rows::new(network.plan(), inputs.clone(), 0).run(&mut network, exploration, true);
            assert!(rows.log_probs[7].is_nan() || space != Space::discrete(5));
            if space == Space::discrete(5) {
                assert!((0..20).all(|row| rows.masks[row][rows.actions[row] as usize] != 0));
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let mut network = network(&NetworkSpec::default(), 4, &Space::discrete(5));
    let mut call = |inputs: &[f32], exploration| {
        let masks = Masks::new::<()>(&[]);
        let input = Forward { inputs, masks, keys: &[], episodes: &[], steps: &[], exploration };
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

fn part(rows: &Rows, plan: &Plan, from: usize, to: usize) -> Rows {
    let (params, words) = (plan.head.params(), plan.head.action_words());
    Rows {
        inputs: rows.inputs[from * plan.inputs..to * plan.inputs].to_vec(),
        keys: rows.keys[from..to].to_vec(),
        episodes: rows.episodes[from..to].to_vec(),
        steps: rows.steps[from..to].to_vec(),
        masks: rows.masks[from..to].to_vec(),
        params: rows.params[from * params..to * params].to_vec(),
        actions: rows.actions[from * words..to * words].to_vec(),
        log_probs: rows.log_probs[from..to].to_vec(),
        values: rows.values[from..to].to_vec(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// The hard rule: a row's outputs have the same bits whatever rows share its tile, block and call.
    #[test]
    fn a_rows_bits_do_not_depend_on_its_neighbours(
        inputs in prop::collection::vec(-3.0_f32..3.0, 5 * 130),
        widths in prop::collection::vec(1_usize..40, 0..3),
        count in 1_usize..130,
        cut in 0.0_f64..1.0,
        continuous in any::<bool>(),
        masked in any::<bool>(),
        relu in any::<bool>(),
    ) {
        let space = if continuous { Space::unbounded(3) } else { Space::discrete(5) };
        let spec = NetworkSpec::mlp(&widths, if relu { Activation::Relu } else { Activation::Tanh });
        let mut network = network(&spec, 5, &space);
        let plan = network.plan().clone();
        let whole = Rows::new(&plan, inputs[..5 * count].to_vec(), 0).run(&mut network, Exploration::Sample, masked);
        let cut = (cut * count as f64) as usize;
        for (from, to) in [(0, cut), (cut, count), (cut, cut + 1)] {
            let alone = part(&whole, &plan, from, to);
            let first = from as u32;
            let again = Rows::new(&plan, alone.inputs.clone(), first).run(&mut network, Exploration::Sample, masked);
            prop_assert_eq!(alone, again);
        }
    }
}

#[test]
#[ignore = "a measurement: run with --release --ignored --nocapture"]
fn speed() {
    let spec =
        NetworkSpec { critic: Some(vec![]), trunk: NetworkSpec::default().actor, actor: vec![], ..Default::default() };
    let mut network = network(&spec, 4, &Space::discrete(2));
    let mut rows = Rows::new(network.plan(), (0..4 * 1_024).map(|i| (i as f32).sin()).collect(), 0);
    let start = std::time::Instant::now();
    for _ in 0..2_000 {
        rows = rows.run(&mut network, Exploration::Sample, false);
    }
    println!("{:.2} M rows/s", 2_000.0 * 1_024.0 / start.elapsed().as_secs_f64() / 1e6);
}
