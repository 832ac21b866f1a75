//! What iteration yields.

use std::{fmt, sync::Arc};

use bytemuck::Pod;
use ndarray::{ArrayViewD, IxDyn};

use super::{
    block::{Block, Layout},
    pool::ArenaPool,
};
use crate::{
    components::{ColumnSpec, Critic, End, EpisodeStep, Flags, RowIndex, Trajectory, TrajectoryId, Truncation},
    error::Error,
    task::Task,
};

/// Frames in columns, independent of the collector: hold it, send it to another thread, drop it anywhere. Its memory
/// goes back to the collector when it is dropped.
///
/// All columns have [`len`](Self::len) slots, in the order that [`layout`](Self::layout) says. By name, with what
/// frames of the random warm-up (`init_random_frames`) hold in them, if it is something else there:
///
/// | name | dtype | shape of a frame | there | in the warm-up |
/// |---|---|---|---|---|
/// | `observation` | the task's | the task's | always | |
/// | `action` | the task's | the task's | always | drawn from the space |
/// | `reward` | f32 | `[]` | always | |
/// | `end` | u8, an [`End`] | `[]` | always | |
/// | `step` | u32, an [`EpisodeStep`] | `[]` | always | |
/// | `trajectory` | u64, a [`TrajectoryId`] | `[]` | always | |
/// | `flags` | u8, [`Flags`] | `[]` | always | [`Flags::RANDOM`] |
/// | `version` | u64 | `[]` | always | that of the policy, which did not act |
/// | `action_mask` | u8 | `[entries]` | [`Task::Mask`] is not `()` | |
/// | `log_prob`, `value` | f32 | `[]` | a policy is a network | 0 |
/// | `policy` | u32 | `[]` | several policies | that of the row, which did not act |
/// | `logits` | f32 | `[logits]` | heads `Categorical`, `MultiDiscrete`, `MultiBinary` | 0 |
/// | `mean` | f32 | `[elements]` | heads `Gaussian`, `TanhGaussian`, `Deterministic` | 0 |
/// | `std` | f32 | `[elements]` | heads `Gaussian`, `TanhGaussian` | a free one as ever, else that of zeros |
/// | `q_values` | f32 | `[actions]` | head `Q` | 0 |
/// | `params` | f32 | `[parameters]` | a head for each field | 0 |
/// | `entropy` | f32 | `[]` | heads but `Deterministic`, and `TanhGaussian`, also of a field | 0 |
/// | `state` | f32 | `[width]`, of several networks the widest | `record_states` | 0 |
/// | the user's | its fields' | its fields' | `record`: a component of the rows | |
///
/// From `logits` to `entropy` they take `record_distribution`. 0 is also the `log_prob` of a deterministic head, the
/// `value` without a critic, and both of rows whose policy is no network, whose distributions are unspecified. Under
/// `exploration: Random` these columns are as in the warm-up. `valid` and `random` are bits of `flags` with methods of
/// their own; [`is_init`](Self::is_init) and [`next_observation`](Self::next_observation) are derived, not stored.
///
/// A slot whose [`flags`](Self::flags) are not valid holds no frame and is zeros: of a frame that was quarantined, a
/// row that was left out, pending or gone, padding. But where a worker in step was preempted or lost, the first such
/// slot of its rows has the `observation`, `action_mask` and `state` that followed their last frame.
pub struct Batch<T: Task> {
    /// None only while dropped.
    pub(super) block: Option<Box<Block<T>>>,
    pub(super) specs: Arc<[ColumnSpec]>,
    pub(super) critic: Option<Arc<dyn Critic<T>>>,
    pub(super) pool: Option<ArenaPool<T>>,
    pub(super) index: u64,
}

impl<T: Task> Drop for Batch<T> {
    fn drop(&mut self) {
        if let (Some(pool), Some(block)) = (&self.pool, self.block.take()) {
            pool.give_back(block);
        }
    }
}

impl<T: Task> Batch<T> {
    pub(crate) fn new(
        block: Box<Block<T>>,
        specs: Arc<[ColumnSpec]>,
        critic: Option<Arc<dyn Critic<T>>>,
        pool: Option<ArenaPool<T>>,
        index: u64,
    ) -> Self {
        Self { block: Some(block), specs, critic, pool, index }
    }

