use serde::{Deserialize, Serialize};

use super::{Draw, Layout, Pick, Sampling};
use crate::{
    error::Error,
    replay::{draws::Draws, view::View},
};

/// Frames in their context, for recurrent policies: `burn_in` frames before an anchor, `length` from it on and `bootstrap`
/// behind, of one trajectory. Every frame is an anchor with the same chance, with replacement.
///
/// [`Sample::is_learning`](crate::replay::Sample::is_learning) says which slots are the `length` to learn from,
/// [`step_in_pick`](crate::replay::Sample::step_in_pick) where in its sequence a slot is,
/// [`flags`](crate::replay::Sample::flags) whether it holds a frame, and [`anchor`](crate::replay::Sample::anchor) is what
/// gets a priority. A policy's recorded state is column `"state"` at the first slot that holds a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// What becomes of the slots of a sequence for which its trajectory has no frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Boundary {
    /// They are there without a frame: all sequences have the same length.
    #[default]
    Pad,
    /// They are left out: sequences differ in length.
    Stop,
}

fn one() -> u32 {
    1
}

impl Sequences {
    /// Sequences of `length` frames.
    pub fn of(length: u32) -> Self {
        Self { burn_in: 0, length, bootstrap: 0, dilation: 1, boundary: Boundary::default() }
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
    }

    pub(super) fn open(&self, _: u64) -> Result<Box<dyn Draw>, Error> {
        Ok(Box::new(Anchors { options: *self, before: Vec::new() }))
    }

    fn slots(&self) -> Option<u32> {
        self.burn_in.checked_add(self.length)?.checked_add(self.bootstrap)
    }
}

#[derive(Serialize, Deserialize)]
struct Anchors {
    options: Sequences,
    /// By pick of the last draw: slots of the burn-in that its trajectory has no frame for.
    #[serde(skip)]
    before: Vec<u32>,
}

impl Draw for Anchors {
    fn is_of(&self, sampling: &Sampling) -> bool {
        *sampling == Sampling::Sequences(self.options)
    }

    fn draw(&mut self, view: &View<'_>, n: usize, draws: &mut Draws, picks: &mut Vec<Pick>) -> Result<(), Error> {
        let Sequences { burn_in, length, bootstrap, dilation, .. } = self.options;
        let (oldest, len) = view.frames()?;
        self.before.clear();
        for _ in 0..n {
            let anchor = oldest + draws.below(len);
            let trajectory = view.trajectory(view.trajectory_of(anchor));
            let (at, there) = (trajectory.position(anchor), trajectory.positions(view.window()));
            let before = ((at - there.start) / dilation).min(burn_in);
            let behind = (there.end - at).div_ceil(dilation).min(length + bootstrap);
            self.before.push(burn_in - before);
            picks.push(Pick { frame: trajectory.at(at - before * dilation), len: before + behind, weight: 1.0 });
        }
        Ok(())
    }

    fn layout(&self) -> Layout<'_> {
        let Sequences { burn_in, length, dilation, boundary, .. } = self.options;
        let learning = burn_in as usize..(burn_in + length) as usize;
        let slots = if boundary == Boundary::Pad { self.options.slots() } else { None };
        Layout { slots, before: &self.before, stride: dilation, learning }
    }
}
