//! Wrong files: each error has the file, the line, the field, the value and what is legal.

use gleaner::{components::WeightTensor, prelude::*};

use super::{Folder, asset, registry};

/// The message for a file of this text, without the path before `:line:column`.
fn refused(text: impl AsRef<[u8]>) -> String {
    let folder = Folder::new();
    let path = folder.write("run.ron", text);
    let error = registry().open(&path).expect_err("a wrong file");
    let message = error.to_string();
    assert!(message.contains(&format!("{}:", path.display())), "{message}");
    message.replace(&format!("{}:", path.display()), "")
}

/// Each text is refused with a message that begins with the first part and has all others, in any case of letters.
fn assert_refused(cases: &[(&str, &[&str])]) {
    let mut failures = Vec::new();
    for (text, parts) in cases {
        let message = refused(text);
        let lower = message.to_lowercase();
        if !message.starts_with(parts[0]) || !parts.iter().all(|part| lower.contains(&part.to_lowercase())) {
            failures.push(format!("{message}\n    lacks one of {parts:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn text_that_does_not_parse() {
    assert_refused(&[
        ("(\n  env: \"cart_pole\",\n  colector: (),\n)", &["3:3: ", "colector", "`collector`", "`policy`"][..]),
        ("(env: \"cart_pole\",\n collector: (\n  rows: 4, rws: 5))", &["3:12: ", "collector.rws", "`rows`"]),
        ("(env: \"cart_pole\",\n collector: (\n  rows: 4,\n  rows: 5))", &["4:3: ", "rows", "duplicate"]),
        ("(\n collector: ())", &["2:15: ", "missing field", "`env`"]),
        ("(env: 3)", &["1:7: env is 3: ", "legal: text in double quotes"]),
        (
            "(env: \"cart_pole\",\n collector: (rows: \"many\"))",
            &["2:20: collector.rows is \"many\": ", "whole number"],
        ),
        ("(env: \"cart_pole\",\n collector: (rows: -4))", &["2:21: collector.rows is -4: ", "from 0"]),
        ("(env: \"cart_pole\",\n collector: (seed: 18446744073709551616))", &["2:", "collector.seed", "from 0"]),
        ("(env: \"cart_pole\",\n collector: (rows: 4.5))", &["2:", "collector.rows is 4.5"]),
        ("(env: \"cart_pole\",\n collector: (set_truncated: 1))", &["2:", "set_truncated is 1", "true or false"]),
        ("(env: \"cart_pole\",\n collector: (traj_format: Cut))", &["2:", "traj_format", "Cut", "`Cat`", "`Padded`"]),
        ("(env: \"cart_pole\",\n policy: Netwrk())", &["2:", "policy", "Netwrk", "`Random`", "`Network`"]),
        ("(env: \"cart_pole\",\n policy: Network(spec: (actor: [Linear(8), Tahn])))", &["2:", "Tahn", "`Tanh`"]),
        ("(env: \"cart_pole\",\n policy: Network(spec: (actr: [])))", &["2:25: ", "policy.spec.actr", "`actor`"]),
        (
            "(env: \"cart_pole\",\n policy: Network(spec: (head: Gaussian(log_std: x))))",
            &["2:", "log_std", "x", "`Free`", "`Network`"],
        ),
        ("(env: \"cart_pole\",\n collector: (rows: 4", &["2:", "collector.rows", "is 4"]),
        ("", &["1:1: "]),
        ("(env: \"cart_pole\") (", &["1:", "trailing", "nothing behind it"]),
        ("(env: \"cart_pole\", /* never", &["1:", "comment"]),
    ]);
}

#[test]
fn values_out_of_range() {
    assert_refused(&[
        ("(\n env: \"cartpole\")", &["2:2: env is \"cartpole\"; legal: cart_pole, grid_world, pendulum"][..]),
        ("(env: \"cart_pole\",\n collector: (\n  rows: 0))", &["3:3: rows is 0; legal: 1 to 16777216"]),
        ("(env: \"cart_pole\",\n collector: (\n  reward: (\n   scale: inf)))", &["4:4: reward.scale is inf"]),
        ("(env: \"cart_pole\",\n collector: (\n  traj_format: Cat))", &["3:3: ", "trajs_per_batch"]),
        ("(env: \"cart_pole\",\n collector: (\n  record_distribution: true))", &["3:3: ", "network"]),
        (
            "(env: \"cart_pole\",\n policy: Network(\n  spec: (\n   actor: [Linear(0)])))",
            &["4:4: ", "actor[0] is Linear(0)"],
        ),
        (
            "(env: \"cart_pole\",\n policy: Network(\n  spec: (\n   head: Gaussian(log_std: Free(0)))))",
            &["4:4: ", "Categorical"],
        ),
        ("(env: \"cart_pole\",\n policy: Network(\n  weights: \"no.safetensors\"))", &["3:3: ", "no.safetensors: "]),
        (
            "(env: \"cart_pole\",\n collector: (\n  exploration: Mean),\n policy: Network())",
            &["3:3: exploration is Mean"],
        ),
    ]);
    // Before anything is opened.
    let rows =
        "(env: \"cart_pole\",\n collector: (\n  rows: 0),\n policies: [(rows: (start: 0, end: 4), policy: Random)])";
    assert_refused(&[(rows, &["3:3: rows is 0; legal: 1 to 16777216"])]);
    let both = refused("(env: \"cart_pole\",\n collector: (\n  rows: 0,\n  threads: 0))");
    assert!(both.contains("3:3: rows is 0") && both.contains("4:3: threads is 0"), "{both}");
}

#[test]
fn weights_that_do_not_fit() {
    let folder = Folder::new();
    Weights::new().save(folder.0.join("w.safetensors")).unwrap();
    folder.write("cut.safetensors", "abc");
    for (name, part) in [("w", "tensor actor.0.weight: missing"), ("cut", "not a safetensors file")] {
        let text = format!("(env: \"cart_pole\",\n policy: Network(\n  weights: \"{name}.safetensors\"))");
        let message = registry().open(folder.write("run.ron", text)).unwrap_err().to_string();
        assert!(message.contains("run.ron:3:3: ") && message.contains(part), "{message}");
    }
}

#[test]
fn names_that_do_not_fit() {
    let folder = Folder::new();
    folder.write("cut.ron", "(names: [");
    folder.write("unused.ron", "(ignore: [\"value_net\"])");
    Weights::new().save(folder.0.join("w.safetensors")).unwrap();
    for (policy, line, part) in [
        ("weights: \"w.safetensors\",\n  names: \"cut.ron\"", 4, "cut.ron:1:"),
        ("weights: \"w.safetensors\",\n  names: \"none.ron\"", 4, "none.ron: "),
        ("weights: \"w.safetensors\",\n  names: \"unused.ron\"", 3, "no tensor is value_net"),
        ("names: \"unused.ron\"", 3, "policy.names and policy.weights"),
    ] {
        let text = format!("(env: \"cart_pole\",\n policy: Network(\n  {policy}))");
        let message = registry().open(folder.write("run.ron", text)).unwrap_err().to_string();
        assert!(message.contains(&format!("run.ron:{line}:3: ")) && message.contains(part), "{message}");
    }
}

#[test]
fn policies_that_do_not_fit() {
    let policies = |rest: &str| format!("(env: \"cart_pole\",\n collector: (rows: 4),\n{rest})");
    for (text, parts) in [
        ("policies: [\n(rows: (start: 0, end: 3), policy: Random)]", &["3:1: ", "rows 3..4"][..]),
        (
            "policies: [(rows: (start: 0, end: 4), policy: Random)],\n policy: Network()",
            &["4:2: ", "policy", "policies"],
        ),
        (
            "policies: [(rows: (start: 0, end: 4), policy: Network(weights: \"no.safetensors\"))]",
            &["3:1: ", "no.safetensors"],
        ),
        // The rows before the file is looked for.
        (
            "policies: [(rows: (start: 0, end: 3), policy: Network(weights: \"no.safetensors\"))]",
            &["3:1: policies is none for rows 3..4"],
        ),
        ("policies: [(rows: (start: 0, end: 4), policy: Netwrk())]", &["3:", "Netwrk", "`Network`"]),
    ] {
        let message = refused(policies(text));
        assert!(message.starts_with(parts[0]) && parts.iter().all(|part| message.contains(part)), "{message}");
    }
    #[cfg(feature = "gpu")]
    {
        let message = refused(policies("policy: Network(\n backend: Cpu,\n gpu: (half: true))"));
        assert!(message.starts_with("5:2: ") && message.contains("policy.backend"), "{message}");
        let message = refused(policies("policy: Network(\n gpu: (halff: true))"));
        assert!(message.starts_with("4:8: ") && message.contains("`half`"), "{message}");
    }
}

#[test]
fn a_file_is_not_read_for_each_of_many_policies() {
    let folder = Folder::new();
    let tensor = WeightTensor { shape: vec![100], data: vec![0.0; 100] };
    Weights([("spare".into(), tensor)].into()).save(folder.0.join("w.safetensors")).unwrap();
    let own = |row: usize| {
        let (end, file) = (row + 1, if row < 10 { "w" } else { "no" });
        format!("(rows: (start: {row}, end: {end}), policy: Network(weights: \"{file}.safetensors\")),")
    };
    let policies: String = (0..20).map(own).collect();
    let text = format!("(env: \"cart_pole\", collector: (rows: 20),\n policies: [{policies}])");
    let path = folder.write("run.ron", text);
    let message = registry().max_memory(3_999).open(path).unwrap_err().to_string();
    let wanted = "run.ron:2:2: policies is weights of 4000 bytes; legal: at most 3999 bytes together";
    assert!(message.ends_with(wanted), "{message}");
}

#[test]
fn absurd_sizes_are_refused_before_anything_is_allocated() {
    let network = "policy: Network(spec: (actor: [Linear(16000), Tanh, Linear(16000), Tanh], critic: None))";
    for (options, parts) in [
        ("rows: 16777216", &["2:14: rows is 16777216, which takes ", "at most 8589934592 bytes"][..]),
        ("rows: 1000, frames_per_batch: 1000000000000", &["2:26: frames_per_batch is 1000000000000, which takes "]),
        ("rows: 2, frames_per_batch: 18446744073709551615", &["2:23: frames_per_batch", "2^31 ticks"]),
        ("rows: 1, threads: 1024", &["3:2: policy is a network of 256", "1024 threads"]),
        ("rows: 16777217", &["2:14: rows is 16777217; legal: 1 to 16777216"]),
    ] {
        assert_refused(&[(&format!("(env: \"pendulum\",\n collector: ({options}),\n {network})"), parts)]);
    }
    let mut registry = registry();
    let message = registry.max_memory(10_000).open(asset("cart_pole.ron")).unwrap_err().to_string();
    assert!(message.contains("at most 10000 bytes"), "{message}");
}

#[test]
fn files_that_are_no_text() {
    assert!(refused(b"(env: \"cart_pole\",\n \xff)").starts_with("2:2: a byte that is no UTF-8"));
    assert!(refused(" ".repeat((1 << 20) + 1)).starts_with("1:1: the file is too large; legal: at most 1048576"));
    for open in ["(", "[", "(a:", "(env: Some(", "/*"] {
        let message = refused(open.repeat((1 << 20) / open.len()));
        assert!(message.starts_with("1:"), "{message}");
        assert!(message.len() < 1_000, "{} bytes of message", message.len());
    }
    let deep = refused(format!("(env: \"cart_pole\", policy: {}", "Some(".repeat(100_000)));
    assert!(deep.starts_with("1:"), "{deep}");
    let folder = Folder::new();
    let missing = registry().open(folder.0.join("none.ron")).unwrap_err();
    assert!(matches!(&missing, Error::Io { path, .. } if path.ends_with("none.ron")), "{missing}");
    assert!(matches!(registry().open(&folder.0), Err(Error::Io { .. })));
}
