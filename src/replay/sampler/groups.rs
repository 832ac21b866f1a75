use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::{Draw, Pick, Sampling};
use crate::{
    components::column,
    data::Dtype,
    error::Error,
    replay::{draws::Draws, view::View},
};

/// Frames by groups that share the value of a column: a batch has the same number of frames of each of its groups, which
/// are drawn without replacement, as are the frames of a group. The frames of a group lie one behind the other.
///
/// A group has to have as many frames as are drawn of it. If fewer groups have, the batch is smaller.
///
/// A draw looks at every group, not at every frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Groups {
    /// A column of one whole number a frame, such as `"trajectory"` or `"version"`.
    pub column: String,
    /// How a batch is shared out.
    pub share: Share,
    /// Which groups are drawn. Default: any.
    #[serde(default)]
    pub best: Best,
}

/// How a batch is shared out to groups. It has to be a multiple of the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Share {
    /// So many groups.
    Groups(usize),
    /// So many frames of each group.
    Frames(usize),
}

/// Which groups are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Best {
    /// Every group with the same chance.
    #[default]
    Random,
    /// Those whose newest frame is the newest.
    Recency,
    /// Those with the greatest mean reward.
    Reward,
    /// Those whose rewards vary the most.
    Variance,
}

impl Groups {
    pub(super) fn check(&self, errors: &mut Vec<Error>) {
        if let Share::Groups(0) | Share::Frames(0) = self.share {
            errors.push(Error::config("share", format!("{:?}", self.share), "1 or more"));
        }
    }

