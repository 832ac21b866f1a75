//! A collector that nobody asks for batches costs nothing, however long, and goes on as if no time had passed.

#[cfg(target_os = "linux")]
#[path = "support/least.rs"]
mod least;

use gleaner::prelude::*;

fn collector(threads: usize) -> Collector<CartPole> {
    let builder = Collector::<CartPole>::builder().rows(32).frames_per_batch(32 * 16).threads(threads);
    builder.step_rows_per_thread(1).infer_rows_per_thread(1).build().expect("legal options")
}

/// Processor time of the collectors' threads, in clock ticks of 10 ms.
#[cfg(target_os = "linux")]
fn busy() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("a process has threads");
    let stats = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    let busy = stats.filter(|stat| stat.contains("(gleaner-")).map(|stat| {
        // Fields 14 and 15, counted from behind the name: user and system time.
        let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number")
    });
    busy.sum()
}

#[cfg(target_os = "linux")]
#[test]
fn r4_an_idle_collector_uses_no_processor() {
    let mut collector = collector(2);
    for _ in 0..20 {
        collector.next().expect("endless").expect("no fault");
    }
    // Its threads look for work a moment longer.
    std::thread::sleep(std::time::Duration::from_millis(200));
    let used = least::least_of(3, 2, || {
        let before = busy();
        std::thread::sleep(std::time::Duration::from_secs(2));
        busy() - before
    });
    assert!(used <= 2, "{used}0 ms of processor time in 2 s of rest");
    collector.next().expect("endless").expect("no fault");
}

/// Bevy tells changes by 32-bit ticks, which run over after 2³¹; nothing that is collected depends on them.
#[test]
fn r4_change_ticks_may_run_over() {
    let (mut rested, mut steady) = (collector(1), collector(1));
    for _ in 0..3 {
        let (a, b) = (rested.next().expect("endless").expect("batch"), steady.next().expect("endless").expect("batch"));
        assert_eq!(a.observations(), b.observations());
        assert_eq!((a.actions(), a.ends(), a.steps()), (b.actions(), b.ends(), b.steps()));
        assert_eq!(a.trajectories(), b.trajectories());
        drop((a, b));
        let world = rested.world_mut();
        for _ in 0..(1_u32 << 31) + 12_345 {
            world.increment_change_tick();
        }
    }
}
