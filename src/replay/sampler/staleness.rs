use std::collections::{HashSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::{Draw, Pick, Sampling};
use crate::{
    components::column,
    error::Error,
    replay::{draws::Draws, view::View},
};

/// Frames with the chances `(staleness + 1)^-power` and weights of 1. A frame's staleness is the learner's version less that
/// of the weights that acted, 0 if those are newer.
///
/// A frame is in a sample once, if there are as many as picks: it is drawn among those that the sample has not got yet.
///
/// A sample takes a time that grows with the runs of frames of one version that follow each other, not with the frames.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Staleness {
    /// How fast chances fall with staleness: with 0 they are equal, with 2 they fall with its square. 0 or more.
    /// Default: 1.
    pub power: f64,
    /// Staleness above which a frame is never drawn. Default: none.
    pub max_staleness: Option<u64>,
    /// The learner's version, until [`Sampler::set_version`](crate::replay::Sampler::set_version) sets another. Default:
    /// the newest one of any frame so far.
    pub version: Option<u64>,
    /// Whether a frame may be in a sample more than once although there are others. Default: no.
    pub replacement: bool,
}

impl Default for Staleness {
    fn default() -> Self {
        Self { power: 1.0, max_staleness: None, version: None, replacement: false }
    }
}

impl Staleness {
    pub(super) fn check(&self, errors: &mut Vec<Error>) {
        if !(0.0..f64::INFINITY).contains(&self.power) {
            errors.push(Error::config("power", self.power, "a finite number of 0 or more"));
        }
    }

    pub(super) fn open(&self, _: u64) -> Result<Box<dyn Draw>, Error> {
        Ok(Box::new(Stale { options: *self, ..Stale::default() }))
    }
}

/// Frames of one version, up to where the next run begins.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Run {
    first: u64,
    version: u64,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Stale {
    options: Staleness,
    /// All frames that are there.
    runs: VecDeque<Run>,
    newest: u64,
    head: u64,
    /// Of the versions, when the frames were read.
    edits: u64,
    /// By run: the sum of the chances of its frames and those before.
    #[serde(skip)]
    sums: Vec<f64>,
    /// Oldest and newest frame and version that the sums are for.
    #[serde(skip)]
    summed: Option<(u64, u64, u64)>,
    /// Frames with a chance.
    #[serde(skip)]
    frames: u64,
    /// Those of the sample at hand, and in order.
    #[serde(skip)]
    drawn: HashSet<u64>,
    #[serde(skip)]
    sorted: Vec<u64>,
}

/// How often chance may name a frame that the sample has before it is drawn among the others: then they have about a
/// sixteenth of the chances.
const TRIES: u32 = 16;

impl Stale {
    fn consumer(&self) -> u64 {
        self.options.version.unwrap_or(self.newest)
    }

    fn chance(&self, run: &Run) -> f64 {
        let staleness = self.consumer().saturating_sub(run.version);
        if self.options.max_staleness.is_some_and(|most| staleness > most) {
            return 0.0;
        }
        (staleness as f64 + 1.0).powf(-self.options.power)
    }

    /// Where run `i` ends.
    fn end(&self, i: usize) -> u64 {
        self.runs.get(i + 1).map_or(self.head, |next| next.first)
    }

    /// Sums the chances up, if anything changed; returns their total.
    fn sum_up(&mut self) -> f64 {
        let tail = self.runs.front().map_or(self.head, |run| run.first);
        let state = Some((tail, self.head, self.consumer()));
        if self.summed != state {
            self.summed = state;
            let mut sums = std::mem::take(&mut self.sums);
            sums.clear();
            let (mut total, mut frames) = (0.0, 0);
            sums.extend(self.runs.iter().enumerate().map(|(i, run)| {
                let (len, chance) = (self.end(i) - run.first, self.chance(run));
                total += len as f64 * chance;
                frames += if chance > 0.0 { len } else { 0 };
                total
            }));
            (self.sums, self.frames) = (sums, frames);
        }
        self.sums.last().copied().unwrap_or_default()
    }

    /// A frame by the chances, which sum up to `total`.
    fn any(&self, total: f64, draws: &mut Draws) -> u64 {
        let x = draws.unit() * total;
        let mut at = self.sums.partition_point(|sum| *sum <= x);
        if at == self.sums.len() {
            // The product was rounded up: the last run with a chance.
            at = self.sums.partition_point(|sum| *sum < total);
        }
        let first = self.runs[at].first;
        first + draws.below(self.end(at) - first)
    }

