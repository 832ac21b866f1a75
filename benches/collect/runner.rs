//! Measures, prints and judges.

use std::time::{Duration, Instant};

/// Repetitions that a median is taken over.
const REPETITIONS: usize = 7;

/// What this run of the bench does.
pub struct Runner {
    /// Whether a figure that misses its bound is a failure.
    check: bool,
    /// Time of one side of a repetition.
    pub span: Duration,
    /// Repetitions of a figure; 1 in a test.
    pub repetitions: usize,
    missed: Vec<String>,
}

impl Runner {
    /// Without `--bench` in the arguments the run is a test: everything once, briefly, and no bound counts.
    pub fn from_args() -> Self {
        let has = |name: &str| std::env::args().any(|arg| arg == name);
        let quick = has("--test") || !has("--bench");
        Self {
            check: has("--check") && !quick,
            span: Duration::from_millis(if quick { 1 } else { 120 }),
            repetitions: if quick { 1 } else { REPETITIONS },
            missed: Vec::new(),
        }
    }

    /// Frames a second of each side, and their ratio, `a` over `b`. A side makes some frames and says how many.
    ///
    /// The sides take turns within a repetition, so that what else the machine does meets both; a repetition's speed of
    /// a side is that of its best turn, because what else the machine does can only make a turn slower.
    pub fn compare(&self, mut a: impl FnMut() -> u64, mut b: impl FnMut() -> u64) -> Compared {
        let mut repetitions: Vec<_> = (0..self.repetitions)
            .map(|_| {
                let (mut turns_a, mut turns_b) = (Vec::new(), Vec::new());
                let start = Instant::now();
                while start.elapsed() < 2 * self.span || turns_a.len() < 3 {
                    turns_a.push(turn(&mut a));
                    turns_b.push(turn(&mut b));
                }
                (best(&turns_a), best(&turns_b))
            })
            .collect();
        repetitions.sort_by(|x, y| (x.1 / x.0).total_cmp(&(y.1 / y.0)));
        let (a, b) = repetitions[repetitions.len() / 2];
        Compared { a, b }
    }

    /// Seconds a frame of one side, the median of the repetitions.
    pub fn measure(&self, mut a: impl FnMut() -> u64) -> f64 {
        let repetition = |_| {
            let start = Instant::now();
            let mut turns = Vec::new();
            while start.elapsed() < self.span || turns.len() < 3 {
                turns.push(turn(&mut a));
            }
            best(&turns)
        };
        median((0..self.repetitions).map(repetition).collect())
    }

    /// Prints a figure that shall be at least `bound`.
    pub fn at_least(&mut self, name: &str, value: f64, bound: f64, note: &str) {
        self.judge(name, value, value >= bound, format!(">= {bound}"), note);
    }

    /// Prints a figure that shall be at most `bound`.
    pub fn at_most(&mut self, name: &str, value: f64, bound: f64, note: &str) {
        self.judge(name, value, value <= bound, format!("<= {bound}"), note);
    }

    fn judge(&mut self, name: &str, value: f64, holds: bool, bound: String, note: &str) {
        let verdict = if holds { "" } else { "  MISSED" };
        println!("  {name:<58} {value:>8.3}  {bound:<8} {note}{verdict}");
        if !holds {
            self.missed.push(format!("{name}: {value:.3}, bound {bound}"));
        }
    }

    /// Prints what was missed; whether the run counts as passed.
    pub fn passed(&self) -> bool {
        for missed in &self.missed {
            println!("missed: {missed}");
        }
        self.missed.is_empty() || !self.check
    }
}

/// Seconds a frame of two sides.
pub struct Compared {
    pub a: f64,
    pub b: f64,
}

impl Compared {
    /// Speed of `a` over that of `b`.
    pub fn ratio(&self) -> f64 {
        self.b / self.a
    }

    /// Both speeds, for people.
    pub fn speeds(&self) -> String {
        format!("({} against {} M frames/s)", millions(self.a), millions(self.b))
    }
}

/// Frames a second of so many seconds a frame, in millions.
pub fn millions(seconds: f64) -> String {
    format!("{:.2}", 1e-6 / seconds)
}

/// Long enough that what the other side left in the caches does not count.
const TURN: Duration = Duration::from_millis(5);

fn turn(side: &mut impl FnMut() -> u64) -> f64 {
    let start = Instant::now();
    let mut frames = 0;
    while frames == 0 || start.elapsed() < TURN {
        frames += side();
    }
    start.elapsed().as_secs_f64() / frames as f64
}

fn best(turns: &[f64]) -> f64 {
    turns.iter().copied().fold(f64::INFINITY, f64::min)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
