use serde::{Deserialize, Serialize};

use super::{Draw, Layout, Pick, Prioritized, Sampling, priorities::Priorities};
use crate::{
    error::Error,
    replay::{draws::Draws, view::View},
};

/// Frames in their context, for recurrent policies: `burn_in` frames before an anchor, `length` from it on and `bootstrap`
/// behind, of one trajectory. Anchors are drawn with replacement.
///
/// [`Sample::is_learning`](crate::replay::Sample::is_learning) says which slots are the `length` to learn from,
/// [`step_in_pick`](crate::replay::Sample::step_in_pick) where in its sequence a slot is,
/// [`flags`](crate::replay::Sample::flags) whether it holds a frame, and [`anchor`](crate::replay::Sample::anchor) is what
/// gets a priority, by [`Sampler::update_anchors`](crate::replay::Sampler::update_anchors). A policy's recorded state is
/// column `"state"` at the first slot that holds a frame.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sequences {
    /// Frames before the anchor, which a recurrent state is warmed up with. Default: 0.
    #[serde(default)]
    pub burn_in: u32,
    /// Frames to learn from.
    pub length: u32,
    /// Frames behind those, whose values are bootstrapped from. Default: 0.
    #[serde(default)]
    pub bootstrap: u32,
    /// Steps of the trajectory from one slot to the next. Default: 1.
    #[serde(default = "one")]
    pub dilation: u32,
    /// What becomes of slots beyond the trajectory. Default: they hold no frame.
    #[serde(default)]
    pub boundary: Boundary,
    /// Which frames are anchors: by their priorities. Default: none, every frame with the same chance.
    #[serde(default)]
    pub anchors: Option<Prioritized>,
}

/// What becomes of the slots of a sequence for which its trajectory has no frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Boundary {
    /// They are there without a frame: all sequences have the same length.
    #[default]
    Pad,
    /// They are left out: sequences differ in length.
    Stop,
    /// Behind an end comes the episode that follows, from its reset on, and another if that is short; where step 0 of an
    /// episode is, a recurrent state begins anew. In rollouts it is the row's next episode, elsewhere the one that was
    /// written behind; if none is, and before the anchor's episode, slots are there without a frame. Not with n-step
    /// returns.
    Reset,
}

fn one() -> u32 {
    1
}

impl Sequences {
    /// Sequences of `length` frames.
    pub fn of(length: u32) -> Self {
        Self { burn_in: 0, length, bootstrap: 0, dilation: 1, boundary: Boundary::default(), anchors: None }
    }

    pub(super) fn check(&self, errors: &mut Vec<Error>) {
        for (field, value) in [("length", self.length), ("dilation", self.dilation)] {
            if value == 0 {
                errors.push(Error::config(field, 0, "1 or more"));
            }
        }
        if self.slots().is_none() {
            let slots = format!("{} + {} + {} slots", self.burn_in, self.length, self.bootstrap);
            errors.push(Error::config("length", slots, "fewer than 2^32 in all"));
        }
        if let Some(anchors) = &self.anchors {
            anchors.check(errors);
        }
    }

    pub(super) fn open(&self, capacity: u64) -> Result<Box<dyn Draw>, Error> {
        let priorities = self.anchors.map(|options| Priorities::new(options, 1, capacity));
        Ok(Box::new(Anchors { options: *self, priorities, before: Vec::new(), joined: Vec::new() }))
    }

    fn slots(&self) -> Option<u32> {
        self.burn_in.checked_add(self.length)?.checked_add(self.bootstrap)
    }
}

#[derive(Serialize, Deserialize)]
struct Anchors {
    options: Sequences,
    /// Of the anchors, if they are drawn by any.
    priorities: Option<Priorities>,
    /// By pick of the last draw: slots of the burn-in that its trajectory has no frame for.
    #[serde(skip)]
    before: Vec<u32>,
    /// What follows behind the ends of trajectories in the last draw.
    #[serde(skip)]
    joined: Vec<(u32, Pick)>,
}