    /// A frame by the chances of those that were not drawn yet, of which there are some.
    fn another(&mut self, total: f64, draws: &mut Draws) -> u64 {
        for _ in 0..TRIES {
            let frame = self.any(total, draws);
            if self.drawn.insert(frame) {
                return frame;
            }
        }
        let mut sorted = std::mem::take(&mut self.sorted);
        sorted.clear();
        sorted.extend(&self.drawn);
        sorted.sort_unstable();
        let frame = self.rest(&sorted, draws);
        self.sorted = sorted;
        self.drawn.insert(frame);
        frame
    }

    /// The same, run by run. `drawn` is in order.
    fn rest(&self, drawn: &[u64], draws: &mut Draws) -> u64 {
        let of_run = |i: usize| {
            let [from, to] = [self.runs[i].first, self.end(i)].map(|end| drawn.partition_point(|frame| *frame < end));
            &drawn[from..to]
        };
        let left = |i: usize| self.end(i) - self.runs[i].first - of_run(i).len() as u64;
        let chance = |i: usize| left(i) as f64 * self.chance(&self.runs[i]);
        let mut x = draws.unit() * (0..self.runs.len()).map(chance).sum::<f64>();
        let mut at = None;
        for i in (0..self.runs.len()).filter(|i| chance(*i) > 0.0) {
            at = Some(i);
            x -= chance(i);
            if x < 0.0 {
                break;
            }
        }
        let at = at.unwrap_or_default();
        let frame = self.runs[at].first + draws.below(left(at));
        // Past those that were drawn.
        of_run(at).iter().fold(frame, |frame, drawn| if *drawn <= frame { frame + 1 } else { frame })
    }
}

impl Draw for Stale {
    fn is_of(&self, sampling: &Sampling) -> bool {
        *sampling == Sampling::Staleness(self.options)
    }

    fn check(&self, view: &View<'_>) -> Result<(), String> {
        let (window, first) = (view.window(), self.runs.front().map_or(self.head, |run| run.first));
        if first > window.tail || self.head > window.head || self.head.saturating_sub(first) > view.ring.capacity() {
            return Err(format!("it knows frames {first} to {}", self.head));
        }
        let runs = self.runs.iter().map(|run| run.first).chain([self.head]);
        if !runs.clone().zip(runs.skip(1)).all(|(run, next)| run < next) {
            return Err("its runs of versions do not follow each other".into());
        }
        Ok(())
    }

    fn catch_up(&mut self, view: &View<'_>) {
        let (window, edits) = (view.window(), view.edits(column::VERSION));
        if edits != self.edits {
            (self.edits, self.head, self.summed) = (edits, window.tail, None);
        }
        if window.tail >= self.head {
            self.runs.clear();
        }
        while self.runs.get(1).is_some_and(|next| next.first <= window.tail) {
            self.runs.pop_front();
        }
        if let Some(oldest) = self.runs.front_mut() {
            oldest.first = oldest.first.max(window.tail);
        }
        let Self { runs, newest, .. } = self;
        view.each(column::VERSION, self.head.max(window.tail)..window.head, |first, version| {
            if runs.back().is_none_or(|run| run.version != version) {
                runs.push_back(Run { first, version });
                *newest = version.max(*newest);
            }
        });
        self.head = window.head;
    }

    fn draw(&mut self, view: &View<'_>, n: usize, draws: &mut Draws, picks: &mut Vec<Pick>) -> Result<(), Error> {
        view.frames()?;
        let total = self.sum_up();
        if total == 0.0 {
            let (most, version) = (self.options.max_staleness.unwrap_or_default(), self.consumer());
            let problem =
                format!("all frames are staler than max_staleness, {most}, for a learner at version {version}");
            return Err(Error::State { call: "sample", problem });
        }
        let again = self.options.replacement || n as u64 > self.frames;
        self.drawn.clear();
        for _ in 0..n {
            let frame = if again { self.any(total, draws) } else { self.another(total, draws) };
            picks.push(Pick { frame, len: 1, weight: 1.0 });
        }
        Ok(())
    }

    fn version(&self) -> Option<u64> {
        Some(self.consumer())
    }

    fn set_version(&mut self, version: u64) {
        self.options.version = Some(version);
    }
}
