//! What goes wrong is told once, with what is legal; memory does not grow.

use std::time::{Duration, Instant};

use gleaner::{
    Error,
    gpu::{
        AdapterKind, Gpu, GpuConfig, Kernel,
        adapter::{choose, none_found},
    },
    policy::{
        gpu::GpuNetwork,
        plan::{Activation, Exploration, Head, Network, Plan},
    },
};
use wgpu::BufferUsages as Usage;

use super::reference::{Critic, Rows, forward, mlp, network, no_masks, weights};
use crate::support::least_of;

fn plan() -> Plan {
    mlp(4, &[64, 64], Activation::Tanh, Head::Categorical { n: 2 }, Critic::None)
}

pub fn l10_hardware_comes_before_software() {
    use AdapterKind::{Discrete, Integrated, Software, Unknown, Virtual};
    assert_eq!(choose(&[Software, Integrated, Discrete, Virtual, Unknown], true), [2, 1, 3, 4, 0]);
    assert_eq!(choose(&[Discrete, Software, Discrete], true), [0, 2, 1]);
    assert_eq!(choose(&[Software, Integrated], false), [1]);
    assert_eq!(choose(&[Software], true), [0]);
    assert!(choose(&[Software], false).is_empty() && choose(&[], true).is_empty());
    for (kinds, software) in [(&[][..], true), (&[Software][..], false)] {
        let error = none_found(kinds, software).to_string();
        assert!(error.contains("mesa-vulkan-drivers") && error.contains("Backend::Cpu"), "{error}");
    }
    // Here: hardware is opened if there is any, else software, and a call that excludes software says so.
    let gpu = Gpu::open(&GpuConfig::default()).unwrap();
    assert_eq!(gpu.adapter().kind.is_hardware(), Gpu::hardware_available());
    assert!(!gpu.adapter().name.is_empty() && !gpu.adapter().backend.is_empty());
    let hardware = Gpu::open(&GpuConfig { software: false, ..Default::default() });
    assert_eq!(hardware.is_ok(), Gpu::hardware_available());
}

pub fn l6_a_buffer_over_the_limit_is_refused() {
    let gpu = Gpu::open(&GpuConfig::default()).unwrap();
    // The adapter's own limits were requested, not wgpu's defaults.
    assert_eq!(&gpu.device().limits(), gpu.limits());
    let allowed = gpu.limits().max_storage_buffer_binding_size.min(gpu.limits().max_buffer_size);
    for needed in [300 << 20, allowed + 4, u64::MAX - 64] {
        match gpu.buffer("large", needed, Usage::STORAGE) {
            Ok(_) => assert!(needed <= allowed),
            Err(error) => {
                let (error, allowed) = (error.to_string(), allowed.to_string());
                assert!(error.contains(&needed.to_string()) && error.contains("large"), "{error}");
                assert!(error.contains(&allowed) || error.contains("Memory"), "{error}");
            }
        }
    }
    // A network: 2³³ floats in one weight.
    let huge = mlp(1 << 20, &[1 << 13], Activation::Relu, Head::Categorical { n: 2 }, Critic::None);
    let error = GpuNetwork::new(gpu.clone(), huge).err().unwrap().to_string();
    assert!(error.contains("trunk.0.weight") && error.contains("Backend::Cpu"), "{error}");
    assert!(gpu.check().is_ok(), "a refusal is no fault of the device");
}

pub fn a_wrong_call_is_refused() {
    let plan = plan();
    let mut unloaded = GpuNetwork::new(Gpu::shared().unwrap(), plan.clone()).unwrap();
    let rows = Rows::new(&plan, 3, 1);
    let error = forward(&mut unloaded, &plan, &rows, no_masks(), Exploration::Sample).unwrap_err();
    assert!(error.to_string().contains("load"), "{error}");
    let mut network = network(&plan, &weights(&plan, 1));
    for exploration in [Exploration::Mean, Exploration::Random] {
        let error = forward(&mut network, &plan, &rows, no_masks(), exploration).unwrap_err();
        assert!(matches!(error, Error::Config { field: "exploration", .. }), "{error}");
    }
    let mut short = Rows::new(&plan, 3, 1);
    short.inputs.pop();
    let error = forward(&mut network, &plan, &short, no_masks(), Exploration::Sample).unwrap_err();
    assert!(error.to_string().contains("inputs has 11 elements"), "{error}");
    let mut wrong = plan.clone();
    wrong.layers[1].inputs = 65;
    assert!(matches!(GpuNetwork::new(Gpu::shared().unwrap(), wrong), Err(Error::Network { .. })));
    assert!(forward(&mut network, &plan, &rows, no_masks(), Exploration::Sample).is_ok());
}

pub fn a_wrong_shader_is_refused() {
    let gpu = Gpu::open(&GpuConfig::default()).unwrap();
    for text in ["fn main(", "#import shared/nothing", "fn main() {}"] {
        assert!(matches!(Kernel::from_text(&gpu, "wrong", text, &[]), Err(Error::Gpu(_))), "{text}");
    }
    assert!(matches!(Kernel::new(&gpu, "linear", &[("nothing", 1.0)]), Err(Error::Gpu(_))));
    assert!(Kernel::new(&gpu, "linear", &[]).unwrap().bind(&gpu, &[]).is_err());
    assert!(gpu.check().is_ok());
}

