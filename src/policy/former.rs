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

    /// By slot, [`NONE`] for rows of other policies: the version that the running episode began under; none if all rows
    /// act by the newest.
    fn versions(&self) -> Option<&[u64]>;

    /// Notes that episodes begin under version `newest` in these slots; gives back sets that no row acts by any more.
    fn note(&mut self, newest: u64, slots: &mut dyn Iterator<Item = Slot>) -> Vec<Set>;
}

/// What running episodes of a network's rows act by.
struct Former<T: Task> {
    /// By slot: the version that the running episode began under.
    versions: Vec<u64>,
    /// Those of running episodes but the newest, oldest first.
    sets: Vec<Set>,
    gathered: Gathered<T>,
}

/// No version of a policy's.
const NONE: u64 = u64::MAX;

/// Weights that were the newest once.
pub(super) struct Set {
    version: u64,
    weights: Arc<Weights>,
    packed: PackedWeights,
    normalizer: Option<Normalizer>,
}

impl<T: Task> Former<T> {
    /// Acts for those of `rows` whose episodes began under set number `number`; by the newest weights for all others.
    fn act_by(
        &mut self,
        number: usize,
        network: &mut NetworkActor<T>,
        rows: &mut Rows<'_, T>,
        (frames, pieces): (u64, usize),
        report: &TickReport<T>,
    ) -> Result<(), Error> {
        let Self { versions, sets, gathered } = self;
        let set_of = |slot: Slot, step: EpisodeStep| {
            let own = versions.get(slot.0 as usize).filter(|_| step.0 > 0);
            sets.iter().position(|set| own == Some(&set.version)).unwrap_or(sets.len())
        };
        gathered.gather(rows, |slot, step| set_of(slot, step) == number);
        let pieces = (pieces * gathered.at.len() / rows.slots.len()).max(1);
        match sets.get_mut(number) {
            Some(_) if gathered.at.is_empty() => return Ok(()),
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
        Ok(())
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
        let first = rows.rows.first().map_or(0, |row| row.0);
        for number in 0..=self.sets.len() {
            if let Err(error) = self.act_by(number, network, &mut rows, (frames, pieces), report) {
                return report.fail(first, error);
            }
        }
    }

    fn keep(&mut self, set: Set) {
        self.sets.push(set);
    }

    fn versions(&self) -> Option<&[u64]> {
        (!self.sets.is_empty()).then_some(&self.versions)
    }

    fn note(&mut self, newest: u64, slots: &mut dyn Iterator<Item = Slot>) -> Vec<Set> {
        for slot in slots {
            if let Some(version) = self.versions.get_mut(slot.0 as usize) {
                *version = newest;
            }
        }
        let Self { versions, sets, .. } = self;
        sets.extract_if(.., |set| !versions.contains(&set.version)).collect()
    }
}

impl<T: Task> NetworkActor<T> {
    /// Acts for `rows`, each by the weights that are its episode's; the policy acted for `frames` frames before this tick.
    pub(super) fn act(&mut self, rows: Rows<'_, T>, frames: u64, pieces: usize, report: &TickReport<T>) {
        match self.former.take_if(|former| former.versions().is_some()) {
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
            former.keep(Set { version, weights, packed, normalizer: self.normalizer.clone() });
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
    /// From the first call on an episode acts by one set of weights. Notes that the episodes of rows whose newest frame was
    /// their first one go on under version `newest`, and lets go of weights that no row acts by any more. Whether any row
    /// acts by others than the newest.
    pub(crate) fn note_episodes(&mut self, newest: u64, rows: impl Iterator<Item = (Slot, EpisodeStep)>) -> bool {
        let (own, slots) = (self.duty.rows.clone(), self.duty.slots);
        let ActorKind::Network(network) = &mut self.kind else { return false };
        let former = network.former.get_or_insert_with(|| {
            Box::new(Former { versions: vec![NONE; slots], sets: Vec::new(), gathered: Gathered::default() })
        });
        let mut begun = rows.filter(|(slot, step)| step.0 == 0 && own.contains(&slot.0)).map(|(slot, _)| slot);
        let unused = former.note(newest, &mut begun);
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
