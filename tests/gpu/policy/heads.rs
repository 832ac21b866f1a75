//! Every head against its CPU twin.

use gleaner::{
    components::{Episode, EpisodeStep, Masks, Weights},
    policy::{
        CpuNetwork,
        plan::{
            Activation, Annealed, Exploration, Forward, Head, LogStd, Memory, Network, Noise, Outcome, Plan, States,
        },
    },
};

use super::reference::{Critic, POISON, Rows, mlp, network, no_masks, weights};

/// Heads whose masks, if any, are of five bytes.
fn heads() -> Vec<Head> {
    let (low, high) = (vec![-1.0, -2.0, 0.5], vec![1.0, 0.5, 4.0]);
    let log_std = LogStd::Network { min: -1.5, max: 0.25 };
    vec![
        Head::Categorical { n: 5 },
        Head::MultiDiscrete { n: vec![2, 3] },
        Head::MultiBinary { n: 3 },
        Head::MultiBinary { n: 9 },
        Head::Gaussian { n: 3, log_std: LogStd::Free(0.0) },
        Head::Gaussian { n: 3, log_std },
        Head::TanhGaussian { low: low.clone(), high: high.clone(), log_std: LogStd::Free(0.0) },
        Head::TanhGaussian { low: low.clone(), high: high.clone(), log_std },
        Head::Deterministic { n: 3, noise: Noise::Gaussian { std: 0.3 }, squash: None },
        process(),
        Head::Deterministic { n: 3, noise: Noise::Gaussian { std: 0.3 }, squash: Some([low, high]) },
        Head::Q { n: 5, epsilon: Annealed { from: 1.0, to: 0.0, frames: 100 } },
    ]
}

fn process() -> Head {
    Head::Deterministic { n: 3, noise: Noise::OrnsteinUhlenbeck { theta: 0.15, sigma: 0.2, dt: 0.5 }, squash: None }
}

fn plan(head: Head) -> Plan {
    mlp(4, &[16], Activation::Tanh, head, Critic::Shared)
}

#[derive(Debug)]
struct Got {
    params: Vec<f32>,
    actions: Vec<u8>,
    log_probs: Vec<f32>,
    entropies: Vec<f32>,
}

/// How a call goes.
#[derive(Clone, Copy)]
struct Call<'a> {
    rows: &'a Rows,
    masks: Masks<'a>,
    exploration: Exploration,
}

fn run(network: &mut dyn Network, plan: &Plan, call: Call<'_>, states: &States) -> Got {
    let n = call.rows.keys.len();
    let poison = f32::from_bits(POISON);
    let mut got = Got {
        params: vec![poison; n * plan.head.params()],
        actions: vec![0xad; n * plan.head.action_bytes()],
        log_probs: vec![poison; n],
        entropies: vec![poison; n],
    };
    let places: Vec<_> = (0..n as u32).collect();
    let fresh: Vec<_> = call.rows.steps.iter().map(|step| u8::from(step.0.is_multiple_of(5))).collect();
    let Rows { inputs, keys, episodes, steps } = call.rows;
    let memory = Some(Memory { states, places: &places, fresh: &fresh });
    let Call { masks, exploration, .. } = call;
    let input = Forward { inputs, masks, keys, episodes, steps, exploration, frames: 30, memory };
    let Got { params, actions, log_probs, entropies } = &mut got;
    let values = &mut vec![poison; n];
    network.forward(&input, &mut Outcome { params, actions, log_probs, entropies, values }).unwrap();
    got
}

/// The same call on both backends.
fn both(plan: &Plan, weights: &Weights, call: Call<'_>) -> [Got; 2] {
    let mut cpu = CpuNetwork::new(plan.clone());
    cpu.load(weights).unwrap();
    let states = || States::new(call.rows.keys.len(), plan.state());
    [run(&mut cpu, plan, call, &states()), run(&mut network(plan, weights), plan, call, &states())]
}

