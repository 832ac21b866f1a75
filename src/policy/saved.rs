//! What a checkpoint holds of a policy: what it acts by and what its rows remember.

use std::{ops::Range, sync::Arc, sync::PoisonError};

use serde::{Deserialize, Serialize};

use super::{
    actor::{Actor, ActorKind, NetworkActor},
    former,
    normalize::{Normalizer, RunningNorm},
    packing::PackedWeights,
    states::Identity,
};
use crate::{
    checkpoint::{BlockReader, BlockWriter},
    components::{WeightTensor, Weights},
    error::Error,
    task::Task,
};

/// A policy as it stands in a file.
pub(crate) struct SavedActor {
    /// Frames that it acted for.
    pub frames: u64,
    /// None if it is no network.
    pub network: Option<SavedNetwork>,
}

/// A network as it stands in a file.
pub(crate) struct SavedNetwork {
    /// The weights that it acts by, and their version.
    pub acts: (u64, Arc<Weights>),
    /// Those that were published since, if there are any.
    pub newer: Option<(u64, Arc<Weights>)>,
    /// Statistics of the observations, and what they amounted to when the weights were adopted.
    pub norm: Option<(RunningNorm, Normalizer)>,
}

/// Weights of before, by which episodes go on that began under them.
pub(crate) struct SavedFormer {
    version: u64,
    weights: Arc<Weights>,
    normalizer: Option<Normalizer>,
}

/// What the rows of a policy remember.
#[derive(Serialize, Deserialize)]
pub(crate) struct SavedStates {
    /// `[rows, width]`.
    words: Vec<f32>,
    /// By row: whether the state is that of its episode.
    own: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Head {
    frames: u64,
    /// None if it is no network.
    acts: Option<Set>,
    newer: Option<Set>,
    norm: Option<(RunningNorm, Normalizer)>,
}

/// A set of weights, whose tensors follow.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Set {
    version: u64,
    tensors: u32,
}

impl Set {
    fn of((version, weights): &(u64, Arc<Weights>)) -> Self {
        Self { version: *version, tensors: weights.0.len() as u32 }
    }

    fn save(weights: &Weights, to: &mut BlockWriter<'_>) -> Result<(), Error> {
        weights.0.iter().try_for_each(|(name, tensor)| {
            to.part(&(name, &tensor.shape, tensor.data.len() as u64))?;
            to.raw(bytemuck::cast_slice(&tensor.data))
        })
    }

    fn load(self, from: &mut BlockReader<'_>) -> Result<(u64, Arc<Weights>), Error> {
        let (mut weights, mut bytes) = (Weights::new(), Vec::new());
        for _ in 0..self.tensors {
            let (name, shape, elements): (String, Vec<usize>, u64) = from.part()?;
            from.raw(elements.saturating_mul(4), &mut bytes)?;
            let data = bytemuck::pod_collect_to_vec(&bytes);
            weights.0.insert(name, WeightTensor { shape, data });
        }
        Ok((self.version, Arc::new(weights)))
    }
}

impl<T: Task> Actor<T> {
    /// Writes what the policy acts by: weights of version `version`, and `latest`, the newest published ones, if it is a
    /// network.
    pub(crate) fn save(
        &self,
        version: u64,
        latest: Option<(u64, Arc<Weights>)>,
        to: &mut BlockWriter<'_>,
    ) -> Result<(), Error> {
        let (mut acts, mut norm) = (None, None);
        if let ActorKind::Network(network) = &self.kind {
            acts = Some((version, network.evaluator.weights()));
            norm = network.running.clone().zip(network.normalizer.clone());
        }
        let newer = latest.filter(|(latest, _)| acts.is_some() && *latest != version);
        to.part(&Head {
            frames: self.frames,
            acts: acts.as_ref().map(Set::of),
            newer: newer.as_ref().map(Set::of),
            norm,
        })?;
        acts.iter().chain(&newer).try_for_each(|(_, weights)| Set::save(weights, to))
    }

    /// Writes what running episodes act by but the newest weights, where each acts by one set.
    pub(crate) fn save_former(&self, to: &mut BlockWriter<'_>) -> Result<(), Error> {
        let ActorKind::Network(network) = &self.kind else { return Ok(()) };
        let sets = network.former.as_ref().map_or(&[][..], |former| former.sets());
        let head = |set: &former::Set| (Set::of(&(set.version, set.weights.clone())), set.normalizer.clone());
        to.part(&sets.iter().map(head).collect::<Vec<_>>())?;
        sets.iter().try_for_each(|set| Set::save(&set.weights, to))
    }

    /// Reads what was [saved](Self::save_former), of before version `newest`. Errors: weights of another network.
    pub(crate) fn load_former(&self, newest: u64, from: &mut BlockReader<'_>) -> Result<Vec<SavedFormer>, Error> {
        let ActorKind::Network(network) = &self.kind else { return Ok(Vec::new()) };
        let (heads, tensors): (Vec<(Set, Option<Normalizer>)>, _) = (from.part()?, network.plan.tensors());
        let (mut sets, mut before) = (Vec::new(), None);
        for (set, normalizer) in heads {
            let (version, weights) = set.load(from)?;
            weights.check(&tensors)?;
            normalizer.iter().try_for_each(|normalizer| normalizer.check(network.plan.inputs))?;
            if version >= newest || before >= Some(version) || normalizer.is_some() != network.normalizer.is_some() {
                let problem = format!("weights of version {version} that episodes go on by, behind {before:?}");
                return Err(Error::Checkpoint(format!("policy {}: {problem}; {newest} acts", self.number())));
            }
            before = Some(version);
            sets.push(SavedFormer { version, weights, normalizer });
        }
        Ok(sets)
    }

