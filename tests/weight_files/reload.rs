//! A file that is replaced while its policy acts.

use std::sync::{Arc, Mutex};

use gleaner::{policy::Evaluator, prelude::*};

use crate::{Folder, asset};

/// CartPole's weights with `bias` added to the logit of action 1.
fn pushed(bias: f32) -> Weights {
    let names = NameMap::from_ron_file(asset("names/stable_baselines3.ron")).unwrap();
    let mut weights = WeightsFile::new(asset("sb3_ppo_cart_pole.safetensors")).names(names).load().unwrap();
    weights.0.get_mut("action.bias").unwrap().data[1] += bias;
    weights
}

#[test]
fn frames_after_a_change_carry_its_version_and_an_error_leaves_the_old_weights() {
    let folder = Folder::new("reload");
    pushed(1e6).save(folder.file()).unwrap();
    let mut file = WeightsFile::new(folder.file());
    let policy = Policy::network(NetworkSpec::default()).weights(file.load().unwrap()).backend(Backend::Cpu);
    let mut collector = Collector::<CartPole>::builder().rows(4).frames_per_batch(40).policy(policy).build().unwrap();
    let (handle, errors) = (collector.weights().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let log = errors.clone();
    collector.set_pre_collect(move || {
        if let Err(error) = file.reload(&handle) {
            log.lock().unwrap().push(error.to_string());
        }
        Ok(())
    });
    let mut acts = |version: u64, action: i32| {
        let batch = collector.next().unwrap().unwrap();
        assert!(batch.versions().iter().all(|v| *v == version), "{:?}", batch.versions());
        assert!(batch.actions().iter().all(|a| *a == action), "version {version}");
    };
    acts(0, 1);
    pushed(-1e6).save(folder.file()).unwrap();
    acts(1, 0);
    acts(1, 0);
    // Half of a file, a whole one of another network, none at all.
    let whole = std::fs::read(folder.file()).unwrap();
    std::fs::write(folder.file(), &whole[..whole.len() / 2]).unwrap();
    acts(1, 0);
    acts(1, 0);
    let mut wrong = pushed(1e6);
    wrong.insert("action.bias", [3], vec![0.0; 3]);
    wrong.save(folder.file()).unwrap();
    acts(1, 0);
    std::fs::remove_file(folder.file()).unwrap();
    acts(1, 0);
    pushed(1e6).save(folder.file()).unwrap();
    acts(2, 1);
    let errors = errors.lock().unwrap();
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors.iter().all(|error| error.contains("policy.safetensors")), "{errors:?}");
    assert!(errors[1].contains("action.bias"), "{errors:?}");
}

/// A policy has a copy: what its caller keeps stays as it was, whatever is published afterwards.
#[test]
fn the_callers_weights_are_never_changed() {
    let (mine, policy) = (pushed(0.0), Policy::<CartPole>::network(NetworkSpec::default()));
    let policy = policy.weights(mine.clone()).backend(Backend::Cpu);
    let before: Evaluator<CartPole> = policy.evaluator().unwrap();
    let mut collector = Collector::builder().rows(4).frames_per_batch(40).policy(policy).build().unwrap();
    let handle = collector.weights().unwrap();
    let held = handle.latest().1;
    let observation = [[0.01, 0.02, 0.03, 0.04]];
    let answer = before.evaluate(&observation).unwrap();
    for bias in [1.0, 2.0] {
        let published = pushed(bias);
        handle.publish(published.clone()).unwrap();
        collector.next().unwrap().unwrap();
        assert_eq!(*handle.latest().1, published);
    }
    assert_eq!((&*held, &mine), (&pushed(0.0), &pushed(0.0)));
    assert_eq!(before.evaluate(&observation).unwrap(), answer);
}
