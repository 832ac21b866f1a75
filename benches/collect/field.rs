//! gleaner's own speeds beside those of the field.

use gleaner::Error;

use super::{
    collectors::{network, random, side},
    runner::{Runner, millions},
};

/// M frames/s of the fastest random stepping of the field: PufferLib, which stores nothing.
const FASTEST: f64 = 51.0;

/// The best configuration of each: random stepping, and a policy of 64 x 64 with everything stored.
const FIELD: [(&str, &str, &str); 5] = [
    ("PufferLib (C; nothing stored when random)", "51", "8.0"),
    ("rlox", "7.4", "3.5"),
    ("TorchRL (batched tensors)", "5.9", "2.7"),
    ("EnvPool", "1.3", "1.4"),
    ("Sample Factory", "-", "0.03"),
];

/// CartPole, as the field was measured.
pub fn table(runner: &mut Runner) -> Result<(), Error> {
    let (rows, ticks) = (1_024, 64);
    let random = runner.measure(side(random(rows, ticks, 1)?));
    let measured = |threads, critic| Ok::<_, Error>(runner.measure(side(network(4_096, ticks, threads, critic)?)));
    let (one, two) = (measured(1, false)?, measured(2, false)?);
    let (one_critic, two_critic) = (measured(1, true)?, measured(2, true)?);
    println!("  CartPole, M frames/s; the field's figures are of another machine of two cores");
    println!("  {:<48} {:>8} {:>14}", "", "random", "64x64, stored");
    println!("  {:<48} {:>8} {:>14}", "gleaner, everything stored, one thread", millions(random), millions(one));
    println!("  {:<48} {:>8} {:>14}", "gleaner, two threads", "", millions(two));
    println!("  {:<48} {:>8} {:>14}", "gleaner, with a critic of 64x64, one thread", "", millions(one_critic));
    println!("  {:<48} {:>8} {:>14}", "gleaner, with a critic of 64x64, two threads", "", millions(two_critic));
    for (name, random, policy) in FIELD {
        println!("  {name:<48} {random:>8} {policy:>14}");
    }
    runner.at_least("random stepping on one core, M frames/s", 1e-6 / random, FASTEST, "");
    Ok(())
}
