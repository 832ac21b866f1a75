//! Ticks with and without a publisher.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use bevy_ecs::prelude::*;
use gleaner::{
    Error,
    policy::{Backend, NetworkSpec, Policy},
    prelude::{CartPole, Collector},
    schedule::CollectSystems,
};

use super::{Runner, bytes};

/// From one publication to the next.
const PERIOD: Duration = Duration::from_millis(10);

/// When the ticks of a rollout were over.
#[derive(Resource, Default)]
struct Stamps(Vec<Instant>);

fn stamp(mut stamps: ResMut<Stamps>) {
    stamps.0.push(Instant::now());
}

fn collector(spec: &NetworkSpec, rows: usize) -> Result<Collector<CartPole>, Error> {
    let policy = Policy::network(spec.clone()).backend(Backend::Cpu);
    let builder = Collector::<CartPole>::builder().policy(policy).rows(rows).frames_per_batch(64 * rows);
    let setup = |world: &mut World, schedule: &mut Schedule| {
        world.init_resource::<Stamps>();
        schedule.add_systems(stamp.after(CollectSystems::Report).before(CollectSystems::Respond));
    };
    builder.setup(setup).build()
}

/// Appends the seconds of the ticks of one rollout.
fn collect(collector: &mut Collector<CartPole>, times: &mut Vec<f64>) -> Result<(), Error> {
    collector.world_mut().resource_mut::<Stamps>().0.clear();
    collector.next().transpose()?;
    let stamps = &collector.world().resource::<Stamps>().0;
    times.extend(stamps.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()));
    Ok(())
}

/// The time that all but one of `of` ticks are faster than.
fn slowest(mut times: Vec<f64>, of: usize) -> f64 {
    times.sort_by(f64::total_cmp);
    times[(times.len() - 1) * (of - 1) / of]
}

/// p99.9 of the ticks' time while another thread publishes 100 times a second, over that without; the median of the
/// repetitions. Of large weights p99, once, for want of ticks, and no bound: three threads share the machine's memory.
pub fn with_a_publisher(runner: &mut Runner, spec: &NetworkSpec, rows: usize, bound: bool) -> Result<(), Error> {
    let mut collector = collector(spec, rows)?;
    let Some(weights) = collector.weights() else { return Ok(()) };
    let (_, own) = weights.latest();
    let of = if bound { 1_000 } else { 100 };
    let ticks = if runner.repetitions > 1 { 10 * of } else { 1 };
    let repetitions = if bound { runner.repetitions } else { 1 };
    let (publishing, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut repetitions: Vec<(f64, f64)> = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let start = Instant::now();
                if publishing.load(Relaxed) {
                    weights.publish_copy(&own).expect("the network's own weights");
                }
                thread::sleep(PERIOD.saturating_sub(start.elapsed()));
            }
        });
        let mut repetition = || {
            let (mut with, mut without) = (Vec::new(), Vec::new());
            // The sides take turns, so that what else the machine does meets both.
            while without.len() < ticks {
                for (publish, times) in [(true, &mut with), (false, &mut without)] {
                    publishing.store(publish, Relaxed);
                    for _ in 0..16 {
                        collect(&mut collector, times)?;
                    }
                }
            }
            Ok((slowest(with, of), slowest(without, of)))
        };
        let done: Result<Vec<_>, Error> = (0..repetitions).map(|_| repetition()).collect();
        stop.store(true, Relaxed);
        done
    })?;
    repetitions.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    let (with, without) = repetitions[repetitions.len() / 2];
    let versions = collector.stats().policy_version.unwrap_or(0);
    let note = format!("({:.0} against {:.0} us, {versions} versions)", 1e6 * with, 1e6 * without);
    let name = format!(
        "{:.2} MB 100 times a second: p{} of ticks",
        1e-6 * bytes(&own) as f64,
        if bound { 99.9 } else { 99.0 }
    );
    if bound {
        runner.at_most(&name, with / without, 1.1, &note);
    } else {
        println!("  {name}: {:.3} {note}", with / without);
    }
    Ok(())
}
