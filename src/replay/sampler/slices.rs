use serde::{Deserialize, Serialize};

use super::{Draw, Layout, Pick, Sampling, starts::Starts};
use crate::{
    components::fetch,
    error::Error,
    replay::{
        draws::{Draws, MADE, below},
        index::Window,
        view::View,
    },
};

/// Frames of one trajectory that follow each other, with replacement. A pick is a slice: a batch of `n` frames is a batch
/// of `n / len` picks.
///
/// A policy's recorded recurrent state before a slice is column `"state"` at the slice's first frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slices {
    /// Frames of a slice.
    pub len: u32,
    /// What becomes of trajectories of which fewer frames are there. Default: they are skipped.
    #[serde(default)]
    pub short: Short,
    /// How many frames a slice may begin before the first frame of its trajectory, and end after the last: it is cut to
    /// those that are there. Each less than `len`. Default: none.
    #[serde(default)]
    pub span: (u32, u32),
    /// What has the same chance. Default: every trajectory.
    #[serde(default)]
    pub weighting: Weighting,
}

/// What becomes of trajectories that are shorter than a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Short {
    /// They are not drawn.
    #[default]
    Skip,
    /// They come whole: slices differ in length.
    Whole,
    /// They come whole, and slots behind them without a frame make every slice as long as asked for, also those that a
    /// span cut. [`Sample::flags`](crate::replay::Sample::flags) tells them apart.
    Pad,
}

/// What has the same chance of being drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Weighting {
    /// Every trajectory, then every start in it.
    #[default]
    Trajectories,
    /// Every start of all trajectories.
    Frames,
}

/// How often chance may name what cannot be drawn before a list is made of what can: then one draw in 16 can be drawn.
const TRIES: u32 = 48;

impl Slices {
    /// Slices of `len` frames.
    pub fn of(len: u32) -> Self {
        Self { len, short: Short::default(), span: (0, 0), weighting: Weighting::default() }
    }

    pub(super) fn open(&self, _: u64) -> Result<Box<dyn Draw>, Error> {
        let (starts, list) = (self.starts(), List::default());
        Ok(Box::new(Slicer { starts, options: self.clone(), list, records: Vec::new() }))
    }

    pub(super) fn check(&self, errors: &mut Vec<Error>) {
        let Self { len, span, .. } = *self;
        if len == 0 {
            errors.push(Error::config("len", 0, "1 or more"));
        }
        for (field, frames) in [("span.0", span.0), ("span.1", span.1)] {
            if frames > 0 && frames >= len {
                errors.push(Error::config(field, frames, format!("less than the slice's {len} frames")));
            }
        }
    }

    /// Where slices may start.
    pub(super) fn starts(&self) -> Starts {
        Starts { len: self.len, whole: self.short != Short::Skip, span: self.span }
    }

    /// How slices lie in a sample.
    pub(super) fn layout(&self) -> Layout<'static> {
        Layout { slots: (self.short == Short::Pad).then_some(self.len), ..Layout::default() }
    }
}

/// Draws slices. The list is made anew from what is there, and never changes what is drawn.
#[derive(Serialize, Deserialize)]
struct Slicer {
    options: Slices,
    starts: Starts,
    #[serde(skip)]
    list: List,
    /// By pick of the last draw.
    #[serde(skip)]
    records: Vec<u32>,
}

/// The trajectories that can be drawn from, for when chance hardly finds any.
#[derive(Default)]
struct List {
    window: Option<Window>,
    /// Records, and how many starts those up to and with them have.
    entries: Vec<(u32, u64)>,
}

impl List {
    /// Lists what can be drawn while the window is as it is.
    fn make(&mut self, view: &View<'_>, starts: Starts) -> Result<&[(u32, u64)], Error> {
        if self.window.replace(view.window()) != Some(view.window()) {
            let mut total = 0;
            self.entries.clear();
            self.entries.extend(view.trajectories().iter().filter_map(|record| {
                let count = starts.count(view.trajectory(*record).len(view.window()));
                total += u64::from(count);
                (count > 0).then_some((*record, total))
            }));
        }
        if self.entries.is_empty() {
            return Err(starts.none());
        }
        Ok(&self.entries)
    }
}

/// Picks whose records the memory is asked for at a time, so that none waits for the one before. They are those if each
/// pick takes two numbers; what is drawn does not depend on it.
const BURST: usize = MADE / 2;

/// Asks the memory for the records of the next picks.
fn fetch_records(view: &View<'_>, draws: &mut Draws, picks: usize) {
    let all = view.trajectories();
    for bits in draws.ahead().iter().step_by(2).take(picks) {
        if let Some(record) = all.get(below(*bits, all.len() as u64) as usize) {
            fetch(std::slice::from_ref(view.trajectory(*record)));
        }
    }
}

impl Draw for Slicer {
    fn is_of(&self, sampling: &Sampling) -> bool {
        matches!(sampling, Sampling::Slices(options) if *options == self.options && options.starts() == self.starts)
    }

    fn draw(&mut self, view: &View<'_>, n: usize, draws: &mut Draws, picks: &mut Vec<Pick>) -> Result<(), Error> {
        self.records.clear();
        for i in 0..n {
            if i % BURST == 0 && self.options.weighting == Weighting::Trajectories {
                fetch_records(view, draws, n - i);
            }
            let (record, pick) = match self.options.weighting {
                Weighting::Trajectories => self.by_trajectory(view, draws)?,
                Weighting::Frames => self.by_frame(view, draws)?,
            };
            self.records.push(record);
            picks.push(pick);
        }
        Ok(())
    }

    fn layout(&self) -> Layout<'_> {
        Layout { records: &self.records, ..self.options.layout() }
    }
}

impl Slicer {
    /// A slice and the place of its trajectory.
    fn by_trajectory(&mut self, view: &View<'_>, draws: &mut Draws) -> Result<(u32, Pick), Error> {
        let all = view.trajectories();
        view.frames()?;
        for _ in 0..TRIES {
            let record = all[draws.below(all.len() as u64) as usize];
            if let Some(pick) = self.starts.draw(view, record, draws) {
                return Ok((record, pick));
            }
        }
        let list = self.list.make(view, self.starts)?;
        let (record, _) = list[draws.below(list.len() as u64) as usize];
        self.starts.draw(view, record, draws).map(|pick| (record, pick)).ok_or_else(|| self.starts.none())
    }

    /// A frame names the start at its own position; with a span there are more starts than frames, at most twice as many.
    fn by_frame(&mut self, view: &View<'_>, draws: &mut Draws) -> Result<(u32, Pick), Error> {
        let (oldest, len) = view.frames()?;
        let rounds = if self.starts.span == (0, 0) { 1 } else { 2 };
        for _ in 0..TRIES {
            let drawn = draws.below(rounds * len);
            let frame = oldest + drawn % len;
            let at = view.trajectory_of(frame);
            let record = view.trajectory(at);
            let positions = record.positions(view.window());
            let start = u64::from(record.position(frame) - positions.start) + drawn / len * positions.len() as u64;
            if start < u64::from(self.starts.count(positions.len() as u32)) {
                return Ok((at, self.starts.pick(record, positions, start as u32)));
            }
        }
        let list = self.list.make(view, self.starts)?;
        let start = draws.below(list.last().map_or(0, |(_, total)| *total));
        let at = list.partition_point(|(_, total)| *total <= start);
        let before = if at == 0 { 0 } else { list[at - 1].1 };
        let record = view.trajectory(list[at].0);
        Ok((list[at].0, self.starts.pick(record, record.positions(view.window()), (start - before) as u32)))
    }
}
