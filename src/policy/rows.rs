//! The columns that a policy acts on: of rows that lie side by side, and copies of rows that do not.

use bytemuck::Zeroable;

use crate::{
    components::{ActionKey, Episode, EpisodeStep, LogProb, RowIndex, Slot, Value},
    seed::Streams,
    task::Task,
};

/// Slices of equal length over the columns of a run of rows.
pub(super) struct Rows<'a, T: Task> {
    pub observations: &'a [T::Observation],
    pub masks: &'a [T::Mask],
    pub keys: &'a [ActionKey],
    pub episodes: &'a [Episode],
    pub steps: &'a [EpisodeStep],
    pub rows: &'a [RowIndex],
    pub slots: &'a [Slot],
    pub actions: &'a mut [T::Action],
    pub log_probs: &'a mut [LogProb],
    pub values: &'a mut [Value],
}

impl<'a, T: Task> Rows<'a, T> {
    pub(super) fn split_at(self, mid: usize) -> (Rows<'a, T>, Rows<'a, T>) {
        macro_rules! halves {
            (mut: $($m:ident),*; ref: $($r:ident),*) => {{
                $( let $m = self.$m.split_at_mut(mid); )*
                $( let $r = self.$r.split_at(mid); )*
                (Rows { $($m: $m.0,)* $($r: $r.0,)* }, Rows { $($m: $m.1,)* $($r: $r.1,)* })
            }};
        }
        halves!(mut: actions, log_probs, values; ref: observations, masks, keys, episodes, steps, rows, slots)
    }

    pub(super) fn streams(&self) -> Streams<'a> {
        Streams::new(self.keys, self.episodes, self.steps)
    }
}

/// Columns that a policy holds itself.
pub(super) struct OwnRows<T: Task> {
    pub observations: Vec<T::Observation>,
    pub masks: Vec<T::Mask>,
    pub keys: Vec<ActionKey>,
    pub episodes: Vec<Episode>,
    pub steps: Vec<EpisodeStep>,
    pub rows: Vec<RowIndex>,
    pub slots: Vec<Slot>,
    pub actions: Vec<T::Action>,
    pub log_probs: Vec<LogProb>,
    pub values: Vec<Value>,
}

impl<T: Task> Default for OwnRows<T> {
    fn default() -> Self {
        Self {
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

impl<T: Task> OwnRows<T> {
    /// Takes no rows, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.observations.clear();
        self.masks.clear();
        self.keys.clear();
        self.episodes.clear();
        self.steps.clear();
        self.rows.clear();
        self.slots.clear();
    }

    /// The rows, with room for what is said of them.
    pub(super) fn lend(&mut self) -> Rows<'_, T> {
        let n = self.slots.len();
        self.actions.resize(n, T::Action::zeroed());
        self.log_probs.resize(n, LogProb(0.0));
        self.values.resize(n, Value(0.0));
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

    /// Gives `to`'s row `at` what was said of row `own`.
    pub(super) fn give(&self, own: usize, to: &mut Rows<'_, T>, at: usize) {
        to.actions[at] = self.actions[own];
        to.log_probs[at] = self.log_probs[own];
        to.values[at] = self.values[own];
    }
}
