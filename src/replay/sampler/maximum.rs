//! The highest of many numbers, any of which changes.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Numbers that one of the level above is the highest of.
const WIDTH: usize = 16;

/// Numbers from 0 on, or none of them, and the highest.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Maximum {
    /// From the numbers themselves to the highest.
    levels: Vec<Vec<f32>>,
}

/// In place of a number where there is none.
const NONE: f32 = -1.0;

impl Maximum {
    /// `size` places without a number.
    pub(super) fn new(size: usize) -> Self {
        let mut levels = vec![vec![NONE; size]];
        let mut count = size;
        while count > 1 {
            count = count.div_ceil(WIDTH);
            levels.push(vec![NONE; count]);
        }
        Self { levels }
    }

    /// The highest number, if there is any.
    pub(super) fn highest(&self) -> Option<f32> {
        let highest = self.levels[self.levels.len() - 1][0];
        (highest >= 0.0).then_some(highest)
    }

    /// Sets a place's number.
    pub(super) fn put(&mut self, at: usize, number: f32) {
        self.levels[0][at] = number;
        self.settle(at..at + 1);
    }

    /// Takes the numbers of these places away.
    pub(super) fn clear(&mut self, places: Range<usize>) {
        if !places.is_empty() {
            self.levels[0][places.clone()].fill(NONE);
            self.settle(places);
        }
    }

    /// A place's number, if it has one.
    pub(super) fn get(&self, at: usize) -> Option<f32> {
        let number = self.levels[0][at];
        (number >= 0.0).then_some(number)
    }

    /// Whether it has `size` places with legal numbers, and all above is the highest of what is below.
    pub(super) fn is_sound(&self, size: usize) -> bool {
        let Some(numbers) = self.levels.first().filter(|numbers| numbers.len() == size) else { return false };
        let legal = |number: &f32| *number == NONE || (number.is_finite() && *number >= 0.0);
        let mut again = Self::new(size);
        again.levels[0].clone_from(numbers);
        again.settle(0..size);
        numbers.iter().all(legal) && again.levels == self.levels
    }

    fn settle(&mut self, mut places: Range<usize>) {
        for above in 1..self.levels.len() {
            places = places.start / WIDTH..places.end.div_ceil(WIDTH);
            let (below, level) = self.levels.split_at_mut(above);
            let groups = below[above - 1].chunks(WIDTH).skip(places.start);
            for (highest, numbers) in level[0][places.clone()].iter_mut().zip(groups) {
                *highest = numbers.iter().copied().fold(NONE, f32::max);
            }
        }
    }
}
