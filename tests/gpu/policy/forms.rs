//! The forms that kernels have on different adapters: what is chosen, that all give the same answers, and halves.

use std::sync::Arc;

use gleaner::{
    gpu::{Gpu, GpuConfig, WeightMemory},
    policy::{
        gpu::{Form, GpuNetwork},
        plan::{Activation, Exploration, Head, Memory, Network, Plan, States},
    },
};

use super::{
    layers::{columns, image, recurrent},
    reference::{Critic, Got, Rows, check_row, forward_with, mlp, no_masks, on, weights},
};

fn open(config: GpuConfig) -> Arc<Gpu> {
    Gpu::open(&config).unwrap()
}

/// A device for each form: weights in uniform and in workgroup memory, sums with and without subgroups.
pub fn forms() -> [Arc<Gpu>; 2] {
    let plain = GpuConfig { weights: WeightMemory::Uniform, subgroups: false, ..Default::default() };
    [open(GpuConfig { weights: WeightMemory::Workgroup, ..Default::default() }), open(plain)]
}

fn small() -> Plan {
    mlp(4, &[64, 64], Activation::Tanh, Head::Categorical { n: 2 }, Critic::None)
}

pub fn the_adapter_decides() {
    let gpu = Gpu::shared().unwrap();
    let form = |gpu: &Arc<Gpu>, plan: Plan| GpuNetwork::new(gpu.clone(), plan).unwrap().form();
    // 18.4 KB of weights, and padding.
    let room = gpu.limits().max_compute_workgroup_storage_size >= 20_000;
    let hardware = if room { Form::Workgroup } else { Form::Uniform };
    assert_eq!(form(&gpu, small()), if gpu.adapter().kind.is_hardware() { hardware } else { Form::Uniform });
    let [workgroup, uniform] = forms();
    assert_eq!((form(&workgroup, small()), form(&uniform, small())), (hardware, Form::Uniform));
    // 62 KB: more than software adapters and many others have.
    let large = mlp(60, &[96, 96], Activation::Relu, Head::Categorical { n: 2 }, Critic::None);
    let room = gpu.limits().max_compute_workgroup_storage_size >= 64_000;
    assert_eq!(form(&workgroup, large), if room { Form::Workgroup } else { Form::Uniform });
    let wide = mlp(60, &[256], Activation::Relu, Head::Categorical { n: 2 }, Critic::None);
    assert_eq!(form(&workgroup, wide), Form::Layers);
    let has = gpu.device().features().contains(wgpu::Features::SUBGROUP);
    assert_eq!((gpu.subgroups(), workgroup.subgroups(), uniform.subgroups()), (has, has, false));
}

pub fn every_form_equals_the_reference() {
    for gpu in forms() {
        for plan in [small(), mlp(7, &[33], Activation::Relu, Head::Categorical { n: 5 }, Critic::Separate)] {
            let weights = weights(&plan, 1);
            let mut network = on(&gpu, &plan, &weights);
            for n in [1, 63, 64, 65, 1025, 3] {
                let rows = Rows::new(&plan, n, n as u64);
                let got = run(&mut network, &plan, &rows);
                for i in 0..n {
                    check_row((&plan, &weights), &rows, no_masks(), Exploration::Sample, &got, i);
                }
            }
        }
    }
}

fn run(network: &mut GpuNetwork, plan: &Plan, rows: &Rows) -> Got {
    let n = rows.keys.len();
    let (states, fresh, places) = (States::new(n, plan.state()), vec![1; n], (0..n as u32).collect::<Vec<_>>());
    let memory = Some(Memory { states: &states, places: &places, fresh: &fresh });
    forward_with(network, plan, rows, no_masks(), Exploration::Sample, memory).unwrap()
}

/// What halves change in an output, as the docs of [`GpuConfig::half`] lead to for networks of a few layers.
const BOUND: f32 = 2e-3;

fn halves() -> [Arc<Gpu>; 2] {
    let config = GpuConfig { half: true, ..Default::default() };
    [open(GpuConfig { weights: WeightMemory::Workgroup, ..config.clone() }), open(config)]
}

pub fn halves_are_near_and_exact_where_weights_are_halves() {
    let wide = mlp(7, &[130, 65], Activation::Gelu, Head::Categorical { n: 5 }, Critic::Shared);
    for plan in [small(), wide, columns(), image(), recurrent()] {
        let full = weights(&plan, 1);
        // Ten bits are left of each weight, which a half holds.
        let mut rounded = full.clone();
        for spec in plan.tensors() {
            let data = full.get(&spec.name).unwrap().data.iter();
            let data =
                data.map(|x| f32::from_bits(x.to_bits() & 0xffff_e000)).map(|x| if x.abs() < 1e-3 { 0.0 } else { x });
            rounded.insert(spec.name, spec.shape, data.collect::<Vec<_>>());
        }
        let rows = Rows::new(&plan, 130, 5);
        let floats =
            [&full, &rounded].map(|weights| run(&mut on(&Gpu::shared().unwrap(), &plan, weights), &plan, &rows));
        for gpu in halves() {
            let mut network = on(&gpu, &plan, &full);
            let got = run(&mut network, &plan, &rows);
            let worst = worst(&got, &floats[0]);
            println!("{:?}: {worst:e}", plan.hidden);
            assert!(worst > 0.0 && worst <= BOUND, "{:?}: {worst:e}", plan.hidden);
            network.load(&rounded).unwrap();
            let worst = self::worst(&run(&mut network, &plan, &rows), &floats[1]);
            assert!(worst <= 1e-6, "{:?}: {worst:e}", plan.hidden);
        }
    }
}

/// The largest difference of parameters and values, of numbers above 1 relative to them.
fn worst(got: &Got, want: &Got) -> f32 {
    let pairs = got.params.iter().zip(&want.params).chain(got.values.iter().zip(&want.values));
    pairs.map(|(got, want)| (got - want).abs() / want.abs().max(1.0)).fold(0.0, f32::max)
}

pub fn halves_take_half_the_bytes() {
    for (plan, table) in [(small(), 512), (image(), 0), (recurrent(), 0)] {
        let loaded = |gpu: Arc<Gpu>| {
            let weights = weights(&plan, 1);
            let before = gpu.stats().bytes_up;
            let _network = on(&gpu, &plan, &weights);
            gpu.stats().bytes_up - before - table
        };
        let [_, half] = halves();
        let (full, half) = (loaded(open(GpuConfig::default())), loaded(half));
        println!("{full} bytes, {half} of halves");
        // A tensor of halves ends with a whole quadruple of words.
        assert!(half * 2 >= full && half * 2 <= full + 24 * plan.tensors().len() as u64, "{full}, {half}");
    }
}

pub fn a_weight_too_large_for_a_half_is_named() {
    for plan in [small(), image()] {
        let [_, gpu] = halves();
        let mut network = GpuNetwork::new(gpu, plan.clone()).unwrap();
        let mut wrong = weights(&plan, 1);
        let spec = plan.tensors().swap_remove(2);
        let mut data = wrong.get(&spec.name).unwrap().data.clone();
        data[3] = 65_520.0;
        wrong.insert(spec.name.clone(), spec.shape, data);
        let error = network.load(&wrong).unwrap_err().to_string();
        assert!(error.contains(&spec.name) && error.contains("element 3 is 65520"), "{error}");
        network.load(&weights(&plan, 1)).unwrap();
    }
}
