//! A machine on which nothing runs for a while makes no worker late.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
    time::Duration,
};

use super::delayed;
use gleaner::{config::Delivery, prelude::Collector};

/// Set in the process that collects.
const COLLECTS: &str = "GLEANER_TEST_COLLECTS";

#[test]
fn a_process_that_stood_still_goes_on_with_all_its_workers() {
    if std::env::var_os(COLLECTS).is_some() {
        return collect();
    }
    let name = "workers::stall::a_process_that_stood_still_goes_on_with_all_its_workers";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]).env(COLLECTS, "yes");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("collecting")));
    let signal = |name: &str| {
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", child.id())]).status();
        assert!(sent.unwrap().success(), "{name}");
    };
    signal("STOP");
    std::thread::sleep(Duration::from_secs(6));
    signal("CONT");
    lines.for_each(drop);
    let mut problem = String::new();
    child.stderr.take().unwrap().read_to_string(&mut problem).unwrap();
    assert!(child.wait().unwrap().success(), "{problem}");
}

/// Batches of half a second, of workers that are late after four.
fn collect() {
    let builder = delayed(|_| Duration::from_millis(20)).rows(2).workers(2).frames_per_batch(50);
    let builder = builder.delivery(Delivery::Async).worker_deadline(Duration::from_secs(4));
    let mut collector: Collector<_> = builder.build().unwrap();
    for i in 0..8 {
        collector.next().unwrap().unwrap();
        if i == 0 {
            println!("collecting");
        }
    }
}
