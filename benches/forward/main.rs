//! How fast networks act on the CPU: against the machine's own limit and against a matrix-multiply crate.
//!
//! `cargo bench --bench forward` prints the figures; `-- --check` fails if one misses its bound.

#[path = "../collect/runner.rs"]
mod runner;

mod by_gemm;
mod network;
mod peak;

use std::process::ExitCode;

use gleaner::{Error, policy::plan::Activation};

use network::{Acting, collecting, plan};
use runner::{Runner, millions};

fn main() -> Result<ExitCode, Error> {
    let mut runner = Runner::from_args();
    for rows in [1_024, 16_384] {
        let small = plan(4, &[64, 64], Activation::Tanh, 2);
        against_peak(&mut runner, "4-64-64-2 tanh", small, rows, 0.5)?;
        let large = plan(17, &[256, 256], Activation::Relu, 6);
        against_peak(&mut runner, "17-256-256-6 relu", large, rows, 0.6)?;
    }
    against_itself(&mut runner)?;
    let mut acting = Acting::new(plan(4, &[64, 64], Activation::Tanh, 2), 1_024)?;
    let mut other = by_gemm::Perceptron::new(1_024);
    let compared = runner.compare(|| acting.act(), || other.forward());
    runner.at_least("4-64-64-2 tanh, over gemm and passes of tanh", compared.ratio(), 2.5, &compared.speeds());
    let mut one = Acting::new(plan(4, &[64, 64], Activation::Tanh, 2), 1)?;
    let seconds = runner.measure(|| (0..100).map(|_| one.act()).sum());
    runner.at_most("4-64-64-2 tanh, one row: microseconds", seconds * 1e6, 3.0, "");
    Ok(if runner.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A whole collector, everything recorded.
fn against_itself(runner: &mut Runner) -> Result<(), Error> {
    const ROWS: usize = 16_384;
    let operations = plan(4, &[64, 64], Activation::Tanh, 2).operations();
    let collect = |threads| collecting(ROWS, threads);
    let compared = runner.compare(collect(1)?, || peak::multiply_adds(ROWS, operations));
    let note = format!("({} M frames/s)", millions(compared.a));
    runner.at_least("CartPole by 4-64-64-2, over the peak", compared.ratio(), 0.43, &note);
    let compared = runner.compare(collect(2)?, collect(1)?);
    runner.at_least("CartPole by 4-64-64-2, two threads over one", compared.ratio(), 1.8, &compared.speeds());
    Ok(())
}

/// Actions and log-probabilities of `rows` rows, over the same operations by multiply-adds that nothing waits for.
fn against_peak(
    runner: &mut Runner,
    name: &str,
    plan: gleaner::policy::plan::Plan,
    rows: usize,
    bound: f64,
) -> Result<(), Error> {
    let operations = plan.operations();
    let mut acting = Acting::new(plan, rows)?;
    let compared = runner.compare(|| acting.act(), || peak::multiply_adds(rows, operations));
    let giga = |seconds: f64| operations as f64 / seconds * 1e-9;
    let note =
        format!("({:.1} of {:.1} GFLOP/s, {} M rows/s)", giga(compared.a), giga(compared.b), millions(compared.a));
    runner.at_least(&format!("{name}, {rows} rows, over the peak"), compared.ratio(), bound, &note);
    Ok(())
}
