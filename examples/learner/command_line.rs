//! Options and signals.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use clap::{
    CommandFactory, FromArgMatches, Parser,
    builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser},
};
use gleaner::prelude::*;

use super::Result;

/// What every training example can be told.
#[derive(Clone, Parser)]
#[command(
    after_help = "Training ends when the policy was good in two trials in a row, or when the frames are used up. \
    The learning curve and the policy are left in a folder. Ctrl-C stops training and keeps what there is so far."
)]
pub struct Options {
    /// Where the collector's policy runs
    #[arg(long, default_value = "auto", value_parser = backend())]
    pub backend: Backend,
    /// Seed of environments, initial weights, actions and minibatches
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Environments that are stepped together, instead of as many as the example is made for
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub rows: Option<usize>,
    /// Frames to train for at most, instead of as many as the example is made for
    #[arg(long, value_parser = RangedU64ValueParser::<u64>::new().range(1..))]
    pub frames: Option<u64>,
    /// Train for a few seconds only
    #[arg(long, conflicts_with = "frames")]
    pub quick: bool,
    /// Folder for the learning curve and the policy
    #[arg(long)]
    pub out: PathBuf,
}

impl Options {
    /// A quick run on the CPU with a folder of its own.
    #[cfg(test)]
    pub fn quick(name: &str) -> Self {
        let out = std::env::temp_dir().join(format!("gleaner-{name}-{}", std::process::id()));
        Self { backend: Backend::Cpu, seed: 1, rows: None, frames: None, quick: true, out }
    }
}

/// `main` of a training example that leaves its files in `out`, unless told otherwise.
pub fn main<V>(
    about: &'static str,
    out: &'static str,
    run: impl FnOnce(&Options, &AtomicBool) -> Result<V>,
) -> ExitCode {
    keep_candle_on_one_thread();
    let command = Options::command().about(about).mut_arg("out", |arg| arg.required(false).default_value(out));
    let options = Options::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit());
    match stop_on_ctrl_c().and_then(|stop| run(&options, &stop)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn backend() -> impl TypedValueParser<Value = Backend> {
    PossibleValuesParser::new(["auto", "cpu", "gpu"]).map(|name| match name.as_str() {
        "cpu" => Backend::Cpu,
        "gpu" => Backend::Gpu,
        _ => Backend::Auto,
    })
}

/// candle spreads elementwise operations from 65,536 elements on over threads that spin for each other: on two cores,
/// and worse on busy ones, that costs several times what it saves.
#[expect(unsafe_code, reason = "candle takes the number of its threads from the environment only")]
fn keep_candle_on_one_thread() {
    // SAFETY: `main` starts with this, no other thread runs yet.
    unsafe { std::env::set_var("CANDLE_NUM_THREADS", "1") };
}

/// A flag that the first Ctrl-C raises; the second one ends the program at once.
fn stop_on_ctrl_c() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = stop.clone();
    ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })?;
    Ok(stop)
}
