//! Collectors and batches whose task is known at run time only.

use std::{any::Any, fmt, path::Path};

use bytemuck::Pod;
use ndarray::ArrayViewD;

use crate::{
    collector::{Collector, Memory},
    components::{ColumnSpec, End, EpisodeStep, Flags, RowIndex, Trajectory, TrajectoryId},
    error::Error,
    receipts::Receipt,
    rollout::{Batch, Chain, Estimate, Layout, column_array, estimate},
    stats::{Monitor, Stats},
    task::Task,
    weights::{Models, WeightsHandle},
};

/// A [`Collector`] of any task, by [`Collector::erase`] or from a [`Registry`](crate::registry::Registry). It iterates
/// over batches; see the collector's methods of the same names, also for what an error does.
pub trait AnyCollector: Iterator<Item = Result<AnyBatch, Error>> + fmt::Debug + Send {
    /// Rows.
    fn rows(&self) -> usize;
    /// Ticks of a rollout.
    fn horizon(&self) -> usize;
    /// Frames of a full batch.
    fn frames_per_batch(&self) -> usize;
    /// Batches of the whole budget, as [`Collector::len`].
    fn batches(&self) -> Option<u64>;
    /// Names and layouts of the columns of every batch.
    fn columns(&self) -> &[ColumnSpec];
    /// The counters now.
    fn stats(&self) -> Stats;
    /// Reads the counters from other threads.
    fn monitor(&self) -> Monitor;
    /// Publishes new weights; none if the policy is no network.
    fn weights(&self) -> Option<WeightsHandle>;
    /// Publishes new weights to one worker, as [`Collector::models_of_worker`], with its errors.
    fn models_of_worker(&self, worker: usize) -> Result<Models, Error>;
    /// Bytes held.
    fn memory(&self) -> Memory;
    /// The next write to the replay buffer, as [`Collector::next_receipt`], with its errors.
    fn next_receipt(&mut self) -> Option<Result<Receipt, Error>>;
    /// Ends the collection.
    fn shutdown(&mut self);
    /// Saves all that the collection goes on from, as [`Collector::save`], with its errors.
    fn save(&self, path: &Path) -> Result<(), Error>;
    /// Goes on from a file, as [`Collector::load`], with its errors.
    fn load(&mut self, path: &Path) -> Result<(), Error>;
    /// The `Collector<T>`, to be downcast.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

struct Erased<T: Task>(Collector<T>);

impl<T: Task> Collector<T> {
    /// The same collector without its task in the type.
    pub fn erase(self) -> Box<dyn AnyCollector> {
        Box::new(Erased(self))
    }
}

impl<T: Task> Iterator for Erased<T> {
    type Item = Result<AnyBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|batch| batch.map(|batch| AnyBatch(Box::new(batch))))
    }
}

impl<T: Task> fmt::Debug for Erased<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Task> AnyCollector for Erased<T> {
    fn rows(&self) -> usize {
        self.0.rows()
    }
    fn horizon(&self) -> usize {
        self.0.horizon()
    }
    fn frames_per_batch(&self) -> usize {
        self.0.frames_per_batch()
    }
    fn batches(&self) -> Option<u64> {
        self.0.len()
    }
    fn columns(&self) -> &[ColumnSpec] {
        self.0.columns()
    }
    fn stats(&self) -> Stats {
        self.0.stats()
    }
    fn monitor(&self) -> Monitor {
        self.0.monitor()
    }
    fn weights(&self) -> Option<WeightsHandle> {
        self.0.weights()
    }
    fn models_of_worker(&self, worker: usize) -> Result<Models, Error> {
        self.0.models_of_worker(worker)
    }
    fn memory(&self) -> Memory {
        self.0.memory()
    }
    fn next_receipt(&mut self) -> Option<Result<Receipt, Error>> {
        self.0.next_receipt()
    }
    fn shutdown(&mut self) {
        self.0.shutdown();
    }
    fn save(&self, path: &Path) -> Result<(), Error> {
        self.0.save(path)
    }
    fn load(&mut self, path: &Path) -> Result<(), Error> {
        self.0.load(path)
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        &mut self.0
    }
}

/// A [`Batch`] of any task: the same columns, found by name and given as bytes or as values of a type with the column's
/// stride.
pub struct AnyBatch(Box<dyn Erase>);

/// What depends on the task.
trait Erase: fmt::Debug + Send {
    fn index(&self) -> u64;
    fn layout(&self) -> Layout;
    fn frames(&self) -> usize;
    fn rows(&self) -> &[RowIndex];
    fn trajectories(&self) -> &[Trajectory];
    fn columns(&self) -> &[ColumnSpec];
    fn column_bytes(&self, name: &str) -> Result<(&[u8], &ColumnSpec), Error>;
    fn bootstrap_values(&self) -> Result<Vec<f32>, Error>;
    fn chain(&self) -> Chain;
    fn gae(&self, gamma: f32, lambda: f32) -> Result<Estimate, Error>;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
    fn as_any(&self) -> &dyn Any;
}