    pub(super) fn block(&self) -> &Block<T> {
        match &self.block {
            Some(block) => block,
            None => unreachable!("a batch has its block until it is dropped"),
        }
    }

    pub(crate) fn set_index(&mut self, index: u64) {
        self.index = index;
    }

    /// Number of the batch, from 0.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// How frames lie in the columns.
    pub fn layout(&self) -> Layout {
        self.block().layout
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
        self.block().frames
    }

    /// The rows of a time-major batch, by position; empty in other layouts.
    pub fn rows(&self) -> &[RowIndex] {
        &self.block().rows
    }

    /// What the policy saw.
    pub fn observations(&self) -> &[T::Observation] {
        &self.block().observations()[..self.len()]
    }

    /// What the policy did; continuous actions as sampled, not clipped.
    pub fn actions(&self) -> &[T::Action] {
        self.block().actions()
    }

    /// Legal actions for the observations; none if the task has no masks.
    pub fn masks(&self) -> Option<&[T::Mask]> {
        self.column("action_mask").ok()
    }

    /// Rewards, after the collector's [`RewardTransform`](super::RewardTransform).
    pub fn rewards(&self) -> &[f32] {
        self.block().rewards()
    }

    /// How each frame ended its episode: terminated, truncated and why.
    pub fn ends(&self) -> &[End] {
        self.block().ends()
    }

    /// Frames of the episode before each frame: 0 for its first.
    pub fn steps(&self) -> &[EpisodeStep] {
        self.block().steps()
    }

    /// Whether slot `i` is the first frame of an episode.
    pub fn is_init(&self, i: usize) -> bool {
        self.flags()[i].valid() && self.steps()[i].0 == 0
    }

    /// The episode of each frame.
    pub fn trajectory_ids(&self) -> &[TrajectoryId] {
        self.block().ids()
    }

    /// Version of the weights that chose each action.
    pub fn versions(&self) -> &[u64] {
        self.block().versions()
    }

    /// Number of the policy that acted in each frame; none if one acts for all rows.
    pub fn policies(&self) -> Option<&[u32]> {
        self.column("policy").ok()
    }

    /// The policies of `slots`; empty if one acts for all rows.
    pub(super) fn policies_of(&self, slots: &[usize]) -> Vec<u32> {
        let policies = self.policies();
        policies.map_or(Vec::new(), |policies| slots.iter().map(|slot| policies[*slot]).collect())
    }

    /// The workers that stepped the frames of `slots`.
    pub(super) fn workers_of(&self, slots: &[usize]) -> Vec<u16> {
        slots.iter().map(|slot| self.trajectory_ids()[*slot].worker()).collect()
    }

    /// Which slots hold frames, and which frames are of the random warm-up.
    pub fn flags(&self) -> &[Flags] {
        self.block().flags()
    }

    /// Log-probability of each action; none if no policy is a network.
    pub fn log_probs(&self) -> Option<&[f32]> {
        self.column("log_prob").ok()
    }

    /// Value of each observation; none if no policy is a network.
    pub fn values(&self) -> Option<&[f32]> {
        self.column("value").ok()
    }

    /// The episodes that ended in the batch, in the order in which they ended.
    pub fn trajectories(&self) -> &[Trajectory] {
        &self.block().trajectories
    }

    /// The real observation after slot `i`: what the policy saw next, or the last one of an episode that ended there.
    ///
    /// Derived, not stored: at the end of a time-major batch it is one of [`last_observations`](Self::last_observations).
    pub fn next_observation(&self, i: usize) -> &T::Observation {
        self.block().next_observation(i)
    }

    /// The real last observation of the episode that ended at slot `i`; none if none ended there.
    pub fn final_observation(&self, i: usize) -> Option<&T::Observation> {
        if self.ends()[i].ends_episode() { self.block().kept_next(i) } else { None }
    }

    /// What each row of a time-major batch sees after the last tick, zeros if its worker was preempted or lost before;
    /// empty in other layouts.
    pub fn last_observations(&self) -> &[T::Observation] {
        &self.block().observations()[self.len()..]
    }

    /// Names and layouts of all columns.
    pub fn columns(&self) -> &[ColumnSpec] {
        &self.specs
    }

