//! Records on their way to a file.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, SchemaRef};

use super::{array, schema::Columns};
use crate::{
    bytes::Bytes,
    components::{ColumnSpec, End, EpisodeStep, RowIndex, Trajectory, column},
};

/// What belongs to an episode.
#[derive(Clone, Copy, Debug, Default)]
struct Episode {
    row: Option<u32>,
    total_reward: Option<f64>,
    length: Option<u32>,
    first_version: Option<u64>,
}

/// Frames in columns, and what belongs to the episodes whose last frames are among them.
#[derive(Default)]
pub(super) struct Records {
    /// By recorded column.
    columns: Vec<Bytes>,
    len: usize,
    /// Places of last frames, ascending, what belongs to their episodes, and the observations that followed.
    places: Vec<usize>,
    episodes: Vec<Episode>,
    last_observations: Vec<u8>,
    /// Of the trajectory that goes on: step and version of its first frame, sum of its rewards.
    first: Option<(u32, u64)>,
    sum: f64,
}

impl Records {
    pub(super) fn new(columns: usize) -> Self {
        Self { columns: vec![Bytes::default(); columns], ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn value<V: bytemuck::Pod>(&self, column: usize, i: usize) -> V {
        self.columns[column].values()[i]
    }

    /// Adds the next `n` frames of a trajectory, whose values of each column `fill` writes.
    pub(super) fn push(&mut self, specs: &[ColumnSpec], n: usize, mut fill: impl FnMut(usize, &mut [u8])) {
        for (i, (values, spec)) in self.columns.iter_mut().zip(specs).enumerate() {
            values.resize((self.len + n) * spec.stride);
            fill(i, &mut values.bytes_mut()[self.len * spec.stride..]);
        }
        if n > 0 && self.first.is_none() {
            let step: EpisodeStep = self.value(column::STEP, self.len);
            self.first = Some((step.0, self.value(column::VERSION, self.len)));
        }
        for reward in &self.columns[column::REWARD].values::<f32>()[self.len..] {
            self.sum += f64::from(*reward);
        }
        self.len += n;
    }

    /// The newest frame is the last one of its trajectory; `known` if the episode is that one.
    pub(super) fn end(&mut self, row: Option<RowIndex>, known: Option<&Trajectory>, last_observation: &[u8]) {
        let (Some((first_step, first_version)), Some(place)) = (self.first.take(), self.len.checked_sub(1)) else {
            return;
        };
        let (end, step): (End, EpisodeStep) = (self.value(column::END, place), self.value(column::STEP, place));
        let whole = first_step == 0 && end.ends_episode();
        let mut episode = Episode {
            row: row.map(|row| row.0),
            total_reward: whole.then_some(self.sum),
            length: end.ends_episode().then(|| step.0.wrapping_add(1)),
            first_version: whole.then_some(first_version),
        };
        if let Some(known) = known {
            episode.total_reward = Some(f64::from(known.total_reward));
            (episode.length, episode.first_version) = (Some(known.length), Some(known.first_version));
        }
        self.places.push(place);
        self.episodes.push(episode);
        self.last_observations.extend_from_slice(last_observation);
        self.sum = 0.0;
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.places.clear();
        self.episodes.clear();
        self.last_observations.clear();
    }

    pub(super) fn batch(&self, columns: &Columns, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let n = self.len;
        let mut arrays = Vec::with_capacity(schema.fields().len());
        for leaf in &columns.leaves {
            arrays.push(array::array(leaf, &self.columns[leaf.column].bytes()[..n * leaf.stride], n)?);
        }
        arrays.extend(self.derived());
        for leaf in &columns.last {
            arrays.push(array::sparse(leaf, &self.last_observations, &self.places, n)?);
        }
        RecordBatch::try_new(schema.clone(), arrays)
    }

    /// In the order of [`DERIVED`](super::schema::DERIVED).
    fn derived(&self) -> [ArrayRef; 8] {
        let ends = &self.columns[column::END].values::<End>()[..self.len];
        let bools = |f: fn(&End) -> bool| Arc::new(BooleanArray::from_iter(ends.iter().map(|end| Some(f(end)))));
        [
            bools(|end| end.terminated()),
            bools(|end| end.truncated()),
            Arc::new(BooleanArray::from(self.at_places(|place, _| Some(ends[place].ends_episode())))),
            Arc::new(StringArray::from(self.at_places(|place, _| Some(format!("{:?}", ends[place]))))),
            Arc::new(UInt32Array::from(self.at_places(|_, episode| episode.row))),
            Arc::new(arrow_array::Float64Array::from(self.at_places(|_, episode| episode.total_reward))),
            Arc::new(UInt32Array::from(self.at_places(|_, episode| episode.length))),
            Arc::new(UInt64Array::from(self.at_places(|_, episode| episode.first_version))),
        ]
    }

    fn at_places<V: Clone>(&self, f: impl Fn(usize, &Episode) -> Option<V>) -> Vec<Option<V>> {
        let mut all = vec![None; self.len];
        for (place, episode) in self.places.iter().zip(&self.episodes) {
            all[*place] = f(*place, episode);
        }
        all
    }
}