impl<T: Task> Erase for Batch<T> {
    fn index(&self) -> u64 {
        self.index()
    }
    fn layout(&self) -> Layout {
        self.layout()
    }
    fn frames(&self) -> usize {
        self.frames()
    }
    fn rows(&self) -> &[RowIndex] {
        self.rows()
    }
    fn trajectories(&self) -> &[Trajectory] {
        self.trajectories()
    }
    fn columns(&self) -> &[ColumnSpec] {
        self.columns()
    }
    fn column_bytes(&self, name: &str) -> Result<(&[u8], &ColumnSpec), Error> {
        self.column_bytes(name)
    }
    fn bootstrap_values(&self) -> Result<Vec<f32>, Error> {
        self.bootstrap_values()
    }
    fn chain(&self) -> Chain {
        Chain::of(self)
    }
    fn gae(&self, gamma: f32, lambda: f32) -> Result<Estimate, Error> {
        estimate::gae(self, gamma, lambda)
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl AnyBatch {
    /// Number of the batch, from 0.
    pub fn index(&self) -> u64 {
        self.0.index()
    }

    /// How frames lie in the columns.
    pub fn layout(&self) -> Layout {
        self.0.layout()
    }

    /// Slots of each column.
    pub fn len(&self) -> usize {
        self.layout().slots()
    }

    /// Whether there is no slot.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frames: slots that hold one.
    pub fn frames(&self) -> usize {
        self.0.frames()
    }

    /// The rows of a time-major batch, by position; empty in other layouts.
    pub fn rows(&self) -> &[RowIndex] {
        self.0.rows()
    }

    /// The episodes that ended in the batch, in the order in which they ended.
    pub fn trajectories(&self) -> &[Trajectory] {
        self.0.trajectories()
    }

    /// Names, dtypes, shapes and strides of all columns.
    pub fn columns(&self) -> &[ColumnSpec] {
        self.0.columns()
    }

    /// The bytes of a column: [`len`](Self::len) values, each of the column's stride. Errors: [`Error::Config`] for a
    /// name that is not among [`columns`](Self::columns).
    pub fn column_bytes(&self, name: &str) -> Result<&[u8], Error> {
        Ok(self.0.column_bytes(name)?.0)
    }

    /// A column as values of `V`; see [`Batch::column`]. Errors: its own.
    pub fn column<V: Pod>(&self, name: &str) -> Result<&[V], Error> {
        let (bytes, spec) = self.0.column_bytes(name)?;
        spec.values(bytes)
    }

    /// A single-tensor column as an array of its elements; see [`Batch::array`]. Errors: its own.
    pub fn array<E: Pod>(&self, name: &str) -> Result<ArrayViewD<'_, E>, Error> {
        let (bytes, spec) = self.0.column_bytes(name)?;
        column_array(bytes, spec, self.layout())
    }

    /// Rewards, after the collector's transform.
    pub fn rewards(&self) -> &[f32] {
        self.known("reward")
    }

    /// How each frame ended its episode.
    pub fn ends(&self) -> &[End] {
        self.known("end")
    }

    /// Which slots hold frames, and which frames are of the random warm-up.
    pub fn flags(&self) -> &[Flags] {
        self.known("flags")
    }

    /// Frames of the episode before each frame.
    pub fn steps(&self) -> &[EpisodeStep] {
        self.known("step")
    }

    /// The episode of each frame.
    pub fn trajectory_ids(&self) -> &[TrajectoryId] {
        self.known("trajectory")
    }

    /// A column that every batch has.
    fn known<V: Pod>(&self, name: &str) -> &[V] {
        self.column(name).unwrap_or_default()
    }

    /// The value of the real observation after each slot; see [`Batch::bootstrap_values`]. Errors: its own.
    pub fn bootstrap_values(&self) -> Result<Vec<f32>, Error> {
        self.0.bootstrap_values()
    }

    /// Which slot follows which, for the estimators of [`Chain`].
    pub fn chain(&self) -> Chain {
        self.0.chain()
    }

    /// Generalised advantage estimation; see [`estimate::gae`]. Errors: its own.
    pub fn gae(&self, gamma: f32, lambda: f32) -> Result<Estimate, Error> {
        self.0.gae(gamma, lambda)
    }

    /// The batch of task `T`. Errors: the batch itself, if it is of another task.
    pub fn downcast<T: Task>(self) -> Result<Batch<T>, Self> {
        if !self.0.as_any().is::<Batch<T>>() {
            return Err(self);
        }
        self.0.into_any().downcast::<Batch<T>>().map(|batch| *batch).map_err(|_| unreachable!("it is a batch of T"))
    }
}

impl fmt::Debug for AnyBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
