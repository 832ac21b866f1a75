//! Priorities of the frames that are there, and the chances that follow from them.

mod check;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Pick, Prioritized, maximum::Maximum, tree::Tree};
use crate::{
    error::Error,
    replay::{draws::Draws, view::View},
};

/// By place in the buffer, of frames that begin picks of `len` frames.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Priorities {
    options: Prioritized,
    len: u32,
    /// Chances: 0 where no frame is, or too few of its trajectory follow.
    tree: Tree,
    /// Priorities as they were given, or were the default at the frame's arrival: without `eps` and `alpha`.
    raw: Vec<f32>,
    /// Those that were given, if it counts which of them are there.
    given: Option<Maximum>,
    /// The highest that was ever given.
    highest: Option<f32>,
    /// What the chances were computed with.
    alpha: f32,
    /// Samples drawn.
    samples: u64,
    /// The window that was seen last.
    tail: u64,
    head: u64,
    /// What is looked for in the tree.
    #[serde(skip)]
    found: Vec<(usize, f64)>,
}

impl Priorities {
    pub(super) fn new(options: Prioritized, len: u32, capacity: u64) -> Self {
        let size = capacity as usize;
        Self {
            options,
            len,
            tree: Tree::new(size),
            raw: vec![0.0; size],
            given: options.max_priority_within_buffer.then(|| Maximum::new(size)),
            highest: None,
            alpha: options.alpha.at(0),
            samples: 0,
            tail: 0,
            head: 0,
            found: Vec::new(),
        }
    }

    /// A new frame's priority.
    fn default_priority(&self) -> f32 {
        self.given.as_ref().map_or(self.highest, Maximum::highest).unwrap_or(1.0)
    }

    /// The one place where a priority becomes a chance. One that is not 0 stays so, however small.
    fn chance(&self, priority: f32) -> f32 {
        let base = f64::from(priority) + f64::from(self.options.eps);
        if base == 0.0 && self.alpha > 0.0 {
            return 0.0;
        }
        (base.powf(f64::from(self.alpha)) as f32).clamp(f32::MIN_POSITIVE, f32::MAX)
    }

    fn place(&self, frame: u64) -> usize {
        (frame % self.tree.size() as u64) as usize
    }

    /// Takes the frames in that came and out that went.
    pub(super) fn catch_up(&mut self, view: &View<'_>) {
        let (window, oldest) = (view.window(), view.window().head.saturating_sub(self.tree.size() as u64));
        let new = self.head.max(window.tail)..window.head;
        let gone = self.tail.max(oldest)..window.tail;
        (self.tail, self.head) = (window.tail, window.head);
        if let Some(given) = &mut self.given {
            let size = self.tree.size();
            let overwritten = [gone.clone(), new.clone()];
            overwritten.into_iter().flat_map(|frames| places(size, frames)).for_each(|places| given.clear(places));
        }
        let priority = self.default_priority();
        let chance = if self.len == 1 { self.chance(priority) } else { 0.0 };
        for places in places(self.tree.size(), gone) {
            self.tree.fill(places, 0.0);
        }
        for places in places(self.tree.size(), new.clone()) {
            self.raw[places.clone()].fill(priority);
            self.tree.fill(places, chance);
        }
        if let Ok(Some(column)) = self.options.column(&view.ring.specs) {
            view.each(column, new.clone(), |frame, priority: f32| self.bring(frame, priority));
        }
        if self.len > 1 {
            // A frame lets the one begin a pick whose last it is. That stays so: the older of them goes first.
            for first in new.filter_map(|frame| view.behind(frame, self.len - 1)) {
                let at = self.place(first);
                self.tree.put(at, self.chance(self.raw[at]));
            }
        }
        self.tree.settle();
    }

    /// Takes the priority that a new frame brings with it.
    fn bring(&mut self, frame: u64, priority: f32) {
        if !(priority.is_finite() && priority >= 0.0) {
            return;
        }
        let at = self.place(frame);
        self.give(at, priority);
        if self.len == 1 {
            self.tree.put(at, self.chance(priority));
        }
    }

    /// Notes a priority that is given.
    fn give(&mut self, at: usize, priority: f32) {
        self.raw[at] = priority;
        if let Some(there) = &mut self.given {
            there.put(at, priority);
        }
        self.highest = Some(self.highest.map_or(priority, |highest| highest.max(priority)));
    }

    fn begins(&self, view: &View<'_>, frame: u64) -> bool {
        self.len == 1 || view.ahead(frame, self.len) == self.len
    }

    /// Gives frames that are there new priorities, or the default again; returns how many were there.
    pub(super) fn update(&mut self, view: &View<'_>, frames: &[u64], priorities: Option<&[f32]>) -> usize {
        self.catch_up(view);
        let (default, mut taken) = (self.default_priority(), 0);
        for (i, frame) in frames.iter().enumerate() {
            if !(self.tail..self.head).contains(frame) {
                continue;
            }
            let at = self.place(*frame);
            match priorities {
                Some(priorities) => self.give(at, priorities[i]),
                None => {
                    self.raw[at] = default;
                    self.given.iter_mut().for_each(|there| there.clear(at..at + 1));
                }
            }
            if self.begins(view, *frame) {
                self.tree.put(at, self.chance(self.raw[at]));
            }
            taken += 1;
        }
        self.tree.settle();
        taken
    }

    /// Computes all chances anew if alpha is another by now.
    fn follow_alpha(&mut self, view: &View<'_>) {
        let alpha = self.options.alpha.at(self.samples);
        if alpha == self.alpha {
            return;
        }
        self.alpha = alpha;
        for frame in self.tail..self.head {
            if self.begins(view, frame) {
                let at = self.place(frame);
                self.tree.put(at, self.chance(self.raw[at]));
            }
        }
        self.tree.settle();
    }

    /// Draws `n` picks, with weights. Errors: no frame has a chance.
    pub(super) fn draw(
        &mut self,
        view: &View<'_>,
        n: usize,
        draws: &mut Draws,
        picks: &mut Vec<Pick>,
    ) -> Result<(), Error> {
        view.frames()?;
        self.options.column(&view.ring.specs)?;
        self.follow_alpha(view);
        let (total, least) = (self.tree.total(), f64::from(self.tree.least()));
        if total == 0.0 {
            let problem = match self.len {
                1 => "the priorities of all frames are 0".into(),
                len => format!("no {len} frames of a trajectory follow each other, or their priorities are 0"),
            };
            return Err(Error::State { call: "sample", problem });
        }
        let beta = f64::from(self.options.beta.at(self.samples));
        let (at_head, size) = (self.place(self.head), self.tree.size() as u64);
        let lap = self.head - at_head as u64;
        self.found.clear();
        self.found.extend((0..n).map(|_| (0, draws.unit() * total)));
        self.tree.find(&mut self.found);
        picks.extend(self.found.iter().map(|(at, _)| {
            let at = *at;
            let frame = if at < at_head { lap + at as u64 } else { lap - size + at as u64 };
            let weight = if beta == 0.0 { 1.0 } else { (f64::from(self.tree.get(at)) / least).powf(-beta) as f32 };
            Pick { frame, len: self.len, weight }
        }));
        self.samples += 1;
        Ok(())
    }
}

/// The places of no more frames than `size`, which is the number of places.
fn places(size: usize, frames: Range<u64>) -> [Range<usize>; 2] {
    let from = (frames.start % size as u64) as usize;
    let len = frames.end.saturating_sub(frames.start) as usize;
    [from..size.min(from + len), 0..(from + len).saturating_sub(size)]
}
