//! Weights of before, by which episodes go on that began under them: where an episode acts by one set to its end.

use std::sync::{Arc, PoisonError};

use super::{
    actor::{Actor, ActorKind, NetworkActor},
    infer::Rows,
    normalize::Normalizer,
    packing::PackedWeights,
};
use crate::{
    components::{ActionKey, Episode, EpisodeStep, LogProb, RowIndex, Slot, TickReport, Value, Weights},
    error::Error,
    task::Task,
};

/// What running episodes of a network's rows act by.
pub(super) struct Former<T: Task> {
    /// By slot: the version that the running episode began under; [`NONE`] for rows of other policies.
    versions: Vec<u64>,
    /// Those of running episodes but the newest, oldest first.
    sets: Vec<Set>,
    gathered: Gathered<T>,
}

/// No version of a policy's.
const NONE: u64 = u64::MAX;

/// Weights that were the newest once.
struct Set {
    version: u64,
    weights: Arc<Weights>,
    packed: PackedWeights,
    normalizer: Option<Normalizer>,
}

impl<T: Task> Former<T> {
    pub(super) fn new(slots: usize) -> Self {
        Self { versions: vec![NONE; slots], sets: Vec::new(), gathered: Gathered::default() }
    }

    /// Acts for `rows`, those of each set together.
    fn act(
        &mut self,
        network: &mut NetworkActor<T>,
        rows: &mut Rows<'_, T>,
        frames: u64,
        pieces: usize,
        report: &TickReport<T>,
    ) -> Result<(), Error> {
        let Self { versions, sets, gathered } = self;
        let all = rows.slots.len();
        let set_of = |versions: &[u64], sets: &[Set], slot: Slot, step: EpisodeStep| {
            let own = versions.get(slot.0 as usize).filter(|_| step.0 > 0);
            sets.iter().position(|set| own == Some(&set.version)).unwrap_or(sets.len())
        };
        for number in 0..=sets.len() {
            gathered.gather(rows, |slot, step| set_of(versions, sets, slot, step) == number);
            let pieces = (pieces * gathered.at.len() / all).max(1);
            match sets.get_mut(number) {
                Some(_) if gathered.at.is_empty() => continue,
                Some(set) => {
                    network.turn_to(&set.packed, &set.weights)?;
                    std::mem::swap(&mut network.normalizer, &mut set.normalizer);
                    network.act_by_newest(gathered.rows(), frames, pieces, report);
                    std::mem::swap(&mut network.normalizer, &mut set.normalizer);
                }
                None => {
                    network.turn_to(&network.packed.clone(), &network.evaluator.weights())?;
                    if !gathered.at.is_empty() {
                        network.act_by_newest(gathered.rows(), frames, pieces, report);
                    }
                }
            }
            gathered.scatter(rows);
        }
        Ok(())
    }
}

impl<T: Task> NetworkActor<T> {
    /// Acts for `rows`, each by the weights that are its episode's; the policy acted for `frames` frames before this tick.
    pub(super) fn act(&mut self, mut rows: Rows<'_, T>, frames: u64, pieces: usize, report: &TickReport<T>) {
        let Some(mut former) = self.former.take_if(|former| !former.sets.is_empty()) else {
            return self.act_by_newest(rows, frames, pieces, report);
        };
        let first = rows.rows.first().map_or(0, |row| row.0);
        if let Err(error) = former.act(self, &mut rows, frames, pieces, report) {
            report.fail(first, error);
        }
        self.former = Some(former);
    }

    /// Keeps what acts now, as version `version`, for the episodes that run.
    pub(super) fn keep_for_episodes(&mut self, version: u64) {
        let (weights, packed) = (self.evaluator.weights(), self.packed.clone());
        if let Some(former) = &mut self.former {
            former.sets.push(Set { version, weights, packed, normalizer: self.normalizer.clone() });
        }
    }

