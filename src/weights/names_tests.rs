use proptest::{collection::vec, prelude::*};

use super::*;

fn map(names: &[(&str, &str)], ignore: &[&str]) -> NameMap {
    let names = names.iter().map(|(network, file)| (network.to_string(), file.to_string())).collect();
    NameMap { names, ignore: ignore.iter().map(|name| name.to_string()).collect(), ..NameMap::default() }
}

/// Names of the network for these of a file.
fn network(map: &NameMap, file: &[&str]) -> Result<Vec<String>, String> {
    let names: Vec<String> = file.iter().map(|name| name.to_string()).collect();
    let renamed = map.rename(Way::ToNetwork, names.iter()).map_err(|error| error.to_string())?;
    // What is called back has its old name.
    let back = map.rename(Way::ToFile, renamed.keys()).unwrap();
    assert_eq!(back.len(), renamed.len());
    assert!(back.iter().all(|(file, network)| renamed[*network] == file), "{back:?}");
    Ok(renamed.into_keys().collect())
}

#[track_caller]
fn refused(map: &NameMap, file: &[&str], named: &[&str]) {
    let error = network(map, file).unwrap_err();
    assert!(named.iter().all(|name| error.contains(name)), "{error}");
}

#[test]
fn tensors_and_modules_are_renamed_up_to_a_dot() {
    let map = map(&[("actor", "policy_net"), ("action", "action_net"), ("log_std", "deviation")], &[]);
    let file = ["policy_net.0.weight", "action_net.bias", "deviation", "action_network.bias", "value.bias"];
    let expected = ["action.bias", "action_network.bias", "actor.0.weight", "log_std", "value.bias"];
    assert_eq!(network(&map, &file).unwrap(), expected);
}

#[test]
fn the_longest_entry_counts() {
    let map = map(&[("actor", "net"), ("action", "net.4")], &["net.stats"]);
    let file = ["net.0.bias", "net.4.bias", "net.stats.mean"];
    assert_eq!(network(&map, &file).unwrap(), ["action.bias", "actor.0.bias"]);
}

#[test]
fn names_may_be_swapped() {
    let map = map(&[("actor", "critic"), ("critic", "actor")], &[]);
    let names = ["actor.0.bias".to_string(), "critic.2.bias".to_string()];
    let renamed = map.rename(Way::ToNetwork, names.iter()).unwrap();
    assert_eq!(renamed["critic.0.bias"], "actor.0.bias");
    assert_eq!(network(&map, &["actor.0.bias", "critic.2.bias"]).unwrap(), ["actor.2.bias", "critic.0.bias"]);
}

#[test]
fn two_names_never_meet_in_one() {
    let meet = map(&[("actor", "policy")], &[]);
    refused(&meet, &["policy.0.bias", "actor.0.bias"], &["tensor actor.0.bias"]);
    // Nothing meets, but the file's `actor.2.bias` would be saved as `policy.2.bias`.
    refused(&meet, &["policy.0.bias", "actor.2.bias"], &["tensor actor.2.bias"]);
    // `net.0.bias` would be saved as `first.bias`.
    let nested = map(&[("actor", "net"), ("actor.0", "first")], &[]);
    refused(&nested, &["net.0.bias", "first.weight"], &["tensor net.0.bias", "actor.0.bias"]);
    refused(&map(&[("a", "x"), ("a", "y")], &[]), &["x", "y"], &["network name a is there twice"]);
    refused(&map(&[("a", "x"), ("b", "x")], &[]), &["x"], &["file name x is there twice"]);
    refused(&map(&[("a", "x")], &["x"]), &["x"], &["file name x is there twice"]);
}

#[test]
fn entries_that_nothing_has_are_named() {
    refused(&map(&[("actor", "polcy")], &[]), &["policy.0.bias"], &["polcy", "policy.0.bias"]);
    refused(&map(&[], &["value_net"]), &["value_nets.bias"], &["value_net", "value_nets.bias"]);
    refused(&map(&[("actor", "policy.")], &[]), &["policy.0.bias"], &["policy."]);
    refused(&map(&[("", "policy")], &[]), &["policy.0.bias"], &["0 bytes"]);
    let weights = ["critic.0.bias".to_string()];
    let error = map(&[("actor", "policy")], &[]).rename(Way::ToFile, weights.iter()).unwrap_err();
    assert!(error.to_string().contains("no tensor is actor"), "{error}");
}

#[test]
fn what_is_ignored_is_not_written() {
    let map = map(&[], &["value_net"]);
    let weights = ["actor.0.bias".to_string(), "value_net.bias".to_string()];
    let error = map.rename(Way::ToFile, weights.iter()).unwrap_err();
    assert!(error.to_string().contains("tensor value_net.bias"), "{error}");
}

#[test]
fn files_are_refused_with_their_place() {
    for (text, named) in [
        ("(names: [(\"a\", \"x\"), (\"a\", \"y\")])", "names:1:2: weights: name map: the network name a"),
        ("(name: [])", "`name`"),
        ("(names: [(\"a\")])", "names"),
        ("(ignore: \"a\")", "ignore"),
    ] {
        let error = NameMap::from_ron_str(text).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
    let long = format!("(ignore: [\"{}\"])", "a".repeat(MAX_NAME + 1));
    assert!(NameMap::from_ron_str(&long).unwrap_err().to_string().contains("1025 bytes"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Names of few parts, so that maps fit, nest and collide often: `network` checks that all come back.
    #[test]
    fn what_is_renamed_comes_back(
        names in vec(("[ab](\\.[ab]){0,2}", "[ab](\\.[ab]){0,2}"), 0..4),
        ignore in vec("[ab](\\.[ab]){0,2}", 0..2),
        file in prop::collection::btree_set("[ab](\\.[ab]){0,3}", 0..6),
    ) {
        let file: Vec<&str> = file.iter().map(String::as_str).collect();
        let _refused = network(&NameMap { names, ignore, ..NameMap::default() }, &file);
    }
}
