//! How fast replay buffers are, against bare copies of the same bytes at the same places.
//!
//! `cargo bench --bench replay` prints the figures of all parts, `cargo bench --bench replay -- prioritized` those of one;
//! `--check` fails if one misses its bound.

#[path = "../collect/runner.rs"]
#[allow(dead_code, reason = "another bench uses the rest")]
mod runner;

mod bare;
mod extend;
mod filled;
mod mapped;
mod pages;
mod prioritized;
mod slices;
mod together;
mod uniform;

use std::process::ExitCode;

use gleaner::Error;

use runner::Runner;

/// A part of the bench, by name.
type Part = (&'static str, fn(&mut Runner) -> Result<(), Error>);

const PARTS: &[Part] = &[
    ("extend", extend::run),
    ("mapped", mapped::run),
    ("prioritized", prioritized::run),
    ("slices", slices::run),
    ("together", together::run),
    ("uniform", uniform::run),
];

fn main() -> Result<ExitCode, Error> {
    let mut runner = Runner::from_args();
    let chosen: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    for (name, run) in PARTS {
        if chosen.is_empty() || chosen.iter().any(|chosen| chosen == name) {
            println!("{name}");
            run(&mut runner)?;
        }
    }
    Ok(if runner.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