fn near(a: f32, b: f32) -> bool {
    (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-4 * b.abs().max(1.0)
}

/// Whether an action's elements are numbers.
fn continuous(head: &Head) -> bool {
    matches!(head, Head::Gaussian { .. } | Head::TanhGaussian { .. } | Head::Deterministic { .. })
}

fn float(bytes: &[u8]) -> f32 {
    f32::from_ne_bytes(bytes.try_into().unwrap())
}

/// Compares rows; returns how many discrete actions differ, whose other outputs then may.
fn compare(head: &Head, [cpu, gpu]: &[Got; 2]) -> usize {
    let bytes = head.action_bytes();
    assert!(cpu.params.iter().zip(&gpu.params).all(|(a, b)| near(*b, *a)), "{head:?}: parameters");
    let mut differing = 0;
    for row in 0..cpu.log_probs.len() {
        let [a, b] = [cpu, gpu].map(|got| &got.actions[row * bytes..(row + 1) * bytes]);
        if continuous(head) {
            let mut pairs = a.chunks(4).zip(b.chunks(4));
            assert!(pairs.all(|(a, b)| near(float(b), float(a))), "{head:?}, row {row}: {a:?} is not {b:?}");
        } else if a != b {
            differing += 1;
            continue;
        }
        for (got, want) in [(gpu.log_probs[row], cpu.log_probs[row]), (gpu.entropies[row], cpu.entropies[row])] {
            assert!(near(got, want), "{head:?}, row {row}: {got} is not {want}");
        }
    }
    differing
}

pub fn equal_the_cpu() {
    for head in heads() {
        let plan = plan(head.clone());
        let weights = weights(&plan, 3);
        for n in [1, 63, 300] {
            let rows = Rows::new(&plan, n, 7);
            let masks: Vec<[u8; 5]> = (0..n).map(|row| std::array::from_fn(|i| u8::from(i != row % 5))).collect();
            for masks in [no_masks(), Masks::new(&masks)] {
                for exploration in [Exploration::Sample, Exploration::Mode, Exploration::Mean] {
                    if head.check(exploration).is_err() || (masks.width() > 0 && head.mask() == 0) {
                        continue;
                    }
                    let got = both(&plan, &weights, Call { rows: &rows, masks, exploration });
                    // Where a cumulated probability is within rounding of the draw.
                    let differing = compare(&head, &got);
                    assert!(differing <= n / 150, "{head:?}: {differing} of {n} actions differ");
                }
            }
        }
    }
}

pub fn processes_equal_the_cpu() {
    let plan = plan(process());
    let weights = weights(&plan, 3);
    let mut cpu = CpuNetwork::new(plan.clone());
    cpu.load(&weights).unwrap();
    let mut gpu = network(&plan, &weights);
    let [cpu_states, gpu_states] = [0; 2].map(|_| States::new(40, 3));
    for t in 0..12 {
        let mut rows = Rows::new(&plan, 40, 7);
        rows.steps = (0..40).map(|row| EpisodeStep(row % 3 + t)).collect();
        rows.episodes.fill(Episode(1));
        let call = Call { rows: &rows, masks: no_masks(), exploration: Exploration::Sample };
        let got = [run(&mut cpu, &plan, call, &cpu_states), run(&mut gpu, &plan, call, &gpu_states)];
        compare(&plan.head, &got);
        // The noise is the host's: what the device remembers does not overwrite it.
        gpu.pull_states(&gpu_states).unwrap();
        for slot in 0..40 {
            let [mut a, mut b] = [[0.0; 3]; 2];
            cpu_states.read(slot, 0, &mut a);
            gpu_states.read(slot, 0, &mut b);
            assert!(a == b && a != [0.0; 3], "tick {t}, slot {slot}: {a:?} and {b:?}");
        }
    }
}

/// Pearson's statistic over what one state's action comes out as.
pub fn frequencies_are_the_probabilities() {
    const COUNT: usize = 20_000;
    for head in heads().into_iter().filter(|head| !continuous(head) && head.elements() < 5) {
        let plan = plan(head.clone());
        let mut rows = Rows::new(&plan, COUNT, 11);
        rows.inputs = [0.2, -0.1, 0.3, 0.1].repeat(COUNT);
        let call = Call { rows: &rows, masks: no_masks(), exploration: Exploration::Sample };
        let mut gpu = network(&plan, &weights(&plan, 3));
        let got = run(&mut gpu, &plan, call, &States::new(COUNT, 0));
        let mut seen = std::collections::BTreeMap::new();
        for (action, log_prob) in got.actions.chunks(head.action_bytes()).zip(&got.log_probs) {
            seen.entry(action).or_insert((f64::from(*log_prob).exp() * COUNT as f64, 0.0)).1 += 1.0;
        }
        let expected: f64 = seen.values().map(|(expected, _)| expected).sum();
        assert!((expected / COUNT as f64 - 1.0).abs() < 1e-3, "{head:?}: {seen:?}");
        let terms = seen.values().map(|(expected, count): &(f64, f64)| (count - expected).powi(2) / expected);
        let (statistic, freedom) = (terms.sum::<f64>(), seen.len() as f64 - 1.0);
        assert!(freedom >= 4.0 && statistic < freedom + 4.0 * (2.0 * freedom).sqrt(), "{head:?}: {statistic}");
    }
}

pub fn nan_and_forbidding_masks_equal_the_cpu() {
    for head in heads() {
        let plan = plan(head.clone());
        let weights = weights(&plan, 3);
        let mut rows = Rows::new(&plan, 100, 5);
        rows.inputs[4 * 7] = f32::NAN;
        let mut masks = vec![[1_u8, 0, 1, 1, 0]; 100];
        masks[9] = [0; 5];
        let masks = if head.mask() > 0 { Masks::new(&masks) } else { no_masks() };
        for exploration in [Exploration::Sample, Exploration::Mode] {
            let got = both(&plan, &weights, Call { rows: &rows, masks, exploration });
            assert!(compare(&head, &got) <= 1, "{head:?}");
            let [_, gpu] = got;
            let bytes = head.action_bytes();
            if head.mask() > 0 {
                assert!(gpu.actions[9 * bytes..10 * bytes].iter().all(|byte| *byte == 0) && gpu.log_probs[9].is_nan());
            }
            assert!(gpu.params[7 * head.params()].is_nan(), "{head:?}");
            if head.mask() > 0 || bytes < 4 {
                assert!(gpu.log_probs[7].is_nan(), "{head:?}: {}", gpu.log_probs[7]);
            }
        }
    }
}