    /// The coming forwards are by these weights. A device forgets what it acted by before, so it is sent there again.
    fn turn_to(&mut self, packed: &PackedWeights, weights: &Weights) -> Result<(), Error> {
        let packed = if self.backend == "cpu" { packed.clone() } else { self.packing.pack(weights)? };
        for lane in &mut self.networks {
            lane.get_mut().unwrap_or_else(PoisonError::into_inner).network.adopt(&packed)?;
        }
        Ok(())
    }
}

impl<T: Task> Actor<T> {
    /// Notes that the episodes of rows whose newest frame was their first one go on under version `newest`, and lets go of
    /// weights that no row acts by any more. Whether any row acts by others than the newest.
    pub(crate) fn note_episodes(&mut self, newest: u64, rows: impl Iterator<Item = (Slot, EpisodeStep)>) -> bool {
        let own = self.duty.rows.clone();
        let ActorKind::Network(network) = &mut self.kind else { return false };
        let Some(former) = &mut network.former else { return false };
        for (slot, _) in rows.filter(|(slot, step)| step.0 == 0 && own.contains(&slot.0)) {
            if let Some(version) = former.versions.get_mut(slot.0 as usize) {
                *version = newest;
            }
        }
        let Former { versions, sets, .. } = &mut **former;
        for set in sets.extract_if(.., |set| !versions.contains(&set.version)) {
            network.packing.retire([set.packed, set.weights]);
        }
        !sets.is_empty()
    }

    /// By slot: the version that its episode acts by; none if that is the newest one everywhere.
    pub(crate) fn episode_versions(&self) -> Option<impl Iterator<Item = (usize, u64)>> {
        let ActorKind::Network(network) = &self.kind else { return None };
        let former = network.former.as_ref().filter(|former| !former.sets.is_empty())?;
        Some(former.versions.iter().copied().enumerate().filter(|(_, version)| *version != NONE))
    }
}

/// Columns of rows that lie apart, side by side.
struct Gathered<T: Task> {
    /// Where they lie.
    at: Vec<usize>,
    observations: Vec<T::Observation>,
    masks: Vec<T::Mask>,
    keys: Vec<ActionKey>,
    episodes: Vec<Episode>,
    steps: Vec<EpisodeStep>,
    rows: Vec<RowIndex>,
    slots: Vec<Slot>,
    actions: Vec<T::Action>,
    log_probs: Vec<LogProb>,
    values: Vec<Value>,
}

impl<T: Task> Default for Gathered<T> {
    fn default() -> Self {
        Self {
            at: Vec::new(),
            observations: Vec::new(),
            masks: Vec::new(),
            keys: Vec::new(),
            episodes: Vec::new(),
            steps: Vec::new(),
            rows: Vec::new(),
            slots: Vec::new(),
            actions: Vec::new(),
            log_probs: Vec::new(),
            values: Vec::new(),
        }
    }
}

impl<T: Task> Gathered<T> {
    /// Takes the rows for which `which` holds.
    fn gather(&mut self, from: &Rows<'_, T>, which: impl Fn(Slot, EpisodeStep) -> bool) {
        self.at.clear();
        self.at.extend((0..from.slots.len()).filter(|i| which(from.slots[*i], from.steps[*i])));
        macro_rules! columns {
            ($($column:ident),*) => {$(
                self.$column.clear();
                self.$column.extend(self.at.iter().map(|i| from.$column[*i]));
            )*};
        }
        columns!(observations, masks, keys, episodes, steps, rows, slots, actions, log_probs, values);
    }

    fn rows(&mut self) -> Rows<'_, T> {
        Rows {
            observations: &self.observations,
            masks: &self.masks,
            keys: &self.keys,
            episodes: &self.episodes,
            steps: &self.steps,
            rows: &self.rows,
            slots: &self.slots,
            actions: &mut self.actions,
            log_probs: &mut self.log_probs,
            values: &mut self.values,
        }
    }

    /// Brings back what the policy said.
    fn scatter(&self, to: &mut Rows<'_, T>) {
        for (n, i) in self.at.iter().enumerate() {
            to.actions[*i] = self.actions[n];
            to.log_probs[*i] = self.log_probs[n];
            to.values[*i] = self.values[n];
        }
    }
}
