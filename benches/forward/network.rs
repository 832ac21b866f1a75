//! A policy's network acting for rows.

use gleaner::prelude::{Backend, CartPole, Collector, Policy};
use gleaner::{
    Error,
    components::{Episode, EpisodeStep, Masks},
    data::{Dtype, Field},
    policy::{
        CpuNetwork, NetworkSpec,
        plan::{Activation, Exploration, Forward, Network, Outcome, Plan},
    },
    seed::{ActionKey, Seed},
    space::Space,
};

/// An actor of hidden layers for `actions` discrete actions.
pub fn plan(inputs: usize, widths: &[usize], activation: Activation, actions: u32) -> Plan {
    let spec = NetworkSpec { critic: None, ..NetworkSpec::mlp(widths, activation) };
    let field = |dtype, shape| Field { name: "".into(), dtype, shape };
    let observation = (&Space::unbounded(inputs), &[field(Dtype::F32, vec![inputs])][..]);
    spec.plan_for(observation, (&Space::discrete(actions), &[field(Dtype::I32, vec![])])).expect("it fits")
}

/// Rows that a network acts for.
pub struct Acting {
    network: CpuNetwork,
    inputs: Vec<f32>,
    keys: Vec<ActionKey>,
    episodes: Vec<Episode>,
    steps: Vec<EpisodeStep>,
    params: Vec<f32>,
    actions: Vec<u8>,
    floats: [Vec<f32>; 2],
}

impl Acting {
    pub fn new(plan: Plan, rows: usize) -> Result<Self, Error> {
        let weights = NetworkSpec::default().initial_weights(&plan, Seed(1));
        let (inputs, params) = (plan.inputs, plan.head.params());
        let mut network = CpuNetwork::new(plan);
        network.load(&weights)?;
        Ok(Self {
            network,
            inputs: (0..rows * inputs).map(|i| (i % 17) as f32 * 0.1 - 0.8).collect(),
            keys: (0..rows as u32).map(|row| ActionKey([row, 7])).collect(),
            episodes: vec![Episode(0); rows],
            steps: vec![EpisodeStep(0); rows],
            params: vec![0.0; rows * params],
            actions: vec![0; rows * 4],
            floats: [vec![0.0; rows], vec![0.0; rows]],
        })
    }

    /// Acts once for every row.
    pub fn act(&mut self) -> u64 {
        self.steps.iter_mut().for_each(|step| step.0 = step.0.wrapping_add(1));
        let [log_probs, values] = &mut self.floats;
        let input = Forward {
            inputs: &self.inputs,
            masks: Masks::new::<()>(&[]),
            keys: &self.keys,
            episodes: &self.episodes,
            steps: &self.steps,
            exploration: Exploration::Sample,
            frames: 0,
            memory: None,
        };
        let (params, actions) = (&mut self.params[..], &mut self.actions[..]);
        let mut out = Outcome { params, actions, log_probs, entropies: &mut [], values };
        self.network.forward(&input, &mut out).expect("it acts");
        self.keys.len() as u64
    }
}

/// Collects from CartPole by 4-64-64-2, everything recorded; says how many frames came.
pub fn collecting(rows: usize, threads: usize) -> Result<impl FnMut() -> u64, Error> {
    let spec = NetworkSpec { critic: None, ..NetworkSpec::mlp(&[64, 64], Activation::Tanh) };
    let builder = Collector::<CartPole>::builder().policy(Policy::network(spec).backend(Backend::Cpu)).rows(rows);
    let mut collector = builder.frames_per_batch(2 * rows).threads(threads).build()?;
    Ok(move || collector.next().map_or(0, |batch| batch.expect("it collects").frames() as u64))
}
