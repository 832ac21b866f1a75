//! What rows remember from tick to tick.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::components::{ActionKey, Episode, EpisodeStep, Slot};

/// Recurrent states by slot, `[slots, width]`. Threads write the states of different slots at the same time.
#[derive(Debug, Default)]
pub struct States {
    width: usize,
    words: Vec<AtomicU32>,
    /// By slot: the episode that the state belongs to.
    owners: Vec<Option<(ActionKey, Episode)>>,
}

impl States {
    /// Zeros for `slots` slots of `width` numbers.
    pub fn new(slots: usize, width: usize) -> Self {
        let mut states = Self { width, words: Vec::new(), owners: Vec::new() };
        states.reserve(slots);
        states
    }

    /// Numbers of a slot.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Slots.
    pub fn slots(&self) -> usize {
        self.owners.len()
    }

    /// Makes room for `slots` slots; new ones are zeros.
    pub fn reserve(&mut self, slots: usize) {
        if slots > self.owners.len() {
            self.words.resize_with(slots * self.width, AtomicU32::default);
            self.owners.resize(slots, None);
        }
    }

    /// Says for each row of a run, with 1, whether its state belongs to another episode than its coming frame: then it
    /// begins with zeros. A row that was skipped keeps its state; whatever ended its episode forfeits it.
    pub fn claim(
        &mut self,
        slots: &[Slot],
        keys: &[ActionKey],
        episodes: &[Episode],
        steps: &[EpisodeStep],
        fresh: &mut Vec<u8>,
    ) {
        fresh.clear();
        for (((slot, key), episode), step) in slots.iter().zip(keys).zip(episodes).zip(steps) {
            self.reserve(slot.0 as usize + 1);
            let owner = &mut self.owners[slot.0 as usize];
            let own = Some((*key, *episode));
            fresh.push(u8::from(step.0 == 0 || *owner != own));
            *owner = own;
        }
    }

    /// Copies columns `first..` of a slot's state; a slot without a state has zeros.
    pub fn read(&self, slot: usize, first: usize, to: &mut [f32]) {
        let words = self.words.get(slot * self.width + first..).unwrap_or_default();
        to.fill(0.0);
        to.iter_mut().zip(words).for_each(|(to, word)| *to = f32::from_bits(word.load(Relaxed)));
    }

    /// Overwrites columns `first..` of a slot's state.
    pub fn write(&self, slot: usize, first: usize, from: &[f32]) {
        let words = self.words.get(slot * self.width + first..).unwrap_or_default();
        words.iter().zip(from).for_each(|(word, x)| word.store(x.to_bits(), Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_episode_begins_with_zeros_and_a_skipped_row_goes_on() {
        let mut states = States::new(2, 3);
        let mut fresh = Vec::new();
        let mut claim = |rows: &[(u32, u32, u32, u32)]| {
            let slots: Vec<_> = rows.iter().map(|row| Slot(row.0)).collect();
            let keys: Vec<_> = rows.iter().map(|row| ActionKey([row.1, 0])).collect();
            let episodes: Vec<_> = rows.iter().map(|row| Episode(row.2)).collect();
            let steps: Vec<_> = rows.iter().map(|row| EpisodeStep(row.3)).collect();
            states.claim(&slots, &keys, &episodes, &steps, &mut fresh);
            fresh.clone()
        };
        // Slot, key, episode, step.
        assert_eq!(claim(&[(0, 7, 0, 0), (1, 8, 0, 0)]), [1, 1]);
        assert_eq!(claim(&[(0, 7, 0, 1), (1, 8, 0, 1)]), [0, 0]);
        assert_eq!(claim(&[(1, 8, 1, 0)]), [1], "an episode began");
        assert_eq!(claim(&[(0, 7, 0, 2)]), [0], "skipped once");
        assert_eq!(claim(&[(1, 8, 2, 3)]), [1], "its first frames were not the network's");
        assert_eq!(claim(&[(0, 9, 0, 3), (5, 1, 0, 4)]), [1, 1], "another row's slot, and a new one");
        assert_eq!(states.slots(), 6);
    }

    #[test]
    fn what_is_written_is_read() {
        let states = States::new(2, 3);
        states.write(1, 1, &[4.0, 5.0]);
        let mut state = [9.0; 3];
        states.read(1, 0, &mut state);
        assert_eq!(state, [0.0, 4.0, 5.0]);
        states.read(0, 0, &mut state);
        assert_eq!(state, [0.0; 3]);
        states.read(7, 2, &mut state);
        assert_eq!(state, [0.0; 3]);
    }
}