impl Anchors {
    /// Makes a pick whose frame is an anchor a sequence.
    fn stretch(&mut self, view: &View<'_>, i: u32, pick: &mut Pick) {
        let Sequences { burn_in, length, bootstrap, dilation, boundary, .. } = self.options;
        let record = view.trajectory_of(pick.frame);
        let trajectory = view.trajectory(record);
        let (at, there) = (trajectory.position(pick.frame), trajectory.positions(view.window()));
        let before = ((at - there.start) / dilation).min(burn_in);
        let left = there.end - at;
        let behind = left.div_ceil(dilation).min(length + bootstrap);
        self.before.push(burn_in - before);
        (pick.frame, pick.len) = (trajectory.at(at - before * dilation), before + behind);
        if boundary == Boundary::Reset {
            let beyond = (u64::from(behind) * u64::from(dilation)).saturating_sub(u64::from(left));
            self.join(view, i, record, length + bootstrap - behind, beyond);
        }
    }

    /// Adds up to `left` frames behind a trajectory's end, the first one `skip` frames behind it.
    fn join(&mut self, view: &View<'_>, i: u32, mut record: u32, mut left: u32, mut skip: u64) {
        let dilation = self.options.dilation;
        while left > 0 {
            let Some(next) = view.next_trajectory(record) else { return };
            let trajectory = view.trajectory(next);
            let len = trajectory.len(view.window());
            if skip < u64::from(len) {
                let first = skip as u32;
                let take = (len - first).div_ceil(dilation).min(left);
                self.joined.push((i, Pick { frame: trajectory.at(first), len: take, weight: 1.0 }));
                left -= take;
                skip += u64::from(take) * u64::from(dilation);
            }
            skip = skip.saturating_sub(u64::from(len));
            record = next;
        }
    }
}

impl Draw for Anchors {
    fn is_of(&self, sampling: &Sampling) -> bool {
        let priorities = match (&self.priorities, self.options.anchors) {
            (Some(priorities), Some(options)) => priorities.has(options, 1),
            (None, None) => true,
            _ => false,
        };
        priorities && *sampling == Sampling::Sequences(self.options)
    }

    fn check(&self, view: &View<'_>) -> Result<(), String> {
        self.priorities.as_ref().map_or(Ok(()), |priorities| priorities.check(view))
    }

    fn catch_up(&mut self, view: &View<'_>) {
        if let Some(priorities) = &mut self.priorities {
            priorities.catch_up(view);
        }
    }

    fn draw(&mut self, view: &View<'_>, n: usize, draws: &mut Draws, picks: &mut Vec<Pick>) -> Result<(), Error> {
        let (oldest, len) = view.frames()?;
        match &mut self.priorities {
            Some(priorities) => priorities.draw(view, n, draws, picks)?,
            None => picks.extend((0..n).map(|_| Pick { frame: oldest + draws.below(len), len: 1, weight: 1.0 })),
        }
        self.before.clear();
        self.joined.clear();
        picks.iter_mut().zip(0..).for_each(|(pick, i)| self.stretch(view, i, pick));
        Ok(())
    }

    fn layout(&self) -> Layout<'_> {
        let Sequences { burn_in, length, dilation, boundary, .. } = self.options;
        let learning = burn_in as usize..(burn_in + length) as usize;
        let slots = if boundary == Boundary::Stop { None } else { self.options.slots() };
        let (before, joined) = (&self.before, &self.joined);
        Layout { slots, before, stride: dilation, learning, joined, ..Layout::default() }
    }

    fn update(&mut self, view: &View<'_>, frames: &[u64], priorities: &[f32]) -> Result<usize, Error> {
        let own = self.priorities.as_mut().ok_or_else(|| no_priorities("update_priorities"))?;
        Ok(own.update(view, frames, Some(priorities)))
    }

    fn mark_update(&mut self, view: &View<'_>, frames: &[u64]) -> Result<usize, Error> {
        let own = self.priorities.as_mut().ok_or_else(|| no_priorities("mark_update"))?;
        Ok(own.update(view, frames, None))
    }
}

fn no_priorities(call: &'static str) -> Error {
    Error::State { call, problem: "anchors are drawn without priorities; set Sequences::anchors".into() }
}
