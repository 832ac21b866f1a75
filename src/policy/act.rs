//! A network acts for a run of rows, in parts on several threads.

use std::sync::{Mutex, PoisonError};

use super::{
    actor::{Lane, NetworkActor},
    evaluate::encode,
    normalize::Normalizer,
    plan::{Exploration, Forward, Memory, Outcome, States},
    rows::Rows,
};
use crate::{
    components::{Masks, Threads, TickReport},
    error::Error,
    task::Task,
};

impl<T: Task> NetworkActor<T> {
    /// Acts for `rows` by the newest weights; the policy acted for `frames` frames before this tick.
    pub(super) fn act_by_newest(&mut self, rows: Rows<'_, T>, frames: u64, pieces: usize, report: &TickReport<T>) {
        let width = self.plan.head.params();
        let n = rows.slots.len();
        if self.params.len() < n * width {
            self.params.resize(n * width, 0.0);
        }
        let slots = rows.slots;
        self.places.clear();
        self.fresh.clear();
        if self.states.width() > 0 {
            let identities = slots.iter().zip(rows.keys).zip(rows.episodes).map(|((a, b), c)| (a, b, c));
            self.states.claim(identities.zip(rows.steps), &mut self.places, &mut self.fresh);
        }
        self.entropies.resize(if self.recorded.is_some() { n } else { 0 }, 0.0);
        let pieces = if self.networks.len() > 1 { pieces } else { 1 };
        let shared = Shared {
            networks: &self.networks,
            inputs: self.plan.inputs,
            width,
            raw: self.raw && self.normalizer.is_none(),
            normalizer: self.normalizer.as_ref(),
            exploration: self.exploration,
            frames,
            states: &self.states,
        };
        let (params, entropies) = (&mut self.params[..n * width], &mut self.entropies[..]);
        let scratch = Part { params, entropies, places: &self.places, fresh: &self.fresh };
        shared.spread(pieces, scratch, rows, report);
        if let Some(recorded) = &mut self.recorded {
            let outputs = self.params.chunks_exact(width).zip(&self.entropies);
            for ((params, entropy), slot) in outputs.zip(slots) {
                recorded.put(slot.0 as usize, params, *entropy);
            }
        }
    }
}

/// Scratch memory of a part of the rows.
struct Part<'a> {
    params: &'a mut [f32],
    /// Empty if they are not recorded.
    entropies: &'a mut [f32],
    /// Places of the rows' states, and whether their episodes begin; empty for a network without memory.
    places: &'a [u32],
    fresh: &'a [u8],
}

impl<'a> Part<'a> {
    fn split_at(self, mid: usize, width: usize) -> (Part<'a>, Part<'a>) {
        let (params, right_params) = self.params.split_at_mut(mid * width);
        let (entropies, right_entropies) = self.entropies.split_at_mut(mid.min(self.entropies.len()));
        let (places, right_places) = self.places.split_at(mid.min(self.places.len()));
        let (fresh, right_fresh) = self.fresh.split_at(mid.min(self.fresh.len()));
        (
            Part { params, entropies, places, fresh },
            Part { params: right_params, entropies: right_entropies, places: right_places, fresh: right_fresh },
        )
    }
}

/// What all parts of a network's rows share.
struct Shared<'a> {
    networks: &'a [Mutex<Lane>],
    inputs: usize,
    width: usize,
    /// Observations are the input as they lie.
    raw: bool,
    normalizer: Option<&'a Normalizer>,
    exploration: Exploration,
    frames: u64,
    states: &'a States,
}

impl Shared<'_> {
    fn spread<T: Task>(&self, pieces: usize, part: Part<'_>, rows: Rows<'_, T>, report: &TickReport<T>) {
        if pieces > 1 {
            let half = pieces / 2;
            let mid = rows.slots.len() * half / pieces;
            let (left, right) = rows.split_at(mid);
            let (left_part, right_part) = part.split_at(mid, self.width);
            Threads::join(
                || self.spread(half, left_part, left, report),
                || self.spread(pieces - half, right_part, right, report),
            );
            return;
        }
        let thread = rayon::current_thread_index().unwrap_or(0);
        let Some(lane) = self.networks.get(thread).or(self.networks.first()) else { return };
        let row = rows.rows.first().map_or(0, |row| row.0);
        let mut lane = lane.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.forward(&mut lane, part, rows) {
            report.fail(row, error);
        }
    }

    fn forward<T: Task>(&self, lane: &mut Lane, part: Part<'_>, rows: Rows<'_, T>) -> Result<(), Error> {
        let Lane { network, inputs } = lane;
        let Part { params, entropies, places, fresh } = part;
        let encoded: &[f32] = if self.raw {
            bytemuck::cast_slice(rows.observations)
        } else {
            let len = rows.observations.len() * self.inputs;
            if inputs.len() < len {
                inputs.resize(len, 0.0);
            }
            encode(rows.observations, self.normalizer, &mut inputs[..len]);
            &inputs[..len]
        };
        let input = Forward {
            inputs: encoded,
            masks: Masks::new(rows.masks),
            keys: rows.keys,
            episodes: rows.episodes,
            steps: rows.steps,
            exploration: self.exploration,
            frames: self.frames,
            memory: (self.states.width() > 0).then_some(Memory { states: self.states, places, fresh }),
        };
        let mut out = Outcome {
            params,
            actions: bytemuck::cast_slice_mut(rows.actions),
            log_probs: bytemuck::cast_slice_mut(rows.log_probs),
            entropies,
            values: bytemuck::cast_slice_mut(rows.values),
        };
        network.forward(&input, &mut out)
    }
}