    pub(super) fn open(&self, _: u64) -> Result<Box<dyn Draw>, Error> {
        Ok(Box::new(Grouped {
            options: self.clone(),
            groups: BTreeMap::new(),
            frames: VecDeque::new(),
            tail: 0,
            edits: [0; 2],
            order: Vec::new(),
            drawn: Vec::new(),
        }))
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Group {
    frames: VecDeque<u64>,
    /// Of the rewards, and of their squares.
    sums: [f64; 2],
}

impl Group {
    fn count(&mut self, reward: f32, sign: f64) {
        let reward = f64::from(reward);
        self.sums[0] += sign * reward;
        self.sums[1] += sign * reward * reward;
    }

    fn worth(&self, best: Best) -> f64 {
        let frames = self.frames.len() as f64;
        let mean = self.sums[0] / frames;
        match best {
            Best::Random => 0.0,
            Best::Recency => self.frames.back().map_or(0.0, |frame| *frame as f64),
            Best::Reward => mean,
            Best::Variance => self.sums[1] / frames - mean * mean,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Grouped {
    options: Groups,
    /// By the value that they share, in its order, so that a seed draws the same everywhere.
    groups: BTreeMap<u64, Group>,
    /// By frame from number `tail` on: its group, and its reward.
    frames: VecDeque<(u64, f32)>,
    tail: u64,
    /// Of both columns, when the frames were read.
    edits: [u64; 2],
    #[serde(skip)]
    order: Vec<(f64, u64)>,
    #[serde(skip)]
    drawn: Vec<u64>,
}

impl Grouped {
    /// The column's place and width. Errors: no such column, or not one of whole numbers.
    fn column(&self, view: &View<'_>) -> Result<(usize, usize), Error> {
        let specs = &view.ring.specs;
        let whole = |i: &usize| {
            let [field] = &specs[*i].fields[..] else { return false };
            field.dtype != Dtype::F32 && field.dtype.size() == specs[*i].stride
        };
        let named = specs.iter().position(|spec| spec.name == self.options.column).filter(whole);
        named.map(|i| (i, specs[i].stride)).ok_or_else(|| {
            let legal: Vec<_> = (0..specs.len()).filter(whole).map(|i| &*specs[i].name).collect();
            Error::config("column", &self.options.column, format!("one whole number a frame: {}", legal.join(", ")))
        })
    }

    /// Forgets what is gone, and takes note of what is new.
    fn note(&mut self, view: &View<'_>) -> Result<(), Error> {
        let (column, width) = self.column(view)?;
        let window = view.window();
        let edits = [column, column::REWARD].map(|i| view.edits(i));
        if std::mem::replace(&mut self.edits, edits) != edits {
            self.frames.clear();
            self.groups.clear();
        }
        let gone = self.frames.len().min((window.tail - self.tail) as usize);
        self.tail = window.tail;
        for (key, reward) in self.frames.drain(..gone) {
            let Some(group) = self.groups.get_mut(&key) else { continue };
            group.frames.pop_front();
            group.count(reward, -1.0);
            if group.frames.is_empty() {
                self.groups.remove(&key);
            }
        }
        for frame in self.tail + self.frames.len() as u64..window.head {
            let (mut key, mut reward) = ([0; 8], [0; 4]);
            view.ring.value(view.state, column, frame, &mut key[..width]);
            view.ring.value(view.state, column::REWARD, frame, &mut reward);
            let (key, reward) = (u64::from_le_bytes(key), f32::from_ne_bytes(reward));
            let group = self.groups.entry(key).or_default();
            group.frames.push_back(frame);
            group.count(reward, 1.0);
            self.frames.push_back((key, reward));
        }
        Ok(())
    }

    /// Brings the `most` groups that are drawn to the front of the order; returns how many there are.
    fn choose(&mut self, most: usize, frames: usize, draws: &mut Draws) -> usize {
        let best = self.options.best;
        let large = self.groups.iter().filter(|(_, group)| group.frames.len() >= frames);
        self.order.clear();
        self.order.extend(large.map(|(key, group)| (group.worth(best), *key)));
        let chosen = most.min(self.order.len());
        if best == Best::Random {
            shuffle_front(&mut self.order, chosen, draws);
        } else {
            self.order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        }
        chosen
    }
}

/// Draws the first `n` values without replacement.
fn shuffle_front<V>(values: &mut [V], n: usize, draws: &mut Draws) {
    for i in 0..n {
        let other = i + draws.below((values.len() - i) as u64) as usize;
        values.swap(i, other);
    }
}

impl Draw for Grouped {
    fn is_of(&self, sampling: &Sampling) -> bool {
        matches!(sampling, Sampling::Groups(options) if *options == self.options)
    }

    fn check(&self, view: &View<'_>) -> Result<(), String> {
        let (window, len) = (view.window(), self.frames.len() as u64);
        let seen = self.tail <= window.tail && self.tail.checked_add(len).is_some_and(|head| head <= window.head);
        if !seen || len > view.ring.capacity() {
            return Err(format!("it knows {len} frames from {} on", self.tail));
        }
        let mut groups = BTreeMap::<u64, VecDeque<u64>>::new();
        for ((key, _), frame) in self.frames.iter().zip(self.tail..) {
            groups.entry(*key).or_default().push_back(frame);
        }
        if !groups.iter().eq(self.groups.iter().map(|(key, group)| (key, &group.frames))) {
            return Err("its groups are not those of its frames".into());
        }
        Ok(())
    }

    fn draw(&mut self, view: &View<'_>, n: usize, draws: &mut Draws, picks: &mut Vec<Pick>) -> Result<(), Error> {
        let (Share::Groups(by) | Share::Frames(by)) = self.options.share;
        if !n.is_multiple_of(by) {
            return Err(Error::config("batch_size", n, format!("a multiple of {:?}", self.options.share)));
        }
        let (groups, frames) = match self.options.share {
            Share::Groups(groups) => (groups, n / groups),
            Share::Frames(frames) => (n / frames, frames),
        };
        view.frames()?;
        self.note(view)?;
        let chosen = self.choose(groups, frames, draws);
        if chosen == 0 && n > 0 {
            let problem = format!("no group of {:?} has {frames} frames; write more first", self.options.column);
            return Err(Error::State { call: "sample", problem });
        }
        for (_, key) in &self.order[..chosen] {
            self.drawn.clear();
            self.drawn.extend(&self.groups[key].frames);
            shuffle_front(&mut self.drawn, frames, draws);
            picks.extend(self.drawn[..frames].iter().map(|frame| Pick { frame: *frame, len: 1, weight: 1.0 }));
        }
        Ok(())
    }
}
