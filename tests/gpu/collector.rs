//! A whole collector on the GPU gives what one on the CPU gives: the same discrete actions and so the same episodes,
//! log-probabilities and values within 1e-4, for 1,000 ticks with weights published on the way.

use std::sync::Arc;

use gleaner::{
    gpu::{Gpu, GpuConfig},
    policy::{InferenceServer, Layer, ServerConfig, plan::Activation},
    prelude::*,
};

use crate::support::car::{cars, check_bits, check_sums};

/// Names and bodies.
pub const TESTS: &[(&str, fn())] = &[
    ("collector::a_thousand_ticks_equal_the_cpu", a_thousand_ticks_equal_the_cpu),
    ("collector::masked_actions_equal_the_cpu", masked_actions_equal_the_cpu),
    ("collector::continuous_actions_follow_the_cpu", continuous_actions_follow_the_cpu),
    ("collector::whole_trajectories_equal_the_cpu", whole_trajectories_equal_the_cpu),
    ("collector::recurrent_policies_remember_as_on_the_cpu", recurrent_policies_remember_as_on_the_cpu),
    ("collector::e12_episodes_keep_their_weights_on_the_device", e12_episodes_keep_their_weights_on_the_device),
    ("collector::i7_a_saved_run_goes_on_on_the_device", i7_a_saved_run_goes_on_on_the_device),
    ("collector::lanes_give_the_same_data", lanes_give_the_same_data),
    ("collector::each_range_acts_as_if_alone", || crate::support::alone::each_range_acts_as_if_alone(Backend::Gpu, 1)),
    ("collector::an_actor_of_sac_acts_unchanged", || {
        crate::support::actors::an_actor_of_sac_acts_unchanged(Backend::Gpu);
    }),
    ("collector::an_actor_of_td3_acts_unchanged", || {
        crate::support::actors::an_actor_of_td3_acts_unchanged(Backend::Gpu);
    }),
    ("collector::policies_of_two_backends_share_a_tick", policies_of_two_backends_share_a_tick),
    ("collector::each_field_of_an_action_has_a_head", each_field_of_an_action_has_a_head),
    ("collector::the_backend_is_in_the_stats", the_backend_is_in_the_stats),
    ("collector::each_policy_has_a_device_of_its_own", each_policy_has_a_device_of_its_own),
    ("collector::run_files_choose_how_a_device_is_opened", run_files_choose_how_a_device_is_opened),
    ("collector::is09_several_collectors_share_a_device", is09_several_collectors_share_a_device),
    ("collector::an_adapter_that_is_not_there_is_named", an_adapter_that_is_not_there_is_named),
];

fn policy<T: Task>(backend: Backend) -> Policy<T> {
    Policy::network(NetworkSpec::mlp(&[64, 64], Activation::Tanh)).backend(backend).seed(3)
}

/// Weights whose logits differ enough to matter.
fn sharpen(weights: &Weights, factor: f32) -> Weights {
    let mut sharp = weights.clone();
    if let Some(tensor) = sharp.0.get_mut("action.weight") {
        tensor.data.iter_mut().for_each(|x| *x *= factor);
    }
    sharp
}

fn close(a: &[f32], b: &[f32], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= 1e-4 * b.abs().max(1.0), "{what} {i}: {a} is not {b}");
    }
}

/// Everything but log-probabilities and values has the same bits.
fn assert_equal<T: Task>(gpu: &Batch<T>, cpu: &Batch<T>) {
    assert_eq!(gpu.layout(), cpu.layout());
    for spec in cpu.columns().iter().filter(|spec| !["log_prob", "value"].contains(&&*spec.name)) {
        let column = |batch: &Batch<T>| match spec.stride {
            1 => batch.column::<u8>(&spec.name).map(<[u8]>::to_vec),
            4 => batch.column::<u32>(&spec.name).map(|column| bytemuck::cast_slice(column).to_vec()),
            8 => batch.column::<u64>(&spec.name).map(|column| bytemuck::cast_slice(column).to_vec()),
            _ => Ok(bytemuck::cast_slice(batch.observations()).to_vec()),
        };
        if spec.stride <= 8 || spec.name == "observation" {
            assert_eq!(column(gpu).expect("column"), column(cpu).expect("column"), "column {}", spec.name);
        }
    }
    close(gpu.log_probs().expect("log-probs"), cpu.log_probs().expect("log-probs"), "log-prob");
    close(gpu.values().expect("values"), cpu.values().expect("values"), "value");
}

