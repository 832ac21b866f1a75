//! How fast replay buffers are, against bare copies of the same bytes at the same places.
//!
//! `cargo bench --bench replay` prints the figures; `-- --check` fails if one misses its bound; with `--absolute` the bounds
//! on this machine's own speed count as well. A word that is no option chooses parts by name.

#[path = "../collect/runner.rs"]
mod runner;

mod bare;
mod filled;
mod slices;
mod uniform;

use std::process::ExitCode;

use gleaner::Error;

use runner::Runner;

fn main() -> Result<ExitCode, Error> {
    let parts: [(&str, fn(&mut Runner) -> Result<(), Error>); 2] = [("slices", slices::run), ("uniform", uniform::run)];
    let words: Vec<_> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let mut runner = Runner::from_args();
    for (name, part) in parts {
        if words.is_empty() || words.iter().any(|word| word == name) {
            println!("{name}");
            part(&mut runner)?;
        }
    }
    Ok(if runner.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
