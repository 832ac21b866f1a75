//! Options and how a program ends.

use std::process::ExitCode;

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
