//! A permutation that is handed out piece by piece.

use serde::{Deserialize, Serialize};

use crate::replay::draws::Draws;

/// The numbers `0..n`, each once an epoch. They are shuffled as they are handed out (Fisher and Yates 1938), so that
/// no draw waits for the shuffle of all; the order that an epoch leaves is as good a beginning for the next as any.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Epoch {
    order: Vec<u32>,
    at: usize,
}

impl Epoch {
    /// Begins an epoch of `n` numbers.
    pub(super) fn begin(&mut self, n: usize, shuffle: bool) {
        self.at = 0;
        if n < self.order.len() || !shuffle {
            self.order.clear();
        }
        self.order.extend(self.order.len() as u32..n as u32);
    }

    /// The next number.
    pub(super) fn next(&mut self, shuffle: bool, draws: &mut Draws) -> Option<u32> {
        if self.left() == 0 {
            return None;
        }
        if shuffle {
            let other = self.at + draws.below(self.left() as u64) as usize;
            self.order.swap(self.at, other);
        }
        self.at += 1;
        Some(self.order[self.at - 1])
    }

    /// Whether it is one of `n` numbers. The error says what is wrong.
    pub(super) fn check(&self, n: u64, shuffle: bool) -> Result<(), String> {
        if self.order.len() as u64 != n || self.at > self.order.len() {
            return Err(format!("it is at {} of {} in an epoch of {n}", self.at, self.order.len()));
        }
        let mut there = vec![false; self.order.len()];
        let each = self.order.iter().all(|number| match there.get_mut(*number as usize) {
            Some(there) => !std::mem::replace(there, true),
            None => false,
        });
        if each && (shuffle || self.order.is_sorted()) {
            return Ok(());
        }
        Err("the order of its epoch has not each number once, or is shuffled".into())
    }

    /// Numbers that were not handed out yet.
    pub(super) fn left(&self) -> usize {
        self.order.len() - self.at
    }
}