    /// A column as values of `V`, which has the column's stride: `f32` for "value", the user's own type for an extra
    /// column. Errors: [`Error::Config`] for an unknown name; [`Error::State`] for a `V` of another size.
    pub fn column<V: Pod>(&self, name: &str) -> Result<&[V], Error> {
        let (bytes, spec) = self.column_bytes(name)?;
        spec.values(bytes)
    }

    pub(crate) fn column_bytes(&self, name: &str) -> Result<(&[u8], &ColumnSpec), Error> {
        let Some(i) = self.specs.iter().position(|spec| spec.name == name) else {
            let legal: Vec<_> = self.specs.iter().map(|spec| &*spec.name).collect();
            return Err(Error::config("column", name, legal.join(", ")));
        };
        let spec = &self.specs[i];
        Ok((&self.block().columns[i].bytes()[..self.len() * spec.stride], spec))
    }

    /// A single-tensor column as an array of its elements: `[ticks, rows, …]`, `[frames, …]` or
    /// `[trajectories, length, …]`. No copy. Errors: [`Error::Config`] for an unknown name; [`Error::State`] for a
    /// column of named fields, and for an `E` of another size than its elements.
    pub fn array<E: Pod>(&self, name: &str) -> Result<ArrayViewD<'_, E>, Error> {
        let (bytes, spec) = self.column_bytes(name)?;
        column_array(bytes, spec, self.layout())
    }

    /// [`array`](Self::array), of a time-major batch with rows first: `[rows, ticks, …]`. A view. Errors: as `array`.
    pub fn array_by_row<E: Pod>(&self, name: &str) -> Result<ArrayViewD<'_, E>, Error> {
        let mut array = self.array(name)?;
        if matches!(self.layout(), Layout::TimeMajor { .. }) {
            array.swap_axes(0, 1);
        }
        Ok(array)
    }

    /// [`array`](Self::array) of a time-major batch in `workers` parts of as many rows, first of all:
    /// `[workers, ticks, rows / workers, …]`, as a view with other strides. Workers in step lie in their order. Their
    /// ticks one behind the other, `[workers · ticks, rows / workers, …]`, are a copy: `.to_shape(…)` of it.
    ///
    /// Errors: those of `array`; [`Error::State`] for another layout, and for rows that `workers` does not divide.
    pub fn array_by_worker<E: Pod>(&self, name: &str, workers: usize) -> Result<ArrayViewD<'_, E>, Error> {
        let error = |problem: String| Error::State { call: "array_by_worker", problem };
        let Layout::TimeMajor { ticks, rows } = self.layout() else {
            return Err(error(format!("the layout is {:?}; legal: time-major batches", self.layout())));
        };
        if workers == 0 || !rows.is_multiple_of(workers) {
            return Err(error(format!("workers is {workers}; legal: divisors of {rows} rows")));
        }
        let array = self.array(name)?;
        let mut shape = vec![ticks, workers, rows / workers];
        shape.extend(&array.shape()[2..]);
        let mut array = array.into_shape_with_order(shape).map_err(|source| error(source.to_string()))?;
        array.swap_axes(0, 1);
        Ok(array)
    }

    /// The value of the real observation after each slot, for estimators: the recorded value of the next frame where
    /// the episode goes on within the batch, else the policy's value, under its newest adopted weights, of
    /// [`next_observation`](Self::next_observation). 0 in slots without a frame, and where one of several policies gives
    /// no values.
    ///
    /// A recurrent policy's value takes the state behind the frame, which time-major batches keep where an episode was
    /// truncated and at their edge; behind a terminated frame, whose value nobody uses, and where a row left the world
    /// it takes zeros. Errors: [`Error::State`] for a policy without values, and of a recurrent one for whole
    /// trajectories that did not terminate, which keep no state; those of the network's device.
    pub fn bootstrap_values(&self) -> Result<Vec<f32>, Error> {
        let (Some(critic), Some(values)) = (&self.critic, self.values()) else {
            let problem = "the policy gives no values; legal: a network with a critic".into();
            return Err(Error::State { call: "bootstrap_values", problem });
        };
        let step = match self.layout() {
            Layout::TimeMajor { rows, .. } => rows,
            Layout::Flat { .. } | Layout::Padded { .. } => 1,
        };
        let mut next = vec![0.0; self.len()];
        let mut outside = Vec::new();
        for (i, next) in next.iter_mut().enumerate() {
            if !self.flags()[i].valid() {
                continue;
            }
            let inside = self.block().kept_next(i).is_none() && i + step < self.len();
            // A frame of the warm-up has no value recorded.
            if inside && self.flags()[i + step].valid() && !self.flags()[i + step].random() {
                *next = values[i + step];
            } else {
                outside.push(i);
            }
        }
        let observations: Vec<_> = outside.iter().map(|i| *self.next_observation(*i)).collect();
        let mut states = self.states_after(&outside, critic.state_width(), step)?;
        let values =
            critic.values(&self.policies_of(&outside), &self.workers_of(&outside), &observations, &mut states)?;
        for (i, value) in outside.into_iter().zip(values) {
            next[i] = value;
        }
        for (i, value) in &self.block().states.next_values {
            next[*i] = *value;
        }
        Ok(next)
    }
}