/// Several sets take turns on the device within a tick, beside what rows remember there.
fn e12_episodes_keep_their_weights_on_the_device() {
    for trunk in [vec![], vec![Layer::Gru(24)]] {
        let spec = NetworkSpec { trunk, ..NetworkSpec::mlp(&[16], Activation::Tanh) };
        let build = |backend| {
            let builder = Collector::<CartPole>::builder().rows(33).frames_per_batch(33 * 10).max_frames_per_traj(30);
            let policy = Policy::network(spec.clone()).backend(backend).seed(3);
            builder.one_version_per_trajectory(true).init_random_frames(70).policy(policy).build().expect("builds")
        };
        let (mut gpu, mut cpu) = (build(Backend::Gpu), build(Backend::Cpu));
        let mut mixed = 0;
        for _ in 0..12 {
            let (on_gpu, on_cpu) = (gpu.next().expect("batch").expect("GPU"), cpu.next().expect("batch").expect("CPU"));
            assert_equal(&on_gpu, &on_cpu);
            assert!(on_gpu.trajectories().iter().all(|episode| episode.first_version == episode.last_version));
            mixed += on_gpu.versions().chunks(33).filter(|tick| tick.iter().any(|version| *version != tick[0])).count();
            for collector in [&gpu, &cpu] {
                let weights = collector.weights().expect("a network");
                weights.publish(sharpen(&weights.latest().1, 1.5)).expect("the network's own weights");
            }
        }
        assert!(mixed > 50, "{mixed} ticks had several versions");
    }
}

/// What rows remember is in the device's memory: it is brought to the file, and from there to another network's.
fn i7_a_saved_run_goes_on_on_the_device() {
    let spec = NetworkSpec { trunk: vec![Layer::Gru(6)], ..NetworkSpec::mlp(&[16], Activation::Tanh) };
    let new = || {
        let policy = Policy::network(spec.clone()).backend(Backend::Gpu).seed(3);
        let builder = Collector::<CartPole>::builder().rows(19).frames_per_batch(19 * 7).policy(policy).seed(5);
        builder.max_frames_per_traj(30).build().expect("builds")
    };
    let told = |batch: &Batch<CartPole>| {
        let said = (batch.log_probs(), batch.values(), batch.initial_states(), batch.trajectory_ids());
        format!("{:?} {:?} {said:?}", batch.observations(), batch.actions())
    };
    let take = |collector: &mut Collector<CartPole>, n| -> Vec<_> {
        collector.take(n).map(|batch| told(&batch.expect("no fault"))).collect()
    };
    let straight = take(&mut new(), 5);
    for k in 0..5 {
        let (mut first, mut second, mut file) = (new(), new(), Vec::new());
        assert_eq!(take(&mut first, k), straight[..k]);
        first.save_to(&mut file).expect("memory");
        second.load_from(&mut &file[..]).expect("its own file");
        assert_eq!(take(&mut second, 5 - k), straight[k..], "saved after {k}");
    }
}

