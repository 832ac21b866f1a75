//! What rows remember from tick to tick.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use crate::components::{ActionKey, Episode, EpisodeStep, Slot};

/// Recurrent states, `[places, width]`. Each row has a place, which follows it when it gets another slot. Threads write
/// different places at the same time.
#[derive(Debug, Default)]
pub struct States {
    width: usize,
    words: Vec<AtomicU32>,
    /// By place: the row and the episode that the state belongs to.
    owners: Vec<Option<Owner>>,
    /// By slot: the place of its row.
    places: Vec<u32>,
}

type Owner = ([u32; 2], u32);

fn owner(key: ActionKey, episode: Episode) -> Owner {
    (key.0, episode.0)
}

/// A row as the policy knows it.
pub type Identity<'a> = (&'a Slot, &'a ActionKey, &'a Episode);

impl States {
    /// Zeros for `slots` slots of `width` numbers.
    pub fn new(slots: usize, width: usize) -> Self {
        let mut states = Self { width, ..Self::default() };
        states.reserve(slots);
        states
    }

    /// Numbers of a state.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Places.
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// Whether there is no place.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    fn reserve(&mut self, slots: usize) {
        if slots > self.places.len() {
            self.words.resize_with(slots * self.width, AtomicU32::default);
            self.owners.resize(slots, None);
            self.places.extend(self.places.len() as u32..slots as u32);
        }
    }

    /// Lets states follow rows in the middle of an episode that have other slots than before. Takes all rows of a task,
    /// before any of them [claims](Self::claim) its state.
    pub fn follow<'a>(&mut self, rows: impl Iterator<Item = (Identity<'a>, &'a EpisodeStep)>) {
        let mut moved = None;
        for ((slot, key, episode), step) in rows {
            let slot = slot.0 as usize;
            self.reserve(slot + 1);
            let own = owner(*key, *episode);
            let place = self.places[slot];
            if step.0 == 0 || self.owners[place as usize] == Some(own) {
                continue;
            }
            let (index, slots) = moved.get_or_insert_with(|| (self.index(), self.slots()));
            let Some(found) = index.get(&own) else { continue };
            // Whoever has the place now gets the row's: places stay a permutation.
            let Some(other) = slots.get(*found as usize).copied() else { continue };
            self.places.swap(slot, other);
            slots.resize(self.places.len(), usize::MAX);
            slots[place as usize] = other;
            slots[*found as usize] = slot;
        }
    }

    /// Places by owner: looked at only when rows have other slots than before.
    fn index(&self) -> HashMap<Owner, u32> {
        let owned = self.owners.iter().enumerate();
        owned.filter_map(|(place, owner)| owner.map(|owner| (owner, place as u32))).collect()
    }

    /// Slots by place.
    fn slots(&self) -> Vec<usize> {
        let mut slots = vec![0; self.places.len()];
        self.places.iter().enumerate().for_each(|(slot, place)| slots[*place as usize] = slot);
        slots
    }

    /// Forgets whose the states are: every row's next frame begins with zeros.
    pub fn forget(&mut self) {
        self.owners.fill(None);
    }

    /// Gives each row of a run its place, and says with 1 whether its state begins with zeros: an episode begins, or the
    /// frames before were not the network's. A row that was skipped keeps its state.
    pub fn claim<'a>(
        &mut self,
        rows: impl Iterator<Item = (Identity<'a>, &'a EpisodeStep)>,
        places: &mut Vec<u32>,
        fresh: &mut Vec<u8>,
    ) {
        places.clear();
        fresh.clear();
        for ((slot, key, episode), step) in rows {
            self.reserve(slot.0 as usize + 1);
            let place = self.places[slot.0 as usize];
            let own = Some(owner(*key, *episode));
            let owner = &mut self.owners[place as usize];
            fresh.push(u8::from(step.0 == 0 || *owner != own));
            places.push(place);
            *owner = own;
        }
    }

    /// Copies the states of rows into `to`, by slot, `stride` numbers each; zeros for a row that begins an episode, and
    /// for one whose state is of another episode.
    pub fn by_slot<'a>(&self, rows: impl Iterator<Item = (Identity<'a>, bool)>, stride: usize, to: &mut [f32]) {
        let mut index = None;
        for ((slot, key, episode), begins) in rows {
            let slot = slot.0 as usize;
            let Some(to) = to.get_mut(slot * stride..slot * stride + self.width) else { continue };
            if begins {
                to.fill(0.0);
                continue;
            }
            let own = owner(*key, *episode);
            let own_place = self.places.get(slot).copied().filter(|place| self.owners[*place as usize] == Some(own));
            let place = own_place.or_else(|| index.get_or_insert_with(|| self.index()).get(&own).copied());
            match place {
                Some(place) => self.read(place as usize, 0, to),
                None => to.fill(0.0),
            }
        }
    }

    /// Copies the newest states of slots into `to`, `stride` numbers each, whatever episode they are of.
    pub fn last_by_slot<'a>(&self, rows: impl Iterator<Item = Identity<'a>>, stride: usize, to: &mut [f32]) {
        for (slot, ..) in rows {
            let slot = slot.0 as usize;
            if let (Some(to), Some(place)) =
                (to.get_mut(slot * stride..slot * stride + self.width), self.places.get(slot))
            {
                self.read(*place as usize, 0, to);
            }
        }
    }

    /// The states of rows, whatever episode they are of, and with 1 whether it is the row's own.
    pub fn save<'a>(&self, rows: impl Iterator<Item = Identity<'a>>) -> (Vec<f32>, Vec<u8>) {
        let (mut words, mut own) = (Vec::new(), Vec::new());
        for (slot, key, episode) in rows {
            let Some(place) = self.places.get(slot.0 as usize).map(|place| *place as usize) else { continue };
            let end = words.len() + self.width;
            words.resize(end, 0.0);
            self.read(place, 0, &mut words[end - self.width..]);
            own.push(u8::from(self.owners[place] == Some(owner(*key, *episode))));
        }
        (words, own)
    }

    /// Takes over what was [saved](Self::save) of as many rows.
    pub fn restore<'a>(&mut self, rows: impl Iterator<Item = Identity<'a>>, words: &[f32], own: &[u8]) {
        for (((slot, key, episode), own), i) in rows.zip(own).zip(0..) {
            let Some(place) = self.places.get(slot.0 as usize).map(|place| *place as usize) else { continue };
            self.write(place, 0, &words[i * self.width..(i + 1) * self.width]);
            self.owners[place] = (*own != 0).then(|| owner(*key, *episode));
        }
    }

    /// Copies columns `first..` of the state at a place.
    pub fn read(&self, place: usize, first: usize, to: &mut [f32]) {
        let words = self.words.get(place * self.width + first..).unwrap_or_default();
        to.iter_mut().zip(words).for_each(|(to, word)| *to = f32::from_bits(word.load(Relaxed)));
    }

    /// Overwrites columns `first..` of the state at a place.
    pub fn write(&self, place: usize, first: usize, from: &[f32]) {
        let words = self.words.get(place * self.width + first..).unwrap_or_default();
        words.iter().zip(from).for_each(|(word, x)| word.store(x.to_bits(), Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slot, key, episode, step.
    type Row = (u32, u32, u32, u32);

    fn tick(states: &mut States, rows: &[Row]) -> (Vec<u32>, Vec<u8>) {
        let rows: Vec<_> =
            rows.iter().map(|row| (Slot(row.0), ActionKey([row.1, 0]), Episode(row.2), EpisodeStep(row.3))).collect();
        let identities = || rows.iter().map(|(slot, key, episode, step)| ((slot, key, episode), step));
        let (mut places, mut fresh) = (Vec::new(), Vec::new());
        states.follow(identities());
        states.claim(identities(), &mut places, &mut fresh);
        (places, fresh)
    }

    #[test]
    fn an_episode_begins_with_zeros_and_a_skipped_row_goes_on() {
        let mut states = States::new(2, 3);
        let mut fresh = |rows: &[Row]| tick(&mut states, rows).1;
        assert_eq!(fresh(&[(0, 7, 0, 0), (1, 8, 0, 0)]), [1, 1]);
        assert_eq!(fresh(&[(0, 7, 0, 1), (1, 8, 0, 1)]), [0, 0]);
        assert_eq!(fresh(&[(1, 8, 1, 0)]), [1], "an episode began");
        assert_eq!(fresh(&[(0, 7, 0, 2)]), [0], "skipped once");
        assert_eq!(fresh(&[(1, 8, 2, 3)]), [1], "its first frames were not the network's");
        assert_eq!(fresh(&[(0, 9, 0, 3), (5, 1, 0, 4)]), [1, 1], "another row's slot, and a new one");
        assert_eq!(states.len(), 6);
    }

    #[test]
    fn a_state_follows_its_row() {
        let mut states = States::new(3, 1);
        let (places, _) = tick(&mut states, &[(0, 7, 0, 0), (1, 8, 0, 0), (2, 9, 0, 0)]);
        places.iter().zip([70.0, 80.0, 90.0]).for_each(|(place, x)| states.write(*place as usize, 0, &[x]));
        // Row 7 leaves, a newcomer comes first, the others change their slots.
        let rows = [(0, 5, 0, 0), (1, 9, 0, 1), (2, 8, 0, 1)];
        let mut by_slot = [1.0; 3];
        let of = |rows: &[Row]| -> Vec<_> {
            rows.iter().map(|row| (Slot(row.0), ActionKey([row.1, 0]), Episode(row.2))).collect()
        };
        let identities = of(&rows);
        states.by_slot(identities.iter().map(|(slot, key, episode)| ((slot, key, episode), false)), 1, &mut by_slot);
        assert_eq!(by_slot, [0.0, 90.0, 80.0]);
        let (places, fresh) = tick(&mut states, &rows);
        assert_eq!(fresh, [1, 0, 0]);
        let state = |place: u32| {
            let mut state = [0.0];
            states.read(place as usize, 0, &mut state);
            state[0]
        };
        assert_eq!((state(places[1]), state(places[2])), (90.0, 80.0));
        assert_ne!(places[0], places[1]);
    }
}
