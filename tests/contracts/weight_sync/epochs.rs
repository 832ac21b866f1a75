//! WU-06, O-19, E9: several policies change together or not at all.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use super::{KINDS, of_kind};
use crate::support::{Tag, stamped_network, stamped_weights};
use gleaner::{
    config::Delivery,
    policy::{Layer, head::LogStd},
    prelude::*,
};

const ROWS: usize = 6;
const TICKS: usize = 150;

/// A network whose weights take many ticks to pack.
fn large() -> Policy<Tag> {
    let head = gleaner::policy::HeadSpec::Gaussian { log_std: LogStd::Free(0.0) };
    let trunk = vec![Layer::Linear(192), Layer::Tanh, Layer::Linear(192), Layer::Tanh];
    Policy::network(NetworkSpec { trunk, actor: vec![], head, ..NetworkSpec::default() }).backend(Backend::Cpu)
}

/// Even rows of each worker belong to the small network, the others to the large one.
fn collector(kind: (usize, Delivery), ticks: usize) -> Collector<Tag> {
    let half = ROWS / 2;
    // With two workers: each has rows of both.
    let rows = if kind.0 > 0 {
        [0..half - 1, half - 1..half, half..half + 1, half + 1..ROWS]
    } else {
        [0..1, 1..2, 2..4, 4..6]
    };
    let [a, b, c, d] = rows;
    let policies = [(a, stamped_network()), (b, large()), (c, stamped_network()), (d, large())];
    of_kind(kind, ROWS).frames_per_batch(ROWS * ticks).policies(policies).build().unwrap()
}

#[test]
fn o19_wu06_no_tick_mixes_two_epochs() {
    for kind in KINDS {
        let mut collector = collector(kind, TICKS);
        let models = collector.models();
        assert_eq!(models.ids().collect::<Vec<_>>(), [0, 1, 2, 3]);
        let stop = AtomicBool::new(false);
        let sets: Vec<Weights> = (0..4).map(|i| (*models.get(i).unwrap().latest().1).clone()).collect();
        let (mut changes, mut batches) = (0, 0);
        // How often the publisher has its turn is the machine's affair.
        let deadline = Instant::now() + Duration::from_secs(60);
        thread::scope(|scope| {
            scope.spawn(|| {
                for epoch in 1.. {
                    if stop.load(Relaxed) {
                        return;
                    }
                    let set = |i: usize| if i.is_multiple_of(2) { stamped_weights(epoch) } else { sets[i].clone() };
                    models.publish((0..4).map(|i| (i, set(i)))).unwrap();
                }
            });
            while batches < 8 || changes < 8 && Instant::now() < deadline {
                batches += 1;
                let batch = collector.next().unwrap().unwrap();
                // The rows of one worker, tick by tick; a synchronous batch has both workers' in turn.
                let own = if kind.0 > 0 { ROWS / 2 } else { ROWS };
                let worlds: Vec<&[u64]> = batch.versions().chunks(own).collect();
                let mixed = worlds.iter().find(|tick| tick.iter().any(|version| *version != tick[0]));
                if mixed.is_some() {
                    stop.store(true, Relaxed);
                }
                assert_eq!(mixed, None, "{kind:?}");
                let worlds_of_tick = if kind == KINDS[1] { 2 } else { 1 };
                changes += worlds
                    .iter()
                    .zip(&worlds[worlds_of_tick..])
                    .filter(|(before, after)| before[0] != after[0])
                    .count();
                // What acted is what the version says.
                for i in (0..batch.len()).filter(|i| batch.policies().unwrap()[*i].is_multiple_of(2)) {
                    let version = batch.versions()[i];
                    assert_eq!(batch.actions()[i], if version == 0 { 0.0 } else { crate::support::stamp(version) });
                }
            }
            stop.store(true, Relaxed);
        });
        assert!(changes >= 8, "{kind:?}: {changes} changes within rollouts");
    }
}

