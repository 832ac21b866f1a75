//! Against the loops written by hand, which do the same work.

use std::hint::black_box;

use gleaner::Error;

use super::{
    baseline::{Rollouts, Trajectories},
    collectors::{SEED, random, side, whole},
    runner::Runner,
};

const TICKS: usize = 64;

/// Batches of fixed length, one thread.
pub fn rollouts(runner: &mut Runner) -> Result<(), Error> {
    for rows in [1_024, 16_384] {
        let mut baseline = Rollouts::new(rows, TICKS, SEED);
        let by_hand = || black_box(baseline.roll()).actions.len() as u64;
        let compared = runner.compare(side(random(rows, TICKS, 1)?), by_hand);
        let name = format!("{rows} rows, rollouts, over the hand-written loop");
        runner.at_least(&name, compared.ratio(), 0.85, &compared.speeds());
    }
    Ok(())
}

/// Batches of whole trajectories, one thread.
pub fn trajectories(runner: &mut Runner) -> Result<(), Error> {
    for rows in [1_024, 16_384] {
        // About as many episodes as end in a rollout.
        let batch = rows * 5 / 2;
        let mut baseline = Trajectories::new(rows, TICKS, SEED, batch);
        let by_hand = || {
            let before = baseline.stepped();
            let batch = black_box(baseline.batch());
            baseline.give_back(batch);
            baseline.stepped() - before
        };
        let compared = runner.compare(side(whole(rows, TICKS, batch)?), by_hand);
        let name = format!("{rows} rows, whole trajectories, over the hand-written loop");
        runner.at_least(&name, compared.ratio(), 0.75, &compared.speeds());
    }
    Ok(())
}

/// What a tick costs beside its frame.
pub fn one_row(runner: &mut Runner) -> Result<(), Error> {
    let mut baseline = Rollouts::new(1, 1_024, SEED);
    let by_hand = || black_box(baseline.roll()).actions.len() as u64;
    let compared = runner.compare(side(random(1, 1_024, 1)?), by_hand);
    let engine = (compared.a - compared.b) * 1e6;
    let note = format!("(tick {:.0} ns, the loop's {:.0} ns)", compared.a * 1e9, compared.b * 1e9);
    runner.at_most("one row: microseconds of engine time a tick", engine, 1.0, &note);
    Ok(())
}
