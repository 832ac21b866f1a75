//! What a training example is told, and its `main`.

use std::{path::PathBuf, process::ExitCode, sync::atomic::AtomicBool};

use clap::{CommandFactory, FromArgMatches, Parser};
use gleaner::{env::RowStepper, prelude::*};

use super::{
    Result,
    command_line::{backend, exit_code, positive},
    ctrl_c,
};

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
    #[arg(long, value_parser = positive::<usize>())]
    pub rows: Option<usize>,
    /// Threads with worlds of their own that step the environments; each batch holds a rollout of all
    #[arg(long, default_value_t = 0)]
    pub workers: usize,
    /// Each batch is one worker's; the others go on while it is learned from
    #[arg(long = "async", requires = "workers")]
    pub is_async: bool,
    /// Frames to train for at most, instead of as many as the example is made for
    #[arg(long, value_parser = positive::<u64>())]
    pub frames: Option<u64>,
    /// Train for a few seconds only
    #[arg(long, conflicts_with = "frames")]
    pub quick: bool,
    /// Folder for the learning curve and the policy
    #[arg(long)]
    pub out: PathBuf,
}

impl Options {
    /// A collector whose rows are stepped as was asked for.
    pub fn collector<E: Env + Default>(&self) -> CollectorBuilder<E, RowStepper<E>> {
        let builder = Collector::<E>::builder().seed(self.seed).workers(self.workers);
        if self.is_async { builder.delivery(Delivery::Async) } else { builder }
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
    exit_code(ctrl_c::flag().map_err(Into::into).and_then(|stop| run(&options, &stop)))
}

/// candle spreads elementwise operations from 65,536 elements on over threads that spin for each other: on two cores,
/// and worse on busy ones, that costs several times what it saves.
#[expect(unsafe_code, reason = "candle takes the number of its threads from the environment only")]
fn keep_candle_on_one_thread() {
    // SAFETY: `main` starts with this, no other thread runs yet.
    unsafe { std::env::set_var("CANDLE_NUM_THREADS", "1") };
}
