//! Import directions: vocabulary ← services ← organs ← assembly. Left never imports right, and organs never import each
//! other.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

const VOCABULARY: &[&str] =
    &["bytes", "data", "space", "seed", "math", "error", "fault", "task", "schedule", "components"];
const SERVICES: &[&str] = &["gpu", "stats", "ron_file", "profile", "checkpoint", "arrow"];
const ORGANS: &[&str] = &["env", "policy", "rollout", "weights", "replay", "workers"];
const ASSEMBLY: &[&str] = &[
    "batched",
    "build",
    "config",
    "drive",
    "plugin",
    "replay_writer",
    "receipts",
    "policies",
    "memory",
    "hooks",
    "restart",
    "resume",
    "shutdown",
    "collector",
    "fleet",
    "running",
    "builder",
    "produce",
    "episodes",
    "episode_versions",
    "host",
    "erased",
    "feed",
    "run",
    "registry",
    "prelude",
    "lib",
];

/// Place of a module in the order of layers.
fn layer(module: &str) -> Option<usize> {
    [VOCABULARY, SERVICES, ORGANS, ASSEMBLY].iter().position(|layer| layer.contains(&module))
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The module that a file under `src` belongs to: the first part of its path.
fn module(relative: &Path) -> String {
    let first = relative.iter().next().expect("a file").to_string_lossy();
    first.trim_end_matches(".rs").to_string()
}

/// The code of a file: no comments, no unit tests.
fn code(text: &str) -> String {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .fold(String::new(), |all, line| all + line + "\n");
    code.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_string()
}

fn identifier(text: &str) -> String {
    text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// First parts of all paths that begin with `crate::`, also in braces.
fn imports(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        // `$crate::` in a macro is a path of whoever uses it.
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let path = &code[at + "crate::".len()..];
        if !path.starts_with('{') {
            found.insert(identifier(path));
            continue;
        }
        let (mut depth, mut fresh) = (0, false);
        for (i, c) in path.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ if fresh && depth == 1 && !c.is_whitespace() => drop(found.insert(identifier(&path[i..]))),
                _ => {}
            }
            fresh = depth == 1 && (c == '{' || c == ',' || fresh && c.is_whitespace());
            if depth == 0 {
                break;
            }
        }
    }
    found
}

/// What is wrong with `from` importing `to`.
fn violation(from: &str, to: &str) -> Option<&'static str> {
    let (Some(own), Some(other)) = (layer(from), layer(to)) else { return Some("a module without a layer") };
    match own.cmp(&other) {
        std::cmp::Ordering::Less => Some("left imports right"),
        std::cmp::Ordering::Equal if own == 2 && from != to => Some("an organ imports an organ"),
        _ => None,
    }
}

#[test]
fn imports_go_from_right_to_left() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    files(&root, &mut found);
    assert!(found.len() > 50, "{} files", found.len());
    let (mut wrong, mut looked) = (Vec::new(), 0);
    for file in found {
        let relative = file.strip_prefix(&root).expect("under src");
        let from = module(relative);
        // Crate-wide names such as `crate::Error` are re-exported by `lib`.
        for to in imports(&code(&std::fs::read_to_string(&file).expect("text"))) {
            looked += 1;
            let to = if to.starts_with(char::is_uppercase) { "lib" } else { to.as_str() };
            if let Some(problem) = violation(&from, to) {
                wrong.push(format!("{}: {problem}: {from} → {to}", relative.display()));
            }
        }
    }
    assert!(looked > 100, "{looked} imports");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_wrong_import_is_seen() {
    let code = code(
        "//! crate::host\nuse crate::{\n    data::Data,\n    env::{Env, Step}, policy,\n};\nlet x = crate::stats::A;",
    );
    let wanted = ["data", "env", "policy", "stats"].map(String::from);
    assert_eq!(imports(&code), BTreeSet::from(wanted));
    assert!(violation("components", "env").is_some());
    assert!(violation("policy", "rollout").is_some());
    assert!(violation("stats", "config").is_some());
    assert!(violation("unheard_of", "data").is_some());
    assert!(violation("config", "env").is_none() && violation("policy", "policy").is_none());
}

#[test]
fn files_are_short_enough_to_read_whole() {
    let mut found = Vec::new();
    ["src", "tests", "benches", "examples"]
        .iter()
        .for_each(|folder| files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut found));
    for file in found {
        let lines = std::fs::read_to_string(&file).expect("text").lines().count();
        assert!(lines <= 400, "{} has {lines} lines; legal: at most 400", file.display());
    }
}