#[test]
fn e9_an_epoch_with_a_wrong_set_changes_nothing() {
    let mut collector = collector(KINDS[0], 10);
    let models = collector.models();
    let mut broken = stamped_weights(1);
    broken.0.get_mut("action.bias").unwrap().data[0] = f32::NAN;
    let error = models.publish([(0, stamped_weights(1)), (2, broken)]).unwrap_err().to_string();
    assert!(error.contains("action.bias of policy 2"), "{error}");
    let error = models.publish([(0, stamped_weights(1)), (4, stamped_weights(1))]).unwrap_err().to_string();
    assert_eq!(error, "policy is 4; legal: numbers of networks that share weights: 0, 1, 2, 3");
    let error = models.publish([(0, stamped_weights(1)), (0, stamped_weights(1))]).unwrap_err().to_string();
    assert!(error.contains("policy 0 twice"), "{error}");
    assert!(models.publish([]).unwrap_err().to_string().contains("at least one"));
    // One that has no number left.
    models.get(2).unwrap().publish_as((1 << 63) - 1, stamped_weights(0)).unwrap();
    assert!(models.publish([(0, stamped_weights(1)), (2, stamped_weights(1))]).is_err());
    assert_eq!(models.get(0).unwrap().version(), 0);
    let batch = collector.next().unwrap().unwrap();
    let first = batch.policies().unwrap().iter().zip(batch.versions()).filter(|(policy, _)| **policy != 2);
    assert!(first.into_iter().all(|(_, version)| *version == 0));
}

#[test]
fn an_epoch_is_waited_for_and_may_leave_policies_out() {
    for kind in KINDS {
        let mut collector = collector(kind, 10);
        let models = collector.models();
        let epoch = models.publish([(2, stamped_weights(9)), (0, stamped_weights(8))]).unwrap();
        assert_eq!(epoch, [(0, 1), (2, 1)]);
        assert!(matches!(models.wait_adopted(&epoch, Duration::from_millis(5)), Err(Error::Timeout { .. })));
        let batch = collector.next().unwrap().unwrap();
        for (policy, (version, action)) in
            batch.policies().unwrap().iter().zip(batch.versions().iter().zip(batch.actions()))
        {
            assert_eq!(*version, u64::from(policy % 2 == 0), "{kind:?}: policy {policy}");
            assert!(*policy != 0 || *action == 8.0);
            assert!(*policy != 2 || *action == 9.0);
        }
        models.wait_adopted(&epoch, Duration::from_secs(60)).unwrap();
    }
}

#[test]
fn only_networks_are_models() {
    let builder = of_kind(KINDS[0], 4).policies([(0..2, Policy::random()), (2..4, stamped_network())]);
    let models = builder.build().unwrap().models();
    assert_eq!(models.ids().collect::<Vec<_>>(), [1]);
    assert!(models.get(0).unwrap_err().to_string().ends_with("share weights: 1"));
    let models = of_kind(KINDS[0], 4).exploration(Exploration::Sample).build().unwrap().models();
    assert!(models.get(0).unwrap_err().to_string().ends_with("share weights: none"));
}

#[test]
fn ws05_models_are_found_by_name() {
    let named = |name: &str| stamped_network().named(name);
    let build = |second: &str| of_kind(KINDS[1], 4).policies([(0..2, named("learner")), (2..4, named(second))]).build();
    let mut collector = build("rival").unwrap();
    let models = collector.models();
    assert_eq!((models.id("learner").unwrap(), models.id("rival").unwrap()), (0, 1));
    assert_eq!(models.get(1).unwrap().name(), Some("rival"));
    models.publish([(models.id("rival").unwrap(), stamped_weights(4))]).unwrap();
    let batch = collector.next().unwrap().unwrap();
    assert!(batch.actions().chunks(4).all(|tick| tick == [0.0, 0.0, 4.0, 4.0]));
    let error = models.id("critic").unwrap_err().to_string();
    assert_eq!(error, "policy is critic; legal: names of networks that share weights: learner, rival");
    assert_eq!(build("learner").unwrap_err().to_string(), "policies is two named learner; legal: names of their own");
    let error =
        of_kind(KINDS[0], 4).policy(stamped_network()).build().unwrap().models().id("a").unwrap_err().to_string();
    assert!(error.ends_with("none has a name"), "{error}");
}
