//! Weights of before, by which episodes go on that began under them: where an episode acts by one set to its end.

use std::sync::{Arc, PoisonError};

use super::{
    actor::{Actor, ActorKind, NetworkActor},
    normalize::Normalizer,
    packing::PackedWeights,
    rows::{OwnRows, Rows},
};
use crate::{
    components::{EpisodeStep, Slot, TickReport, Weights},
    error::Error,
    task::Task,
};

/// How a network acts for rows, each by the weights of its episode: an object, so that tasks whose episodes need not act by
/// one set are not compiled for it.
pub(super) trait ByEpisode<T: Task>: Send + Sync {
    /// Acts for `rows`, those of each set together.
    fn act(
        &mut self,
        network: &mut NetworkActor<T>,
        rows: Rows<'_, T>,
        frames: u64,
        pieces: usize,
        report: &TickReport<T>,
    );

    /// Takes what acted until now.
    fn keep(&mut self, set: Set);

    /// What running episodes act by but the newest weights, oldest first.
    fn sets(&self) -> &[Set];

    /// By slot, [`NONE`] for rows of other policies: the version that the running episode began under; none if all rows
    /// act by the newest.
    fn versions(&self) -> Option<&[u64]>;

    /// Whether the networks are to be turned before they act.
    fn is_needed(&self) -> bool;

    /// By slot, the versions in the tick before, and room for those of this one: [`NONE`] everywhere.
    fn renew(&mut self) -> (&[u64], &mut [u64]);

    /// Gives back sets that no row acts by any more.
    fn take_unused(&mut self) -> Vec<Set>;
}

/// What running episodes of a network's rows act by.
struct Former<T: Task> {
    /// By slot: the version that the running episode began under.
    versions: Vec<u64>,
    /// Those of the tick before. Scratch.
    before: Vec<u64>,
    /// Those of running episodes but the newest, oldest first.
    sets: Vec<Set>,
    /// Whether the networks may act by others than the newest weights, even if no row does any more.
    away: bool,
    /// Number of the set and place in the run, of each row, in this order. Scratch.
    order: Vec<(u32, u32)>,
    gathered: OwnRows<T>,
}

/// No version of a policy's.
const NONE: u64 = u64::MAX;

/// Weights that were the newest once.
pub(super) struct Set {
    pub version: u64,
    pub weights: Arc<Weights>,
    pub packed: PackedWeights,
    pub normalizer: Option<Normalizer>,
    /// Whether a row acts by it.
    pub used: bool,
}

/// The number of the set of a version.
fn number(sets: &[Set], version: u64) -> Option<usize> {
    sets.binary_search_by_key(&version, |set| set.version).ok()
}

impl<T: Task> Former<T> {
    fn new(slots: usize) -> Self {
        Self {
            versions: vec![NONE; slots],
            before: Vec::new(),
            sets: Vec::new(),
            away: false,
            order: Vec::new(),
            gathered: OwnRows::default(),
        }
    }

    /// Orders rows by the sets that they act by; those that act by the newest weights come last.
    fn sort(&mut self, slots: &[Slot], steps: &[EpisodeStep]) {
        let Self { versions, sets, order, .. } = self;
        let set_of = |slot: &Slot, step: &EpisodeStep| {
            let own = versions.get(slot.0 as usize).filter(|_| step.0 > 0);
            own.and_then(|version| number(sets, *version)).unwrap_or(sets.len()) as u32
        };
        order.clear();
        order.extend((0..).zip(slots.iter().zip(steps)).map(|(at, (slot, step))| (set_of(slot, step), at)));
        order.sort_unstable();
    }
}

impl<T: Task> ByEpisode<T> for Former<T> {
    fn act(
        &mut self,
        network: &mut NetworkActor<T>,
        mut rows: Rows<'_, T>,
        frames: u64,
        pieces: usize,
        report: &TickReport<T>,
    ) {
        self.sort(rows.slots, rows.steps);
        let Self { sets, away, order, gathered, .. } = self;
        gather(&rows, order, gathered);
        let mut rest = gathered.lend();
        for run in order.chunk_by(|a, b| a.0 == b.0) {
            let (own, behind) = rest.split_at(run.len());
            let (first, set) = (own.rows[0].0, sets.get_mut(run[0].0 as usize));
            let pieces = (pieces * run.len() / order.len()).max(1);
            *away = set.is_some();
            if let Err(error) = network.act_by(set, own, frames, pieces, report) {
                *away = true;
                return report.fail(first, error);
            }
            rest = behind;
        }
        for (own, (_, at)) in order.iter().enumerate() {
            gathered.give(own, &mut rows, *at as usize);
        }
    }

    fn keep(&mut self, set: Set) {
        self.sets.push(set);
    }

    fn sets(&self) -> &[Set] {
        &self.sets
    }

    fn versions(&self) -> Option<&[u64]> {
        (!self.sets.is_empty()).then_some(&self.versions)
    }

