//! A line that shows how training goes.

use gleaner::stats::Stats;
use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar of frames on standard error; not shown where that is no terminal.
pub struct Progress(ProgressBar);

impl Progress {
    pub fn new(frames: u64) -> Self {
        let style = ProgressStyle::with_template("{elapsed} {wide_bar} {pos}/{len} frames, {per_sec:0} | {msg}");
        let bar = ProgressBar::new(frames);
        Self(match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        })
    }

    /// Part of the frames that [`show`](Self::show) was told of.
    pub fn done(&self) -> f64 {
        self.0.position() as f64 / self.0.length().unwrap_or(1) as f64
    }

    /// Shows the counters; `version` is that of the newest weights.
    pub fn show(&self, stats: &Stats, version: u64) {
        let mean = stats.episodes.mean_return.map_or("-".into(), |mean| format!("{mean:.2}"));
        self.0.set_message(format!("return {mean}, weights {version}"));
        self.0.set_position(stats.frames);
    }

    /// Prints a line above the bar.
    pub fn print(&self, line: &str) {
        self.0.suspend(|| println!("{line}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
