//! Collectors and batches without a task in their type.

use gleaner::{
    components::End,
    data::Dtype,
    prelude::*,
    run::{PolicyConfig, RunConfig, RunFile},
};

use super::{Folder, asset, registry};

#[test]
fn an_erased_batch_is_the_typed_one() {
    let file = RunFile::read(asset("cart_pole.ron")).unwrap();
    let mut any = registry().build(&file).unwrap();
    let PolicyConfig::Network { spec, seed, .. } = &file.config.policy else { panic!("a network") };
    let policy = Policy::<CartPole>::network(spec.clone()).seed(*seed);
    let mut typed =
        Collector::<CartPole>::builder().config(file.config.collector.clone()).policy(policy).build().unwrap();
    assert_eq!((any.rows(), any.horizon(), any.frames_per_batch()), (8, 32, 256));
    assert_eq!((any.batches(), any.columns()), (typed.len(), typed.columns()));
    for _ in 0..3 {
        let (batch, want) = (any.next().unwrap().unwrap(), typed.next().unwrap().unwrap());
        let sizes = (batch.index(), batch.layout(), batch.frames());
        assert_eq!(sizes, (want.index(), want.layout(), want.frames()));
        let observations: &[[f32; 4]] = batch.column("observation").unwrap();
        assert_eq!((observations, batch.rewards()), (want.observations(), want.rewards()));
        assert_eq!((batch.ends(), batch.steps()), (want.ends(), want.steps()));
        assert_eq!((batch.flags(), batch.trajectory_ids()), (want.flags(), want.trajectory_ids()));
        assert_eq!((batch.trajectories(), batch.rows()), (want.trajectories(), want.rows()));
        assert_eq!(batch.array::<f32>("observation").unwrap(), want.array::<f32>("observation").unwrap());
        assert_eq!(batch.bootstrap_values().unwrap(), want.bootstrap_values().unwrap());
        assert_eq!(batch.gae(0.9, 0.8).unwrap(), gleaner::rollout::estimate::gae(&want, 0.9, 0.8).unwrap());
        for spec in batch.columns() {
            assert_eq!(batch.column_bytes(&spec.name).unwrap().len(), batch.len() * spec.stride, "{}", spec.name);
        }
        let batch = batch.downcast::<GridWorld>().unwrap_err();
        assert_eq!(batch.downcast::<CartPole>().unwrap().actions(), want.actions());
    }
    assert_eq!(any.stats(), typed.stats());
    assert!(any.as_any_mut().downcast_mut::<Collector<CartPole>>().is_some());
    assert!(any.weights().is_some() && any.monitor().stats() == any.stats());
    any.shutdown();
    assert!(any.next().is_none());
}

#[test]
fn several_policies_act_for_their_rows() {
    let folder = Folder::new();
    let text = "(env: \"cart_pole\", collector: (rows: 5, frames_per_batch: 100, seed: 3), policies: [
        (rows: (start: 3, end: 5), policy: Random),
        (rows: (start: 0, end: 3), policy: Network(spec: (actor: [Linear(8), Tanh]), seed: 2, backend: Cpu)),
    ])";
    let mut any = Registry::builtin().open(folder.write("run.ron", text)).unwrap();
    let spec = NetworkSpec::from_ron_str("(actor: [Linear(8), Tanh])").unwrap();
    let network = Policy::network(spec).seed(2).backend(Backend::Cpu);
    let builder = Collector::<CartPole>::builder().rows(5).frames_per_batch(100).seed(3);
    let mut typed = builder.policies([(3..5, Policy::random()), (0..3, network)]).build().unwrap();
    for _ in 0..3 {
        let (batch, want) = (any.next().unwrap().unwrap(), typed.next().unwrap().unwrap());
        let batch = batch.downcast::<CartPole>().unwrap();
        assert_eq!((batch.actions(), batch.log_probs()), (want.actions(), want.log_probs()));
        assert_eq!(batch.policies().unwrap()[..5], [1, 1, 1, 0, 0]);
    }
}

#[test]
fn columns_are_described_and_wrong_ones_refused() {
    let mut collector = registry().open(asset("grid_world.ron")).unwrap();
    let batch = collector.next().unwrap().unwrap();
    let mask = batch.columns().iter().find(|spec| spec.name == "action_mask").unwrap();
    assert_eq!((mask.fields[0].dtype, mask.fields[0].shape.as_slice(), mask.stride), (Dtype::U8, &[4][..], 4));
    let Layout::Padded { trajectories: 16, length } = batch.layout() else { panic!("{:?}", batch.layout()) };
    assert_eq!(batch.array::<u8>("action_mask").unwrap().shape(), [16, length, 4]);
    assert_eq!(batch.ends().iter().filter(|end| **end != End::RUNNING).count(), 16);
    let message = batch.column_bytes("vlaue").unwrap_err().to_string();
    assert!(message.contains("vlaue") && message.contains("log_prob"), "{message}");
    assert!(batch.column::<u64>("reward").unwrap_err().to_string().contains("4 bytes"));
    assert!(batch.array::<u8>("reward").unwrap_err().to_string().contains("elements of f32"));
}

#[test]
fn a_host_adds_its_own() {
    let folder = Folder::new();
    let path = folder.write("run.ron", "(env: \"own\", collector: (rows: 2, total_frames: 10))");
    let mut registry = Registry::empty();
    registry.add::<CartPole>("own");
    assert_eq!(registry.open(&path).unwrap().count(), 1);
    registry.add_with("own", || Collector::<Pendulum>::with_factory(|_| Ok(Pendulum::default())));
    let batch = registry.open(&path).unwrap().next().unwrap().unwrap();
    assert!(batch.downcast::<Pendulum>().is_ok());
}

#[test]
fn weights_lie_beside_the_file() {
    let folder = Folder::new();
    let mut collector = registry().open(asset("cart_pole.ron")).unwrap();
    let (_, weights) = collector.weights().unwrap().latest();
    weights.save(folder.0.join("w.safetensors")).unwrap();
    let text = "(env: \"cart_pole\", collector: (rows: 8, frames_per_batch: 256, seed: 1), \
                policy: Network(weights: \"w.safetensors\", seed: 99))";
    let mut again = registry().open(folder.write("run.ron", text)).unwrap();
    let (first, second) = (collector.next().unwrap().unwrap(), again.next().unwrap().unwrap());
    assert_eq!(first.column::<f32>("value").unwrap(), second.column::<f32>("value").unwrap());
}

#[test]
fn a_config_is_written_and_read() {
    for name in ["cart_pole.ron", "pendulum.ron", "grid_world.ron"] {
        let config = RunFile::read(asset(name)).unwrap().config;
        assert_eq!(RunConfig::from_ron_str(&ron::to_string(&config).unwrap()).unwrap(), config);
    }
}
