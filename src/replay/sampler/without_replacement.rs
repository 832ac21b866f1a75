use serde::{Deserialize, Serialize};

use super::{Draw, Pick, Sampling, epoch::Epoch};
use crate::{
    error::Error,
    replay::{draws::Draws, index::Window, view::View},
};

/// Every frame once an epoch. An epoch has the frames that are there when it begins; it begins again when the buffer
/// grew meanwhile. Frames that are overwritten meanwhile are not drawn any more, what overwrites them is in the next one.
///
/// The iteration of a [`Sampler`](crate::replay::Sampler) ends with each epoch, and goes on with the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WithoutReplacement {
    /// Whether an epoch ends when fewer frames are left than a batch has; else the last batch is smaller. Default: no.
    pub drop_last: bool,
    /// Whether the order is random; else it is that of writing. Default: yes.
    pub shuffle: bool,
}

impl Default for WithoutReplacement {
    fn default() -> Self {
        Self { drop_last: false, shuffle: true }
    }
}

impl WithoutReplacement {
    pub(super) fn check(&self, _: &mut Vec<Error>) {}

    pub(super) fn open(&self, capacity: u64) -> Result<Box<dyn Draw>, Error> {
        if u32::try_from(capacity).is_err() {
            return Err(Error::config(
                "capacity",
                capacity,
                "at most 4,294,967,295 frames to draw without replacement",
            ));
        }
        Ok(Box::new(Frames { options: *self, epoch: Epoch::default(), of: Window::default(), ran_out: false }))
    }
}

#[derive(Serialize, Deserialize)]
struct Frames {
    options: WithoutReplacement,
    epoch: Epoch,
    /// The frames of the epoch.
    of: Window,
    ran_out: bool,
}

impl Frames {
    fn begin(&mut self, view: &View<'_>) {
        self.of = view.window();
        self.epoch.begin(view.len() as usize, self.options.shuffle);
    }

    /// Up to `n` frames of the epoch that are there still.
    fn take(&mut self, view: &View<'_>, n: usize, draws: &mut Draws, picks: &mut Vec<Pick>) {
        let end = picks.len() + n;
        while picks.len() < end {
            let Some(i) = self.epoch.next(self.options.shuffle, draws) else { return };
            let frame = self.of.tail + u64::from(i);
            if frame >= view.window().tail {
                picks.push(Pick { frame, len: 1, weight: 1.0 });
            }
        }
    }
}

impl Draw for Frames {
    fn is_of(&self, sampling: &Sampling) -> bool {
        *sampling == Sampling::WithoutReplacement(self.options)
    }

    fn check(&self, view: &View<'_>) -> Result<(), String> {
        let Window { tail, head } = self.of;
        if tail > view.window().tail || head > view.window().head {
            return Err(format!("its epoch has frames {tail} to {head}"));
        }
        let frames = head.checked_sub(tail).filter(|frames| *frames <= view.ring.capacity());
        self.epoch.check(frames.ok_or_else(|| format!("its epoch has frames {tail} to {head}"))?, self.options.shuffle)
    }

    fn draw(&mut self, view: &View<'_>, n: usize, draws: &mut Draws, picks: &mut Vec<Pick>) -> Result<(), Error> {
        let (_, len) = view.frames()?;
        let drop_last = self.options.drop_last;
        if drop_last && n as u64 > len {
            return Err(Error::config("batch_size", n, format!("at most the {len} frames that are there")));
        }
        let grew = view.len() > self.of.len();
        if grew || self.epoch.left() == 0 || (drop_last && self.epoch.left() < n) {
            self.begin(view);
        }
        self.take(view, n, draws, picks);
        // The rest of the epoch may have been overwritten.
        if picks.is_empty() || (drop_last && picks.len() < n) {
            picks.clear();
            self.begin(view);
            self.take(view, n, draws, picks);
        }
        self.ran_out = self.epoch.left() < if drop_last { n.max(1) } else { 1 };
        Ok(())
    }

    fn ran_out(&self) -> bool {
        self.ran_out
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.epoch.left() as u64)
    }
}