/// One lane steps while the other's actions come from the device: nothing differs, not in one bit.
fn lanes_give_the_same_data() {
    let layers = |trunk| NetworkSpec { trunk, ..NetworkSpec::mlp(&[16], Activation::Tanh) };
    for spec in [layers(vec![]), layers(vec![Layer::Gru(6)])] {
        let build = |overlap| {
            let policy = Policy::network(spec.clone()).backend(Backend::Gpu).seed(3);
            let builder = Collector::<CartPole>::builder().rows(67).frames_per_batch(67 * 20).total_frames(8_000);
            let builder = builder.init_random_frames(500).max_frames_per_traj(50).seed(5).policy(policy);
            builder.executor(Executor::MultiThreaded).overlap(overlap).build().expect("builds")
        };
        let (plain, mut lanes) = (build(Overlap::None), build(Overlap::Two));
        for batch in plain {
            let (plain, lanes) = (batch.expect("a batch"), lanes.next().expect("a batch").expect("no fault"));
            assert_equal(&plain, &lanes);
            let bits =
                |column: Option<&[f32]>| column.expect("a network").iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(plain.log_probs()), bits(lanes.log_probs()));
            assert_eq!(bits(plain.values()), bits(lanes.values()));
            assert_eq!(plain.initial_states(), lanes.initial_states());
        }
        assert!(lanes.next().is_none());
    }
}

fn a_thousand_ticks_equal_the_cpu() {
    let build = |backend| {
        let builder = Collector::<CartPole>::builder().rows(65).frames_per_batch(65 * 250).total_frames(65_000);
        builder.init_random_frames(1_000).seed(5).policy(policy(backend)).build().expect("builds")
    };
    let (mut gpu, mut cpu) = (build(Backend::Gpu), build(Backend::Cpu));
    for batch in 0..4 {
        let (on_gpu, on_cpu) = (gpu.next().expect("batch").expect("GPU"), cpu.next().expect("batch").expect("CPU"));
        assert_equal(&on_gpu, &on_cpu);
        assert_eq!(on_gpu.versions()[0], batch, "published weights act from the next frame on");
        close(
            &on_gpu.bootstrap_values().expect("values"),
            &on_cpu.bootstrap_values().expect("values"),
            "bootstrap value",
        );
        for collector in [&gpu, &cpu] {
            let weights = collector.weights().expect("a network");
            weights.publish(sharpen(&weights.latest().1, 10.0)).expect("the network's own weights");
        }
    }
    assert_eq!(gpu.stats().completed_trajectories, cpu.stats().completed_trajectories);
}

fn masked_actions_equal_the_cpu() {
    let build = |backend| {
        let builder = Collector::<GridWorld>::builder().rows(33).frames_per_batch(33 * 100).total_frames(3_300);
        builder.policy(policy(backend)).build().expect("builds")
    };
    let (mut gpu, mut cpu) = (build(Backend::Gpu), build(Backend::Cpu));
    let (on_gpu, on_cpu) = (gpu.next().expect("batch").expect("GPU"), cpu.next().expect("batch").expect("CPU"));
    assert_equal(&on_gpu, &on_cpu);
    let masks = on_gpu.masks().expect("masks");
    assert!(on_gpu.actions().iter().zip(masks).all(|(action, mask)| mask[*action as usize] != 0));
}

/// Continuous trajectories drift apart by rounding, so each frame is compared with the CPU at its own observation.
fn continuous_actions_follow_the_cpu() {
    let builder = Collector::<Pendulum>::builder().rows(64).frames_per_batch(64 * 200).total_frames(12_800);
    let mut collector = builder.record_distribution(true).policy(policy(Backend::Gpu)).build().expect("builds");
    let batch = collector.next().expect("batch").expect("GPU");
    let cpu = policy::<Pendulum>(Backend::Cpu).evaluate(batch.observations()).expect("CPU");
    close(batch.column::<f32>("mean").expect("recorded"), &cpu.params, "mean");
    close(batch.values().expect("values"), &cpu.values, "value");
    let std = batch.column::<f32>("std").expect("recorded");
    let log_probs = batch.actions().iter().zip(&cpu.params).zip(std).map(|((action, mean), std)| {
        let z = (action[0] - mean) / std;
        -0.5 * z * z - std.ln() - 0.918_938_5
    });
    close(batch.log_probs().expect("log-probs"), &log_probs.collect::<Vec<_>>(), "log-prob");
}