impl<T: Task> Batch<T> {
    /// States of a recurrent policy that the rows' first frames begin with, `[rows, width]`, zeros where an episode
    /// begins; of [`split_trajectories`](Self::split_trajectories) those of its pieces. Empty for a policy without
    /// memory, for whole trajectories, which begin with zeros, and for [`select`](Self::select).
    pub fn initial_states(&self) -> &[f32] {
        &self.block().states.initial
    }

    /// The states behind `frames`, `[frames, width]`; `step` is the distance of a row's slots.
    fn states_after(&self, frames: &[usize], width: usize, step: usize) -> Result<Vec<f32>, Error> {
        let mut states = vec![0.0; frames.len() * width];
        let kept = &self.block().states;
        for (frame, to) in frames.iter().zip(states.chunks_exact_mut(width.max(1))) {
            let next = frame + step;
            let warm_up = next < self.len() && self.flags()[next].random() && self.block().kept_next(*frame).is_none();
            // Nobody uses the first, before the next the network's memory has not begun, and with a row its state left.
            let end = self.ends()[*frame];
            if end.terminated() || warm_up || end.truncation() == Some(Truncation::RowRemoved) {
                continue;
            }
            // The last tick left the row out: its state is that of the frame.
            let left_out = next < self.len() && !self.flags()[next].valid();
            let state = kept.after(*frame).or_else(|| kept.after(next).filter(|_| left_out));
            let given = kept.next_values.iter().any(|(given, _)| given == frame);
            match state {
                Some(state) => to.copy_from_slice(state),
                None if given => {}
                None => {
                    let problem = format!(
                        "the recurrent state behind frame {frame} is not kept; legal: rollouts, or episodes that terminate"
                    );
                    return Err(Error::State { call: "bootstrap_values", problem });
                }
            }
        }
        Ok(states)
    }
}

/// The bytes of a single-tensor column as an array.
pub(crate) fn column_array<'b, E: Pod>(
    bytes: &'b [u8],
    spec: &ColumnSpec,
    layout: Layout,
) -> Result<ArrayViewD<'b, E>, Error> {
    let error = |problem: String| Error::State { call: "array", problem };
    let name = &spec.name;
    let [field] = spec.fields.as_slice() else {
        return Err(error(format!("column {name:?} has named fields; legal: columns of one tensor")));
    };
    if size_of::<E>() != field.dtype.size() || spec.stride != field.len() * field.dtype.size() {
        return Err(error(format!("column {name:?} has elements of {}", field.dtype)));
    }
    let mut shape = match layout {
        Layout::TimeMajor { ticks, rows } => vec![ticks, rows],
        Layout::Flat { frames } => vec![frames],
        Layout::Padded { trajectories, length } => vec![trajectories, length],
    };
    shape.extend(&field.shape);
    ArrayViewD::from_shape(IxDyn(&shape), bytemuck::cast_slice(bytes)).map_err(|source| error(source.to_string()))
}

impl<T: Task> fmt::Debug for Batch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.specs.iter().map(|spec| &*spec.name).collect();
        f.debug_struct("Batch")
            .field("index", &self.index)
            .field("layout", &self.layout())
            .field("frames", &self.frames())
            .field("columns", &names)
            .field("trajectories", &self.trajectories().len())
            .finish()
    }
}
