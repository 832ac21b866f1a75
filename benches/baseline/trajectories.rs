//! Whole episodes, one behind the other, in batches of a fixed number.

use std::collections::VecDeque;

use super::{
    columns::{Columns, each_column},
    rollout::Rollouts,
};

/// Joins rollouts to episodes. An episode goes straight from the rollout where it ended to its batch; what came before
/// waits in memory of its row.
pub struct Trajectories {
    rollouts: Rollouts,
    size: usize,
    /// By row: frames of the running episode from earlier rollouts.
    open: Vec<Columns>,
    /// By row: the tick where the running episode begins in the present rollout.
    from: Vec<usize>,
    stepped: u64,
    /// The present rollout, row by row.
    by_row: Columns,
    filling: Columns,
    full: VecDeque<Columns>,
    spare: Vec<Columns>,
}

impl Trajectories {
    /// Batches of `batch` episodes, looked for every `ticks` ticks.
    pub fn new(rows: usize, ticks: usize, seed: u64, batch: usize) -> Self {
        Self {
            rollouts: Rollouts::new(rows, ticks, seed),
            size: batch,
            open: vec![Columns::default(); rows],
            from: vec![0; rows],
            stepped: 0,
            by_row: Columns::new(rows * ticks, 0),
            filling: Columns::default(),
            full: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    /// Frames stepped so far.
    pub fn stepped(&self) -> u64 {
        self.stepped
    }

    /// The next batch, to be given back.
    pub fn batch(&mut self) -> Columns {
        loop {
            if let Some(full) = self.full.pop_front() {
                return full;
            }
            self.ingest();
        }
    }

    /// Takes a batch's memory.
    pub fn give_back(&mut self, mut batch: Columns) {
        batch.clear();
        self.spare.push(batch);
    }

    fn ingest(&mut self) {
        let rows = self.rollouts.rows();
        let block = self.rollouts.roll();
        let ticks = block.actions.len() / rows;
        self.stepped += block.actions.len() as u64;
        transpose(block, &mut self.by_row, rows, ticks);
        self.from.fill(0);
        for (episode, (frame, last)) in block.episodes.iter().zip(&block.finals) {
            let row = frame % rows;
            let end = frame / rows + 1;
            move_all(&mut self.open[row], &mut self.filling);
            append(&self.by_row, row * ticks + self.from[row]..row * ticks + end, &mut self.filling);
            self.from[row] = end;
            self.filling.finals.push((self.filling.actions.len() - 1, *last));
            self.filling.episodes.push(*episode);
            if self.filling.episodes.len() == self.size {
                let next = self.spare.pop().unwrap_or_default();
                self.full.push_back(std::mem::replace(&mut self.filling, next));
            }
        }
        for row in 0..rows {
            append(&self.by_row, row * ticks + self.from[row]..(row + 1) * ticks, &mut self.open[row]);
        }
    }
}

/// Lays each row's ticks one behind the other; a few rows at a time, so that every cache line is read once.
fn transpose(block: &Columns, by_row: &mut Columns, rows: usize, ticks: usize) {
    const GROUP: usize = 32;
    fn column<V: Copy>(from: &[V], to: &mut [V], rows: usize, ticks: usize) {
        for (group, to) in to.chunks_mut(GROUP * ticks).enumerate() {
            for (tick, from) in from.chunks_exact(rows).take(ticks).enumerate() {
                for (to, from) in to[tick..].iter_mut().step_by(ticks).zip(&from[group * GROUP..]) {
                    *to = *from;
                }
            }
        }
    }
    macro_rules! transpose {
        ($($name:ident),*) => { $( column(&block.$name, &mut by_row.$name, rows, ticks); )* };
    }
    each_column!(transpose);
}

/// Appends frames.
fn append(from: &Columns, frames: std::ops::Range<usize>, to: &mut Columns) {
    macro_rules! append {
        ($($column:ident),*) => { $( to.$column.extend_from_slice(&from.$column[frames.clone()]); )* };
    }
    each_column!(append);
}

/// Moves all frames of `from` behind those of `to`.
fn move_all(from: &mut Columns, to: &mut Columns) {
    if from.actions.is_empty() {
        return;
    }
    macro_rules! append {
        ($($column:ident),*) => { $( to.$column.append(&mut from.$column); )* };
    }
    each_column!(append);
}
