use serde::{Deserialize, Serialize};

use super::{Draw, Layout, Pick, Sampling, Slices, epoch::Epoch, starts::Starts};
use crate::{
    error::Error,
    replay::{draws::Draws, view::View},
};

/// Slices of which every trajectory gives one an epoch, each of its starts with the same chance. An epoch has the
/// trajectories that have slices when it begins; those that are overwritten meanwhile are left out, new ones are in the
/// next.
///
/// The iteration of a [`Sampler`](crate::replay::Sampler) ends with each epoch, and goes on with the next one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlicesWithoutReplacement {
    /// The slices. Their weighting has no meaning here.
    pub slices: Slices,
    /// Whether an epoch ends when fewer trajectories are left than a batch has; else the last batch is smaller. Default: no.
    #[serde(default)]
    pub drop_last: bool,
    /// Whether the order is random; else trajectories come by their oldest frame. Default: yes.
    #[serde(default = "yes")]
    pub shuffle: bool,
}

fn yes() -> bool {
    true
}

impl SlicesWithoutReplacement {
    /// Slices of `len` frames.
    pub fn of(len: u32) -> Self {
        Self { slices: Slices::of(len), drop_last: false, shuffle: true }
    }

    pub(super) fn check(&self, errors: &mut Vec<Error>) {
        self.slices.check(errors);
    }

    pub(super) fn open(&self, _: u64) -> Result<Box<dyn Draw>, Error> {
        let starts = self.slices.starts();
        let (options, epoch) = (self.clone(), Epoch::default());
        Ok(Box::new(Trajectories { options, starts, epoch, of: Vec::new(), ran_out: false }))
    }
}

#[derive(Serialize, Deserialize)]
struct Trajectories {
    options: SlicesWithoutReplacement,
    starts: Starts,
    epoch: Epoch,
    /// The trajectories of the epoch: record, and the id that it had.
    of: Vec<(u32, u64)>,
    ran_out: bool,
}

impl Trajectories {
    fn begin(&mut self, view: &View<'_>) -> Result<(), Error> {
        let window = view.window();
        let records = view.trajectories().iter().map(|record| (*record, view.trajectory(*record)));
        self.of.clear();
        self.of.extend(
            records.filter(|(_, own)| self.starts.count(own.len(window)) > 0).map(|(record, own)| (record, own.id.0)),
        );
        if !self.options.shuffle {
            self.of.sort_unstable_by_key(|(record, _)| view.trajectory(*record).frame(0, window));
        }
        self.epoch.begin(self.of.len(), self.options.shuffle);
        if self.of.is_empty() { Err(self.starts.none()) } else { Ok(()) }
    }

    /// Slices of up to `n` trajectories of the epoch that are there still.
    fn take(&mut self, view: &View<'_>, n: usize, draws: &mut Draws, picks: &mut Vec<Pick>) {
        let end = picks.len() + n;
        while picks.len() < end {
            let Some(i) = self.epoch.next(self.options.shuffle, draws) else { return };
            let (record, id) = self.of[i as usize];
            if view.trajectory(record).id.0 == id {
                picks.extend(self.starts.draw(view, record, draws));
            }
        }
    }
}

impl Draw for Trajectories {
    fn is_of(&self, sampling: &Sampling) -> bool {
        let Sampling::SlicesWithoutReplacement(options) = sampling else { return false };
        *options == self.options && options.slices.starts() == self.starts
    }

    fn check(&self, view: &View<'_>) -> Result<(), String> {
        let mut records: Vec<_> = self.of.iter().map(|(record, _)| *record).collect();
        records.sort_unstable();
        let twice = records.array_windows().any(|[a, b]| a == b);
        if twice || records.last().is_some_and(|last| !view.state.index.has(*last)) {
            return Err("its epoch has a trajectory that cannot be, or one twice".into());
        }
        self.epoch.check(self.of.len() as u64, self.options.shuffle)
    }

    fn draw(&mut self, view: &View<'_>, n: usize, draws: &mut Draws, picks: &mut Vec<Pick>) -> Result<(), Error> {
        view.frames()?;
        let drop_last = self.options.drop_last;
        if self.epoch.left() == 0 || (drop_last && self.epoch.left() < n) {
            self.begin(view)?;
        }
        self.take(view, n, draws, picks);
        // The rest of the epoch may have been overwritten.
        if picks.is_empty() || (drop_last && picks.len() < n) {
            picks.clear();
            self.begin(view)?;
            self.take(view, n, draws, picks);
        }
        if drop_last && picks.len() < n {
            picks.clear();
            let legal = format!("at most the {} trajectories that have slices", self.of.len());
            return Err(Error::config("batch_size", n, legal));
        }
        self.ran_out = self.epoch.left() < if drop_last { n.max(1) } else { 1 };
        Ok(())
    }

    fn layout(&self) -> Layout<'_> {
        self.options.slices.layout()
    }

    fn ran_out(&self) -> bool {
        self.ran_out
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.epoch.left() as u64)
    }
}
