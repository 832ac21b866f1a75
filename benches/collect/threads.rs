//! Two threads against one.

use std::time::Instant;

use gleaner::{Error, data::Data, prelude::*};

use super::{
    collectors::{network, random, side},
    light::Spin,
    runner::Runner,
};

/// Slower than one thread by more than this is slower.
const NOISE: f64 = 0.95;

/// What two collectors that share nothing do in the time of one alone: what a second core is worth on this machine.
fn machine() -> Result<f64, Error> {
    let sides = || Ok::<_, Error>(side(network(8_192, 8, 1, true)?));
    let time = |make: &mut dyn FnMut() -> u64| {
        let start = Instant::now();
        let frames: u64 = (0..6).map(|_| make()).sum();
        start.elapsed().as_secs_f64() / frames as f64
    };
    let (mut first, mut second) = (sides()?, sides()?);
    let ratio = |_| {
        let alone = time(&mut first);
        let (a, b) = std::thread::scope(|scope| {
            let other = scope.spawn(|| time(&mut second));
            (time(&mut first), other.join().expect("it collects"))
        });
        alone / a + alone / b
    };
    let mut ratios: Vec<f64> = (0..7).map(ratio).collect();
    ratios.sort_by(f64::total_cmp);
    Ok(ratios[3])
}

/// A network at many rows, and any policy at any number of rows.
pub fn scaling(runner: &mut Runner) -> Result<(), Error> {
    println!("  64x64 actor and critic, two collectors that share nothing over one alone: {:.2}", machine()?);
    // Turns of up to 100 ms: a processor that has stood still while the other collector had its turn takes a millisecond
    // to be there again on a virtual machine.
    for (rows, ticks) in [(1, 64), (64, 64), (1_024, 256), (4_096, 64), (16_384, 16), (32_768, 8), (65_536, 8)] {
        let compared = runner.compare(side(random(rows, ticks, 2)?), side(random(rows, ticks, 1)?));
        let name = format!("{rows} rows, random, two threads over one");
        runner.at_least(&name, compared.ratio(), NOISE, &compared.speeds());
        let compared = runner.compare(side(network(rows, ticks, 2, true)?), side(network(rows, ticks, 1, true)?));
        let name = format!("{rows} rows, 64x64 actor and critic, two threads over one");
        let bound = if rows == 16_384 { 1.7 } else { NOISE };
        runner.at_least(&name, compared.ratio(), bound, &compared.speeds());
    }
    Ok(())
}

/// Environments from light to heavy, at few rows: two threads are never much slower.
pub fn light_work(runner: &mut Runner) -> Result<(), Error> {
    // A dependent multiplication and addition of integers take about 4 cycles.
    spread::<60>(runner, "100 ns", 4_096)?;
    spread::<600>(runner, "1 us", 4_096)?;
    spread::<600>(runner, "1 us", 64)?;
    spread::<60_000>(runner, "100 us", 4_096)?;
    spread::<60_000>(runner, "100 us", 4)?;
    Ok(())
}

fn spread<const N: u32>(runner: &mut Runner, cost: &str, least: usize) -> Result<(), Error>
where
    Spin<N>: Env<Options = ()> + Default,
    <Spin<N> as Task>::Observation: Data,
{
    for rows in [8, 256] {
        let ticks = if N > 1_000 { 2 } else { 64 };
        let build = |threads| {
            let builder = Collector::<Spin<N>>::builder().rows(rows).frames_per_batch(rows * ticks);
            builder.threads(threads).step_rows_per_thread(least).build()
        };
        let compared = runner.compare(side(build(2)?), side(build(1)?));
        let name = format!("{rows} rows of {cost}, {least} rows a thread: time over serial");
        runner.at_most(&name, 1.0 / compared.ratio(), 1.1, &compared.speeds());
    }
    Ok(())
}
