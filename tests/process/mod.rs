//! What this process holds, for tests that are alone in theirs.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// Threads and open files.
pub fn held() -> (usize, usize) {
    let count = |folder: &str| fs::read_dir(folder).expect("Linux has it").count();
    (count("/proc/self/task"), count("/proc/self/fd"))
}

/// Waits until no more threads and files are held than before. A thread that has ended is listed for a moment more, in
/// `before` too, which may so be more than it was.
pub fn holds_no_more_than(before: (usize, usize)) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let now = held();
        if now.0 <= before.0 && now.1 <= before.1 {
            return;
        }
        assert!(Instant::now() < deadline, "threads and files: {now:?}, before: {before:?}");
        thread::sleep(Duration::from_millis(10));
    }
}