    /// Lets episodes go on by what was saved; `running` are the slots and versions of those that run. Errors: a device
    /// that is lost.
    pub(crate) fn restore_former(
        &mut self,
        saved: Vec<SavedFormer>,
        running: impl Iterator<Item = (u32, u64)>,
    ) -> Result<(), Error> {
        let own = self.duty.rows.clone();
        let ActorKind::Network(network) = &mut self.kind else { return Ok(()) };
        let Some(former) = &mut network.former else { return Ok(()) };
        let (_, versions) = former.renew();
        for (slot, version) in running.filter(|(slot, _)| own.contains(slot)) {
            versions[slot as usize] = version;
        }
        for SavedFormer { version, weights, normalizer } in saved {
            let packed = network.packing.pack(&weights)?;
            former.keep(former::Set { version, weights, packed, normalizer, used: true });
        }
        Ok(())
    }

    /// The numbers that a row remembers.
    pub(crate) fn state_width(&self) -> usize {
        self.plan().map_or(0, super::plan::Plan::state)
    }

    /// Writes what the policy's rows remember. Errors: a device that is lost.
    pub(crate) fn save_states<'a>(
        &self,
        rows: impl Iterator<Item = Identity<'a>>,
        to: &mut BlockWriter<'_>,
    ) -> Result<(), Error> {
        let ActorKind::Network(network) = &self.kind else { return Ok(()) };
        if network.states.width() == 0 {
            return Ok(());
        }
        if let Some(lane) = network.networks.first() {
            lane.lock().unwrap_or_else(PoisonError::into_inner).network.pull_states(&network.states)?;
        }
        let (words, own) = network.states.save(own_rows(&self.duty.rows, rows));
        to.part(&SavedStates { words, own })
    }

    /// Reads what was [saved](Self::save_states); none for a policy without memory. Errors: not as much as its rows have.
    pub(crate) fn load_states(&self, from: &mut BlockReader<'_>) -> Result<Option<SavedStates>, Error> {
        let (width, rows) = (self.state_width(), self.count());
        if width == 0 {
            return Ok(None);
        }
        let saved: SavedStates = from.part()?;
        if saved.own.len() != rows || saved.words.len() != rows * width {
            let (words, found) = (saved.words.len(), saved.own.len());
            let problem = format!("{words} numbers of {found} rows; legal: {width} a row of {rows}");
            return Err(Error::Checkpoint(format!("memory of policy {}: {problem}", self.number())));
        }
        Ok(Some(saved))
    }

    /// Lets the rows remember what was saved. Errors: a device that is lost.
    pub(crate) fn restore_states<'a>(
        &mut self,
        saved: &SavedStates,
        rows: impl Iterator<Item = Identity<'a>>,
    ) -> Result<(), Error> {
        let ActorKind::Network(network) = &mut self.kind else { return Ok(()) };
        let NetworkActor { states, networks, .. } = &mut **network;
        states.restore(own_rows(&self.duty.rows, rows), &saved.words, &saved.own);
        match networks.first_mut() {
            Some(lane) => lane.get_mut().unwrap_or_else(PoisonError::into_inner).network.push_states(states),
            None => Ok(()),
        }
    }

    /// Checks a network from a file and packs its weights. Errors: tensors and statistics of another network.
    pub(crate) fn prepare(&self, saved: &SavedNetwork) -> Result<PackedWeights, Error> {
        let ActorKind::Network(network) = &self.kind else {
            return Err(Error::Checkpoint(format!("policy {} is no network", self.number())));
        };
        let tensors = network.plan.tensors();
        saved.newer.iter().chain([&saved.acts]).try_for_each(|(_, weights)| weights.check(&tensors))?;
        if let Some((running, adopted)) = &saved.norm {
            running.check(network.plan.inputs)?;
            adopted.check(network.plan.inputs)?;
        }
        network.packing.pack(&saved.acts.1)
    }

    /// Acts by a network from a file, which is [prepared](Self::prepare); keeps its own statistics of observations if
    /// the file has none.
    pub(crate) fn restore(&mut self, saved: &SavedNetwork, packed: PackedWeights) -> Result<(), Error> {
        let ActorKind::Network(network) = &mut self.kind else { return Ok(()) };
        network.adopt(saved.acts.1.clone(), packed)?;
        if let (Some(own), Some((running, adopted))) = (&mut network.running, &saved.norm) {
            // Whether they go on growing is the builder's to say.
            *own = RunningNorm { frozen: own.frozen, ..running.clone() };
            network.normalizer = Some(adopted.clone());
            network.evaluator.set(saved.acts.1.clone(), network.normalizer.clone());
        }
        Ok(())
    }
}

fn own_rows<'a>(own: &Range<u32>, rows: impl Iterator<Item = Identity<'a>>) -> impl Iterator<Item = Identity<'a>> {
    rows.filter(|(slot, ..)| own.contains(&slot.0))
}

impl SavedFormer {
    pub(crate) fn version(&self) -> u64 {
        self.version
    }
}

impl SavedActor {
    /// Reads what was [saved](Actor::save).
    pub(crate) fn load(from: &mut BlockReader<'_>) -> Result<Self, Error> {
        let Head { frames, acts, newer, norm } = from.part()?;
        let versions = acts.iter().chain(&newer).fold(0, |most, set| set.version | most);
        if (frames | versions) >> 62 != 0 {
            return Err(Error::Checkpoint(format!(
                "policy: it acted for {frames} frames, by versions up to {versions}"
            )));
        }
        let acts = acts.map(|set| set.load(from)).transpose()?;
        let newer = newer.map(|set| set.load(from)).transpose()?;
        Ok(Self { frames, network: acts.map(|acts| SavedNetwork { acts, newer, norm }) })
    }
}
