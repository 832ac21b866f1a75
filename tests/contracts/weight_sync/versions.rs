//! The number of a set of weights.

use std::{collections::BTreeSet, time::Duration};

use super::{KINDS, of_kind};
use crate::support::{stamped_network, stamped_weights};
use gleaner::{config::Delivery, prelude::*};

const SOON: Duration = Duration::from_secs(60);

#[test]
fn e4_the_same_weights_again_are_another_version() {
    for kind in KINDS {
        let mut collector = of_kind(kind, 4).policy(stamped_network()).build().unwrap();
        let weights = collector.weights().unwrap();
        assert_eq!(weights.publish(stamped_weights(5)).unwrap(), 1);
        assert_eq!(weights.increment_version().unwrap(), 2);
        assert_eq!(weights.publish(stamped_weights(5)).unwrap(), 3);
        for _ in 0..8 {
            // One that waited was begun before.
            let batch = collector.next().unwrap().unwrap();
            let acted: BTreeSet<_> = batch.versions().iter().copied().collect();
            assert!(acted.iter().all(|version| *version == 3), "{kind:?}: {acted:?}");
            assert!(batch.actions().iter().all(|action| *action == 5.0), "{kind:?}");
        }
        // Of two on their own one may have made all eight.
        weights.wait_adopted(3, SOON).unwrap();
    }
}

#[test]
fn wu11_a_publisher_has_versions_of_its_own() {
    for kind in KINDS {
        let mut collector = of_kind(kind, 4).policy(stamped_network()).build().unwrap();
        let weights = collector.weights().unwrap();
        weights.publish_as(40, stamped_weights(40)).unwrap();
        let batch = collector.next().unwrap().unwrap();
        assert!(batch.versions().iter().all(|version| *version == 40), "{kind:?}");
        // It began anew.
        for stale in [0, 1, 40] {
            let error = weights.publish_as(stale, stamped_weights(1)).unwrap_err().to_string();
            assert!(error.contains(&format!("version {stale} comes after version 40")), "{error}");
        }
        assert!(weights.publish_as(1 << 63, stamped_weights(1)).unwrap_err().to_string().contains("below 2^63"));
        assert_eq!((weights.version(), &*weights.latest().1), (40, &stamped_weights(40)));
        assert_eq!(weights.publish(stamped_weights(41)).unwrap(), 41);
        weights.publish_as((1 << 63) - 1, stamped_weights(42)).unwrap();
        assert!(weights.publish(stamped_weights(43)).is_err() && weights.increment_version().is_err());
        assert_eq!(*weights.latest().1, stamped_weights(42));
    }
}

#[test]
fn e2_a_renamed_tensor_is_refused_by_name_under_any_version() {
    let collector = of_kind(KINDS[0], 4).policy(stamped_network()).build().unwrap();
    let weights = collector.weights().unwrap();
    let mut renamed = stamped_weights(1);
    let bias = renamed.0.remove("action.bias").unwrap();
    renamed.0.insert("actor.bias".into(), bias);
    let error = weights.publish_as(7, renamed).unwrap_err().to_string();
    assert!(error.contains("action.bias") && error.contains("missing") && error.contains("actor.bias"), "{error}");
    assert_eq!(weights.version(), 0);
}

#[test]
fn e1_every_worker_acts_by_what_was_published() {
    let builder = of_kind((4, Delivery::Sync), 8).policy(stamped_network());
    let mut collector = builder.build().unwrap();
    let weights = collector.weights().unwrap();
    for version in 1..5 {
        weights.publish(stamped_weights(version)).unwrap();
        let batch = collector.next().unwrap().unwrap();
        assert!(batch.actions().iter().all(|action| *action == version as f32));
        weights.wait_adopted_by(version, &[0, 1, 2, 3], Duration::ZERO).unwrap();
    }
}

#[test]
fn wu02_adoption_by_some_workers_is_waited_for() {
    let mut collector = of_kind((4, Delivery::Sync), 8).policy(stamped_network()).build().unwrap();
    let weights = collector.weights().unwrap();
    let error = weights.wait_adopted_by(0, &[1, 4], SOON).unwrap_err().to_string();
    assert_eq!(error, "workers is 4; legal: 0 to 3");
    weights.wait_adopted_by(0, &[3], Duration::ZERO).unwrap();
    weights.publish(stamped_weights(1)).unwrap();
    let late = weights.wait_adopted_by(1, &[2], Duration::from_millis(5)).unwrap_err();
    assert!(matches!(late, Error::Timeout { .. }), "{late}");
    // Nobody has it: of no workers there is none to wait for.
    weights.wait_adopted_by(1, &[], Duration::ZERO).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| weights.wait_adopted_by(1, &[2, 0], SOON));
        collector.next().unwrap().unwrap();
        waiter.join().unwrap().unwrap();
    });
    let inline = of_kind(KINDS[0], 2).policy(stamped_network()).build().unwrap();
    let error = inline.weights().unwrap().wait_adopted_by(0, &[1], SOON).unwrap_err().to_string();
    assert_eq!(error, "workers is 1; legal: 0 to 0");
}
