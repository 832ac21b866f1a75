use proptest::prelude::*;

use super::*;

fn map() -> NameMap {
    NameMap::from_ron_str(r#"(join: [("action", ["mu", "log_std"])], no_bias: ["actor"])"#).unwrap()
}

fn weights(tensors: &[(&str, &[usize], f32)]) -> Weights {
    let mut weights = Weights::new();
    for (name, shape, first) in tensors {
        let numbers = (0..shape.iter().product::<usize>()).map(|i| first + i as f32);
        weights.insert(*name, *shape, numbers.collect::<Vec<_>>());
    }
    weights
}

const FILE: [(&str, &[usize], f32); 5] = [
    ("actor.0.weight", &[3, 2], 50.0),
    ("mu.weight", &[2, 3], 0.0),
    ("mu.bias", &[2], 100.0),
    ("log_std.weight", &[2, 3], 6.0),
    ("log_std.bias", &[2], 102.0),
];

#[test]
fn parts_are_joined_and_split_again() {
    let joined = map().join(weights(&FILE)).unwrap();
    let mut expected =
        weights(&[("actor.0.weight", &[3, 2], 50.0), ("action.weight", &[4, 3], 0.0), ("action.bias", &[4], 100.0)]);
    expected.insert("actor.0.bias", [3], [0.0; 3]);
    assert_eq!(joined, expected);
    assert_eq!(map().split(joined).unwrap(), weights(&FILE));
}

#[track_caller]
fn refused<W>(result: Result<W, Error>, named: &[&str]) {
    let message = result.err().expect("wrong").to_string();
    assert!(named.iter().all(|name| message.contains(name)), "{message}");
}

#[test]
fn what_does_not_go_together_is_named() {
    let file = |change: &dyn Fn(&mut Weights)| {
        let mut file = weights(&FILE);
        change(&mut file);
        map().join(file)
    };
    refused(file(&|file| drop(file.0.remove("log_std.bias"))), &["tensor log_std.bias", "missing", "mu.bias"]);
    refused(file(&|file| file.insert("log_std.bias", [1], [0.0])), &["tensor log_std.bias", "[1]", "[2]", "mu.bias"]);
    refused(file(&|file| file.insert("action.bias", [1], [0.0])), &["tensor action.bias", "mu, log_std"]);
    refused(file(&|file| file.insert("actor.0.bias", [3], [0.0; 3])), &["tensor actor.0.bias", "none in actor"]);
    refused(file(&|file| file.insert("actor.0.weight", [usize::MAX, 0], [])), &["tensor actor.0.weight", "elements"]);
    refused(file(&|file| file.0.retain(|name, _| !name.starts_with("mu"))), &["no tensor is mu", "log_std.bias"]);
    refused(file(&|file| drop(file.0.remove("actor.0.weight"))), &["no tensor is actor"]);
    let scalars = weights(&[("mu", &[], 0.0), ("log_std", &[], 0.0), ("actor.0.weight", &[1, 1], 0.0)]);
    refused(map().join(scalars), &["tensor mu", "[]"]);
    let network = |change: &dyn Fn(&mut Weights)| {
        let mut network = map().join(weights(&FILE)).unwrap();
        change(&mut network);
        map().split(network)
    };
    refused(
        network(&|network| network.insert("action.bias", [3], [0.0; 3])),
        &["tensor action.bias", "[3]", "log_std"],
    );
    refused(network(&|network| network.insert("mu.bias", [3], [0.0; 3])), &["tensor mu.bias", "another"]);
    let bias = |network: &mut Weights| network.insert("actor.0.bias", [3], [0.0, 0.5, 0.0]);
    refused(network(&bias), &["tensor actor.0.bias", "element 1 is 0.5", "0"]);
}

#[test]
fn joins_that_make_no_sense_are_refused_with_their_place() {
    for (text, named) in [
        (r#"(join: [("action", ["mu"])])"#, "names:1:2: weights: name map: action is joined of 1 parts"),
        (r#"(join: [("action", ["mu", "mu"])])"#, "mu is joined twice"),
        (r#"(join: [("action", ["mu", "log_std"]), ("value", ["v", "mu"])])"#, "mu is joined twice"),
        (r#"(join: [("action", "mu")])"#, "join"),
    ] {
        let error = NameMap::from_ron_str(text).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}

proptest! {
    /// Names and shapes of few kinds, so that they meet often: an error or the same tensors again, and never a panic.
    #[test]
    fn what_is_joined_comes_back(
        tensors in prop::collection::btree_map("[ab](\\.(bias|weight))?", (0_usize..4, 0_usize..3), 0..6),
        parts in prop::collection::vec("[abc]", 0..4),
        whole in "[abc]",
        no_bias in prop::collection::vec("[abc]", 0..2),
    ) {
        let mut file = Weights::new();
        for (name, (rows, columns)) in tensors {
            file.insert(name, [rows, columns], vec![1.0; rows * columns]);
        }
        let map = NameMap { join: vec![(whole, parts)], no_bias, ..NameMap::default() };
        if map.check_joins().is_ok() && let Ok(joined) = map.join(file.clone()) {
            prop_assert_eq!(map.split(joined).unwrap(), file);
        }
    }
}