    fn is_needed(&self) -> bool {
        self.away || !self.sets.is_empty()
    }

    fn renew(&mut self) -> (&[u64], &mut [u64]) {
        self.before.clone_from(&self.versions);
        self.versions.fill(NONE);
        (&self.before, &mut self.versions)
    }

    fn take_unused(&mut self) -> Vec<Set> {
        let Self { versions, sets, .. } = self;
        sets.iter_mut().for_each(|set| set.used = false);
        for version in versions {
            if let Some(number) = number(sets, *version) {
                sets[number].used = true;
            }
        }
        sets.extract_if(.., |set| !set.used).collect()
    }
}

impl<T: Task> NetworkActor<T> {
    /// Acts for `rows`, each by the weights that are its episode's; the policy acted for `frames` frames before this tick.
    pub(super) fn act(&mut self, rows: Rows<'_, T>, frames: u64, pieces: usize, report: &TickReport<T>) {
        match self.former.take_if(|former| former.is_needed()) {
            Some(mut former) => {
                former.act(self, rows, frames, pieces, report);
                self.former = Some(former);
            }
            None => self.act_by_newest(rows, frames, pieces, report),
        }
    }

    /// Keeps what acts now, as version `version`, for the episodes that run, if they go on by it.
    pub(super) fn keep_for_episodes(&mut self, version: u64) {
        let (weights, packed) = (self.evaluator.weights(), self.packed.clone());
        if let Some(former) = &mut self.former {
            former.keep(Set { version, weights, packed, normalizer: self.normalizer.clone(), used: true });
        }
    }

    /// Acts for `rows` by `set`, or by the newest weights.
    fn act_by(
        &mut self,
        set: Option<&mut Set>,
        rows: Rows<'_, T>,
        frames: u64,
        pieces: usize,
        report: &TickReport<T>,
    ) -> Result<(), Error> {
        let Some(set) = set else {
            self.turn_to(&self.packed.clone(), &self.evaluator.weights())?;
            self.act_by_newest(rows, frames, pieces, report);
            return Ok(());
        };
        self.turn_to(&set.packed, &set.weights)?;
        std::mem::swap(&mut self.normalizer, &mut set.normalizer);
        self.act_by_newest(rows, frames, pieces, report);
        std::mem::swap(&mut self.normalizer, &mut set.normalizer);
        Ok(())
    }

    /// The coming forwards are by these weights.
    fn turn_to(&mut self, packed: &PackedWeights, weights: &Weights) -> Result<(), Error> {
        let packed = self.packing.again(packed, weights)?;
        for lane in &mut self.networks {
            lane.get_mut().unwrap_or_else(PoisonError::into_inner).network.adopt(&packed)?;
        }
        Ok(())
    }
}

impl<T: Task> Actor<T> {
    /// From the first call on an episode acts by one set of weights. Takes all rows: notes that the episodes of those whose
    /// newest frame was their first one go on under version `newest`, and lets go of weights that no row acts by any more.
    /// Whether any row acts by others than the newest.
    pub(crate) fn note_episodes(&mut self, newest: u64, rows: impl Iterator<Item = (Slot, EpisodeStep)>) -> bool {
        let (own, slots) = (self.duty.rows.clone(), self.duty.slots);
        let ActorKind::Network(network) = &mut self.kind else { return false };
        let former = network.former.get_or_insert_with(|| Box::new(Former::new(slots)));
        // A row that is not there any more acts by no weights.
        let (before, versions) = former.renew();
        for (slot, step) in rows.filter(|(slot, _)| own.contains(&slot.0)) {
            let slot = slot.0 as usize;
            if let Some(version) = versions.get_mut(slot) {
                *version = if step.0 == 0 { newest } else { before[slot] };
            }
        }
        let unused = former.take_unused();
        let apart = former.versions().is_some();
        unused.into_iter().for_each(|set| network.packing.retire([set.packed, set.weights]));
        apart
    }

    /// By slot: the version that its episode acts by; none if that is the newest one everywhere.
    pub(crate) fn episode_versions(&self) -> Option<impl Iterator<Item = (usize, u64)>> {
        let ActorKind::Network(network) = &self.kind else { return None };
        let versions = network.former.as_ref()?.versions()?.iter().copied();
        Some(versions.enumerate().filter(|(_, version)| *version != NONE))
    }
}

/// Copies all rows, in `order`: those that act by the same weights lie side by side then.
fn gather<T: Task>(from: &Rows<'_, T>, order: &[(u32, u32)], to: &mut OwnRows<T>) {
    macro_rules! columns {
        ($($column:ident),*) => {$(
            to.$column.clear();
            to.$column.extend(order.iter().map(|(_, at)| from.$column[*at as usize]));
        )*};
    }
    columns!(observations, masks, keys, episodes, steps, rows, slots);
}

#[cfg(test)]
#[path = "former_tests.rs"]
mod tests;
