use gleaner::prelude::*;
use std::time::Instant;
fn main() -> Result<(), gleaner::Error> {
    let args: Vec<usize> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let (rows, horizon, threads, net, traj) = (args[0], args[1], args[2], args[3], args[4]);
    let mut b = Collector::<CartPole>::builder().rows(rows).frames_per_batch(rows * horizon).threads(threads);
    if net > 0 {
        b = b.policy(
            Policy::network(NetworkSpec::mlp(&[64, 64], gleaner::policy::plan::Activation::Tanh)).backend(Backend::Cpu),
        );
    }
    if traj > 0 {
        b = b.trajs_per_batch(traj);
    }
    let mut c = b.build()?;
    let mut best = 0.0f64;
    let mut all = vec![];
    for _ in 0..9 {
        let start = Instant::now();
        let s0 = c.stats().stepped_frames;
        while start.elapsed().as_secs_f64() < 0.4 {
            c.next().unwrap()?;
        }
        let n = c.stats().stepped_frames - s0;
        let r = n as f64 / start.elapsed().as_secs_f64() / 1e6;
        best = best.max(r);
        all.push(r);
    }
    all.sort_by(f64::total_cmp);
    println!(
        "{rows} rows {horizon} ticks {threads} threads net {net} traj {traj}: median {:.2} best {best:.2} M frames/s, {:.1} ns/frame",
        all[4],
        1e3 / all[4]
    );
    println!("{:?}", c.stats());
    Ok(())
}
