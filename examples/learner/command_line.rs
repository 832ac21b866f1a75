//! Options and signals.

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use clap::builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use gleaner::prelude::*;

use super::Result;

/// Parses `--backend`.
pub fn backend() -> impl TypedValueParser<Value = Backend> {
    PossibleValuesParser::new(["auto", "cpu", "gpu"]).map(|name| match name.as_str() {
        "cpu" => Backend::Cpu,
        "gpu" => Backend::Gpu,
        _ => Backend::Auto,
    })
}

/// Parses a whole number from 1 on.
pub fn positive<N>() -> RangedU64ValueParser<N>
where
    N: TryFrom<u64, Error: std::error::Error + Send + Sync + 'static> + Clone + Send + Sync,
{
    RangedU64ValueParser::new().range(1..)
}

/// A flag that the first Ctrl-C raises; the second one ends the program at once.
pub fn stop_on_ctrl_c() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = stop.clone();
    ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })?;
    Ok(stop)
}

/// Shows the error, if any, as its author wrote it.
pub fn exit_code<V>(result: Result<V>) -> ExitCode {
    match result {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