fn whole_trajectories_equal_the_cpu() {
    let build = |backend| {
        let builder = Collector::<CartPole>::builder().rows(16).frames_per_batch(16 * 32).total_frames(6_000);
        builder.trajs_per_batch(20).traj_format(TrajFormat::Padded).policy(policy(backend)).build().expect("builds")
    };
    let (gpu, cpu) = (build(Backend::Gpu), build(Backend::Cpu));
    let mut batches = 0;
    for (on_gpu, on_cpu) in gpu.zip(cpu) {
        assert_equal(&on_gpu.expect("GPU"), &on_cpu.expect("CPU"));
        batches += 1;
    }
    assert!(batches > 5, "{batches} batches");
}

fn recurrent_policies_remember_as_on_the_cpu() {
    let spec = NetworkSpec { trunk: vec![Layer::Gru(24)], ..NetworkSpec::mlp(&[], Activation::Tanh) };
    let build = |backend| {
        let builder = Collector::<CartPole>::builder().rows(33).frames_per_batch(33 * 40).max_frames_per_traj(30);
        let policy = Policy::network(spec.clone()).backend(backend).seed(3);
        builder.record_states(true).init_random_frames(70).policy(policy).build().expect("builds")
    };
    let (mut gpu, mut cpu) = (build(Backend::Gpu), build(Backend::Cpu));
    for _ in 0..3 {
        let (on_gpu, on_cpu) = (gpu.next().expect("batch").expect("GPU"), cpu.next().expect("batch").expect("CPU"));
        assert_equal(&on_gpu, &on_cpu);
        close(on_gpu.initial_states(), on_cpu.initial_states(), "initial state");
        let states = |batch: &Batch<CartPole>| batch.array::<f32>("state").expect("recorded").iter().copied().collect();
        let [on_the_gpu, on_the_cpu]: [Vec<f32>; 2] = [states(&on_gpu), states(&on_cpu)];
        close(&on_the_gpu, &on_the_cpu, "state");
        close(&on_gpu.bootstrap_values().expect("GPU"), &on_cpu.bootstrap_values().expect("CPU"), "bootstrap value");
    }
}

fn policies_of_two_backends_share_a_tick() {
    let build = |first, second| {
        let builder = Collector::<CartPole>::builder().rows(70).frames_per_batch(70 * 50);
        builder.policies([(0..40, policy(first)), (40..70, policy(second))]).build().expect("builds")
    };
    let (mut mixed, mut cpu) = (build(Backend::Gpu, Backend::Cpu), build(Backend::Cpu, Backend::Cpu));
    let (on_both, on_cpu) = (mixed.next().expect("batch").expect("both"), cpu.next().expect("batch").expect("CPU"));
    assert_equal(&on_both, &on_cpu);
    let rows = |batch: &Batch<CartPole>| -> Vec<u32> {
        let values = batch.values().expect("values").iter().enumerate();
        values.filter(|(i, _)| i % 70 >= 40).map(|(_, x)| x.to_bits()).collect()
    };
    assert_eq!(rows(&on_both), rows(&on_cpu), "the rows of the policy on the CPU");
    let adapter = Gpu::shared().expect("an adapter").adapter().to_string();
    assert_eq!(mixed.stats().backend, Some(format!("{adapter}, cpu")));
}

fn each_field_of_an_action_has_a_head() {
    check_bits(Backend::Gpu);
    for exploration in [Exploration::Sample, Exploration::Mode] {
        let [mut gpu, mut cpu] = [Backend::Gpu, Backend::Cpu].map(|backend| cars(65, backend, exploration));
        let (on_gpu, on_cpu) = (gpu.next().expect("batch").expect("GPU"), cpu.next().expect("batch").expect("CPU"));
        check_sums(&on_gpu);
        for (a, b) in on_gpu.actions().iter().zip(on_cpu.actions()) {
            assert_eq!((a.gear, a.lights), (b.gear, b.lights));
            close(&a.steer, &b.steer, "steer");
        }
        close(on_gpu.values().expect("values"), on_cpu.values().expect("values"), "value");
    }
}

