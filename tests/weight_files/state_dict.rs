//! A PyTorch module's `state_dict`.

use gleaner::prelude::*;
use safetensors::SafeTensors;

use crate::{Folder, actors, asset};

fn names() -> NameMap {
    NameMap::from_ron_file(asset("names/stable_baselines3.ron")).unwrap()
}

fn builds<E: Env + Default>(spec: NetworkSpec, weights: Weights) -> Result<(), String> {
    let policy = Policy::<E>::network(spec).weights(weights);
    Collector::<E>::builder().policy(policy).build().map(drop).map_err(|error| error.to_string())
}

#[test]
fn saving_writes_the_same_names_and_numbers_back() {
    let folder = Folder::new("back");
    for name in ["sb3_ppo_cart_pole.safetensors", "sb3_ppo_pendulum.safetensors"] {
        let weights = WeightsFile::new(asset(name)).names(names()).load().unwrap();
        WeightsFile::new(folder.file()).names(names()).save(&weights).unwrap();
        let (before, after) = (std::fs::read(asset(name)).unwrap(), std::fs::read(folder.file()).unwrap());
        let (before, after) = (SafeTensors::deserialize(&before).unwrap(), SafeTensors::deserialize(&after).unwrap());
        assert_eq!(before.len(), after.len());
        for (name, tensor) in before.iter() {
            assert_eq!(after.tensor(name).unwrap(), tensor, "{name}");
        }
    }
}

#[test]
fn a_run_file_may_name_both_files() {
    let folder = Folder::new("run");
    let [weights, names] = ["sb3_ppo_cart_pole.safetensors", "names/stable_baselines3.ron"].map(asset);
    let text = format!("(env: \"cart_pole\", policy: Network(weights: {weights:?}, names: {names:?}))");
    std::fs::write(folder.file(), text).unwrap();
    let mut registry = Registry::empty();
    let collector = registry.add::<CartPole>("cart_pole").open(folder.file()).unwrap();
    let trained = WeightsFile::new(weights).names(self::names()).load().unwrap();
    assert_eq!(*collector.weights().unwrap().latest().1, trained);
}

#[test]
fn a_network_without_a_critic_ignores_the_files() {
    let mut map = names();
    map.names.truncate(2);
    map.ignore = ["mlp_extractor.value_net", "value_net"].map(String::from).to_vec();
    let mut file = WeightsFile::new(asset("sb3_ppo_pendulum.safetensors")).names(map);
    let spec = NetworkSpec { critic: None, ..Default::default() };
    builds::<Pendulum>(spec, file.load().unwrap()).unwrap();
}

#[test]
fn what_does_not_fit_is_named() {
    let mut file = WeightsFile::new(asset("sb3_ppo_cart_pole.safetensors"));
    let unmapped = builds::<CartPole>(NetworkSpec::default(), file.load().unwrap()).unwrap_err();
    assert!(
        unmapped.contains("actor.0.weight") && unmapped.contains("mlp_extractor.policy_net.0.weight"),
        "{unmapped}"
    );
    let weights = file.names(names()).load().unwrap();
    let no_critic = NetworkSpec { critic: None, ..Default::default() };
    let unused = builds::<CartPole>(no_critic, weights.clone()).unwrap_err();
    assert!(unused.contains("tensor critic.0.bias"), "{unused}");
    let other_task = builds::<Pendulum>(NetworkSpec::default(), weights).unwrap_err();
    assert!(other_task.contains("actor.0.weight") && other_task.contains("[64, 4]"), "{other_task}");
}

#[test]
fn a_tensor_to_ignore_may_be_of_any_type() {
    let folder = Folder::new("ignored");
    let header = r#"{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},
        "norm.num_batches_tracked":{"dtype":"I64","shape":[],"data_offsets":[4,12]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([0x80, 0x3f, 0x00, 0xc0, 9, 0, 0, 0, 0, 0, 0, 0]);
    std::fs::write(folder.file(), bytes).unwrap();
    let refused = Weights::load(folder.file()).unwrap_err().to_string();
    assert!(refused.contains("norm.num_batches_tracked of ") && refused.contains("I64"), "{refused}");
    let ignoring = NameMap { ignore: vec!["norm".into()], ..NameMap::default() };
    let weights = WeightsFile::new(folder.file()).names(ignoring).load().unwrap();
    assert_eq!(weights.0.len(), 1);
    assert_eq!(weights.get("a").unwrap().data, [1.0, -2.0]);
}

#[test]
fn actors_of_off_policy_algorithms_act_unchanged() {
    actors::an_actor_of_sac_acts_unchanged(Backend::Cpu);
    actors::an_actor_of_td3_acts_unchanged(Backend::Cpu);
}