pub fn l3_a_lost_device_is_reported_once() {
    let plan = plan();
    let weights = weights(&plan, 1);
    let gpu = Gpu::open(&GpuConfig::default()).unwrap();
    let mut network = GpuNetwork::new(gpu.clone(), plan.clone()).unwrap();
    network.load(&weights).unwrap();
    let rows = Rows::new(&plan, 64, 1);
    let before = forward(&mut network, &plan, &rows, no_masks(), Exploration::Sample).unwrap();
    gpu.destroy();
    let error = forward(&mut network, &plan, &rows, no_masks(), Exploration::Sample).unwrap_err();
    let Error::DeviceLost { dispatch, reason } = &error else { panic!("{error}") };
    // The fused layers and the head ran before.
    assert_eq!(*dispatch, 2, "{error}");
    assert!(reason.contains("Destroyed"), "{error}");
    let start = Instant::now();
    for _ in 0..10_000 {
        let again = forward(&mut network, &plan, &rows, no_masks(), Exploration::Sample).unwrap_err();
        assert_eq!(again.to_string(), error.to_string());
    }
    // Well below the deadline of one wait, 30 s.
    assert!(start.elapsed() < Duration::from_secs(20), "later calls fail at once");
    assert_eq!(network.load(&weights).unwrap_err().to_string(), error.to_string());
    assert_eq!(gpu.buffer("late", 4, Usage::STORAGE).unwrap_err().to_string(), error.to_string());
    assert_eq!(gpu.stats().dispatches, 2, "counters are still there");
    drop(network);
    let mut anew = GpuNetwork::new(Gpu::open(&GpuConfig::default()).unwrap(), plan.clone()).unwrap();
    anew.load(&weights).unwrap();
    assert_eq!(forward(&mut anew, &plan, &rows, no_masks(), Exploration::Sample).unwrap(), before);
}

pub fn a_device_lost_in_the_middle_of_a_forward() {
    let plan = plan();
    let weights = weights(&plan, 1);
    let rows = Rows::new(&plan, 2000, 1);
    for delay in 0..20 {
        let gpu = Gpu::open(&GpuConfig::default()).unwrap();
        let mut network = GpuNetwork::new(gpu.clone(), plan.clone()).unwrap();
        network.load(&weights).unwrap();
        let destroyer = std::thread::spawn({
            let gpu = gpu.clone();
            move || {
                std::thread::sleep(Duration::from_millis(delay));
                gpu.destroy();
            }
        });
        let start = Instant::now();
        let lost = loop {
            match forward(&mut network, &plan, &rows, no_masks(), Exploration::Sample) {
                Ok(_) => assert!(start.elapsed() < Duration::from_secs(30), "never lost"),
                Err(error) => break error,
            }
        };
        destroyer.join().unwrap();
        assert!(matches!(lost, Error::DeviceLost { .. }), "{lost}");
        let again = forward(&mut network, &plan, &rows, no_masks(), Exploration::Sample).unwrap_err();
        assert_eq!(again.to_string(), lost.to_string());
    }
}

pub fn l1_a_wait_has_a_deadline() {
    let plan = plan();
    let deadline = Duration::from_millis(20);
    let gpu = Gpu::open(&GpuConfig { deadline, ..Default::default() }).unwrap();
    let mut network = GpuNetwork::new(gpu.clone(), plan.clone()).unwrap();
    network.load(&weights(&plan, 1)).unwrap();
    let many = Rows::new(&plan, 100_000, 1);
    let start = Instant::now();
    let slow = forward(&mut network, &plan, &many, no_masks(), Exploration::Sample);
    match slow {
        Err(Error::Timeout { deadline: named, .. }) => assert_eq!(named, deadline),
        Err(error) => panic!("{error}"),
        Ok(_) => assert!(gpu.adapter().kind.is_hardware(), "a software adapter is not that fast"),
    }
    // The work goes on; once it is done the network acts again.
    let few = Rows::new(&plan, 2, 1);
    while let Err(error) = forward(&mut network, &plan, &few, no_masks(), Exploration::Sample) {
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        assert!(start.elapsed() < Duration::from_secs(60), "never done");
    }
    assert!(gpu.check().is_ok());
}

/// Pages of memory that the process holds.
fn resident() -> Option<i64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    statm.split(' ').nth(1)?.parse().ok()
}

pub fn k6_memory_is_flat() {
    let plan = plan();
    let gpu = Gpu::open(&GpuConfig::default()).unwrap();
    let mut network = GpuNetwork::new(gpu.clone(), plan.clone()).unwrap();
    let sets = [weights(&plan, 1), weights(&plan, 2)];
    let all = [Rows::new(&plan, 16, 1), Rows::new(&plan, 9, 1)];
    let mut run = |forwards: usize| {
        for i in 0..forwards {
            if i % 100 == 0 {
                network.load(&sets[i / 100 % 2]).unwrap();
            }
            forward(&mut network, &plan, &all[i % 2], no_masks(), Exploration::Sample).unwrap();
        }
        (gpu.stats().buffers_created, resident())
    };
    let (created, mut before) = run(500);
    // 256 pages of 4 KiB: what 10,000 leaks of 105 bytes would take.
    let grown = least_of(3, Some(256), || {
        let (later_created, pages) = run(10_000);
        assert_eq!(later_created, created, "buffers were created");
        println!("{created} buffers; resident pages {before:?}, later {pages:?}; {:?}", gpu.stats());
        Some(pages? - before.replace(pages?)?)
    });
    assert!(grown <= Some(256), "{grown:?} pages");
    assert!(gpu.stats().buffers_alive < 200, "wgpu holds {} buffers", gpu.stats().buffers_alive);
}