fn the_backend_is_in_the_stats() {
    let collector = Collector::<CartPole>::builder().policy(policy(Backend::Gpu)).build().expect("builds");
    let adapter = Gpu::shared().expect("an adapter").adapter().to_string();
    assert_eq!(collector.stats().backend, Some(adapter));
}

/// Weights as halves, by a line of a run file.
fn run_files_choose_how_a_device_is_opened() {
    let path = std::env::temp_dir().join(format!("gleaner-half-{}.ron", std::process::id()));
    let text = "(env: \"cart_pole\", collector: (rows: 16, frames_per_batch: 320), policy: Network(
        spec: (actor: [Linear(64), Tanh], critic: [Linear(64), Tanh]), gpu: (half: true),
    ))";
    std::fs::write(&path, text).unwrap();
    let batch = Registry::builtin().open(&path).unwrap().next().unwrap().unwrap().downcast::<CartPole>().unwrap();
    std::fs::remove_file(path).unwrap();
    let run = |half| {
        let device = Gpu::open(&GpuConfig { half, ..GpuConfig::default() }).unwrap();
        let policy = Policy::network(NetworkSpec::mlp(&[64], Activation::Tanh)).device(device);
        let builder = Collector::<CartPole>::builder().rows(16).frames_per_batch(320).policy(policy);
        builder.build().unwrap().next().unwrap().unwrap()
    };
    assert_eq!((batch.actions(), batch.values()), (run(true).actions(), run(true).values()));
    assert_ne!(batch.values(), run(false).values());
}

/// What two collectors give whose batches a server runs is what they give by themselves.
fn is09_several_collectors_share_a_device() {
    let run = |seed, policy: Policy<CartPole>| {
        let builder = Collector::<CartPole>::builder().rows(16).frames_per_batch(160).total_frames(800).seed(seed);
        let collector = builder.policy(policy).build().unwrap();
        let weights = collector.weights().unwrap();
        let mut batches = Vec::new();
        for batch in collector {
            batches.push(batch.unwrap());
            weights.publish(sharpen(&weights.latest().1, 1.5)).unwrap();
        }
        batches
    };
    let server = InferenceServer::new(ServerConfig::default()).unwrap();
    let served = policy(Backend::Gpu).served_by(&server);
    let both = std::thread::scope(|scope| {
        let threads = [1, 2].map(|seed| {
            scope.spawn({
                let policy = served.clone();
                move || run(seed, policy)
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    for (seed, batches) in [1, 2].into_iter().zip(&both) {
        for (served, alone) in batches.iter().zip(&run(seed, policy(Backend::Gpu))) {
            assert_equal(served, alone);
            assert_eq!((served.log_probs(), served.values()), (alone.log_probs(), alone.values()));
        }
    }
    assert_eq!((both[0].len(), server.stats().rows), (5, 1_600));
}

fn each_policy_has_a_device_of_its_own() {
    let name = Gpu::shared().expect("an adapter").adapter().name.to_uppercase();
    let open =
        || Gpu::open(&GpuConfig { adapter: Some(name.clone()), ..Default::default() }).expect("the same adapter");
    let devices = [open(), open()];
    for device in &devices {
        let before = devices.each_ref().map(|device| device.stats().dispatches);
        let policy = policy::<CartPole>(Backend::Cpu).device(device.clone());
        let mut collector =
            Collector::<CartPole>::builder().rows(4).frames_per_batch(40).policy(policy).build().expect("builds");
        collector.next().expect("endless").expect("no fault");
        assert_eq!(collector.stats().backend, Some(device.adapter().to_string()));
        for (other, before) in devices.iter().zip(before) {
            assert_eq!(other.stats().dispatches > before, Arc::ptr_eq(other, device));
        }
    }
}

fn an_adapter_that_is_not_there_is_named() {
    let error = Gpu::open(&GpuConfig { adapter: Some("abacus".into()), ..Default::default() }).expect_err("none");
    let gpu = Gpu::shared().expect("an adapter");
    assert!(error.to_string().contains("abacus") && error.to_string().contains(&gpu.adapter().name), "{error}");
}
