//! How fast gleaner collects, against loops written by hand, against itself on one thread, and in bytes.
//!
//! - `cargo bench --bench collect` prints the figures; `-- --check` fails if one misses its bound. A word that is no option
//!   chooses sections by name.
//! - `cargo test --benches` runs everything once, briefly: the comparison of bits counts, the figures do not.

#[path = "../baseline/mod.rs"]
mod baseline;
mod collectors;
mod equal;
mod field;
mod light;
mod loops;
mod pooled;
mod runner;
mod threads;
mod workers;

use std::process::ExitCode;

use gleaner::Error;

use runner::Runner;

type Section = fn(&mut Runner) -> Result<(), Error>;

fn main() -> Result<ExitCode, Error> {
    let mut runner = Runner::from_args();
    equal::check()?;
    let sections: [(&str, Section); 11] = [
        ("rollouts", loops::rollouts),
        ("trajectories", loops::trajectories),
        ("one-row", loops::one_row),
        ("threads", threads::scaling),
        ("field", field::table),
        ("light", light::light_environments),
        ("spread", threads::light_work),
        ("workers", workers::delivery),
        ("publishing", workers::publishing),
        ("waiting", pooled::waiting_environments),
        ("memory", light::memory),
    ];
    let chosen: Vec<_> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for (name, section) in sections {
        if chosen.is_empty() || chosen.iter().any(|chosen| chosen == name) {
            println!("{name}");
            section(&mut runner)?;
            println!();
        }
    }
    Ok(if runner.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
