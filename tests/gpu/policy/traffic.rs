//! What a tick sends, brings and dispatches: the table in the docs of `policy::gpu` says what is counted here.

use gleaner::{
    data::{Dtype, Field},
    gpu::{Gpu, GpuConfig, GpuStats},
    policy::{
        Layer, NetworkSpec,
        gpu::GpuNetwork,
        plan::{Activation, Exploration, Memory, Network, Plan, States},
    },
    space::Space,
};

use super::reference::{Rows, forward_with, no_masks, weights};

fn plan(spec: &NetworkSpec, dtype: Dtype, shape: &[usize]) -> Plan {
    let observation = Field { name: "".into(), dtype, shape: shape.to_vec() };
    let space = Space::uniform(0.0, 255.0, observation.len());
    let action = Field { name: "".into(), dtype: Dtype::I32, shape: vec![] };
    spec.plan_for((&space, &[observation]), (&Space::discrete(2), &[action])).unwrap()
}

fn plans() -> [(&'static str, Plan); 4] {
    let conv = |filters, kernel, stride| Layer::Conv2d { filters, kernel, stride, padding: 0 };
    let trunk = |layers: &[Layer]| NetworkSpec {
        trunk: layers.to_vec(),
        actor: vec![],
        critic: Some(vec![]),
        ..NetworkSpec::default()
    };
    let image = [
        conv(16, 8, 4),
        Layer::Relu,
        conv(32, 4, 2),
        Layer::Relu,
        conv(32, 3, 1),
        Layer::Relu,
        Layer::Flatten,
        Layer::Linear(64),
        Layer::Relu,
    ];
    [
        ("4-64-64-2, critic alike", plan(&NetworkSpec::mlp(&[64, 64], Activation::Tanh), Dtype::F32, &[4])),
        ("17-256-256-2, critic alike", plan(&NetworkSpec::mlp(&[256, 256], Activation::Relu), Dtype::F32, &[17])),
        ("4, GRU of 64, 2 and value", plan(&trunk(&[Layer::Gru(64)]), Dtype::F32, &[4])),
        ("bytes 4×84×84, 3 convolutions, 64, 2 and value", plan(&trunk(&image), Dtype::U8, &[4, 84, 84])),
    ]
}

/// Bytes that a load of weights sends, and what the second tick with `rows` rows adds to the counters.
fn tick(plan: &Plan, rows: usize, half: bool) -> (u64, [u64; 4]) {
    let gpu = Gpu::open(&GpuConfig { half, ..Default::default() }).unwrap();
    let mut network = GpuNetwork::new(gpu.clone(), plan.clone()).unwrap();
    network.load(&weights(plan, 1)).unwrap();
    let loaded = gpu.stats().bytes_up;
    let (states, fresh) = (States::new(rows, plan.state()), vec![0; rows]);
    let places: Vec<_> = (0..rows as u32).collect();
    let mut count = |number| -> GpuStats {
        let memory = Some(Memory { states: &states, places: &places, fresh: &fresh });
        let rows = Rows::new(plan, rows, number);
        forward_with(&mut network, plan, &rows, no_masks(), Exploration::Sample, memory).unwrap();
        gpu.stats()
    };
    let (before, after) = (count(1), count(2));
    assert_eq!(after.buffers_created, before.buffers_created);
    let tick = [
        after.bytes_up - before.bytes_up,
        after.bytes_down - before.bytes_down,
        after.dispatches - before.dispatches,
        after.submits - before.submits,
    ];
    (loaded, tick)
}

pub fn the_documented_table_is_true() {
    let docs = include_str!("../../../src/policy/gpu/mod.rs");
    for (name, plan) in plans() {
        let rows = 3;
        let (loaded, counted) = tick(&plan, rows, false);
        let (halves, same) = tick(&plan, rows, true);
        assert_eq!(counted, same, "{name}: halves change nothing but the weights");
        let [up, down, dispatches, submits] = counted;
        assert_eq!((up % rows as u64, down % rows as u64), (0, 0), "{name}: something is sent once a tick");
        let [up, down] = [up, down].map(|bytes| bytes / rows as u64);
        let operations = plan.operations();
        let line =
            format!("| {name} | {up} | {down} | {dispatches} | {submits} | {operations} | {loaded} | {halves} |");
        println!("{line}");
        assert!(docs.contains(&line), "the docs of policy::gpu have no line {line}");
    }
}
