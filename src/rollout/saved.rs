//! What a checkpoint holds of rollouts: where the coming one begins.

use serde::{Deserialize, Serialize};

use super::state::{Ended, Rollout};
use crate::{
    checkpoint::{BlockReader, BlockWriter},
    components::{Trajectory, Versions},
    error::Error,
    task::Task,
};

/// A [`Rollout`] between two.
pub(crate) struct SavedRollout<T: Task> {
    state: State,
    forced: Vec<(Ended<T::Observation>, Trajectory)>,
}

#[derive(Serialize, Deserialize)]
struct State {
    rollout: u64,
    first_versions: Vec<u64>,
    started: Vec<u32>,
    /// By policy: the version that acted in the newest tick.
    acted: Vec<u64>,
    /// Episodes that were cut, with the slots of their rows; their last observations follow.
    forced: Vec<(u32, Trajectory)>,
}

impl<T: Task> Rollout<T> {
    /// Writes what outlives a rollout of `policies` policies.
    pub(crate) fn save(&self, policies: usize, to: &mut BlockWriter<'_>) -> Result<(), Error> {
        to.part(&State {
            rollout: self.rollout,
            first_versions: self.first_versions.clone(),
            started: self.started.clone(),
            acted: (0..policies).map(|policy| self.plan.versions.get(policy)).collect(),
            forced: self.forced.iter().map(|(ended, trajectory)| (ended.slot, *trajectory)).collect(),
        })?;
        self.forced.iter().try_for_each(|(ended, _)| to.raw(bytemuck::bytes_of(&ended.last)))
    }

    /// Goes on where the saved one stood, with `serial` as the newest trajectory's; `versions` are those of the policies.
    pub(crate) fn restore(&mut self, saved: SavedRollout<T>, serial: u64, mut versions: Versions) {
        let State { rollout, first_versions, started, acted, .. } = saved.state;
        acted.into_iter().enumerate().for_each(|(policy, version)| versions.set(policy, version));
        self.plan.versions = versions;
        (self.rollout, self.serial) = (rollout, serial);
        (self.first_versions, self.started) = (first_versions, started);
        self.forced = saved.forced.into();
    }
}

impl<T: Task> SavedRollout<T> {
    /// Reads what was [saved](Rollout::save) of a rollout of `rows` rows. Errors: slots that there are not.
    pub(crate) fn load(from: &mut BlockReader<'_>, rows: usize) -> Result<Self, Error> {
        let state: State = from.part()?;
        let slots = state.started.iter().chain(state.forced.iter().map(|(slot, _)| slot));
        if let Some(slot) = slots.into_iter().find(|slot| **slot as usize >= rows) {
            return Err(Error::Checkpoint(format!("rollout: an episode of slot {slot}; legal: below {rows}")));
        }
        if state.rollout >> 62 != 0 {
            return Err(Error::Checkpoint(format!("rollout: its number is {}", state.rollout)));
        }
        if state.first_versions.len() != rows {
            let found = state.first_versions.len();
            return Err(Error::Checkpoint(format!("rollout: first versions of {found} rows; legal: {rows}")));
        }
        let (mut forced, mut bytes) = (Vec::new(), Vec::new());
        for (slot, trajectory) in &state.forced {
            from.raw(size_of::<T::Observation>() as u64, &mut bytes)?;
            forced.push((Ended { slot: *slot, last: bytemuck::pod_read_unaligned(&bytes) }, *trajectory));
        }
        Ok(Self { state, forced })
    }

    /// By slot: the version of the first action of the running episode.
    pub(crate) fn first_versions(&self) -> &[u64] {
        &self.state.first_versions
    }

    /// Whether episodes were cut that the next rollout lists.
    pub(crate) fn lists_cut(&self) -> bool {
        !self.forced.is_empty()
    }
}
