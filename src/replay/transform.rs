//! Changes to samples in place, behind the gather.

use bytemuck::Pod;

use super::Sample;
use crate::{
    bytes::Bytes,
    components::{ColumnSpec, Flags, column},
    error::{BoxError, Error, guarded},
    task::Task,
};

/// Changes a sample in place after it was gathered, while nothing of the buffer is locked: given to
/// [`SamplerBuilder::transform`](super::SamplerBuilder::transform).
pub type Transform<T> = Box<dyn FnMut(&mut Sample<T>) -> Result<(), BoxError> + Send>;

/// Lets transforms change a sample, one behind the other. Errors: that of the first one that fails, or its panic; the
/// sample is empty then.
pub(super) fn transform<T: Task>(transforms: &mut [Transform<T>], sample: &mut Sample<T>) -> Result<(), Error> {
    for transform in transforms {
        if let Err(error) = guarded("transform", || transform(sample)) {
            sample.clear();
            return Err(error);
        }
    }
    Ok(())
}

/// The column `name` of these. Errors: none has the name.
pub(super) fn find(specs: &[ColumnSpec], name: &str) -> Result<usize, Error> {
    specs.iter().position(|spec| spec.name == name).ok_or_else(|| {
        let legal: Vec<_> = specs.iter().map(|spec| &*spec.name).collect();
        Error::config("column", name, legal.join(", "))
    })
}

/// Calls `f` with the observation of every slot that holds a frame, and with those `behind` them.
pub(super) fn each_observation<O: Pod>(columns: &mut [Bytes], behind: &mut [&mut Bytes], mut f: impl FnMut(&mut O)) {
    let [observations, others @ ..] = columns else { return };
    let flags: &[Flags] = others[column::FLAGS - 1].values();
    let held = observations.values_mut().iter_mut().zip(flags).filter(|(_, flags)| flags.valid());
    held.for_each(|(observation, _)| f(observation));
    behind.iter_mut().flat_map(|behind| behind.values_mut().iter_mut()).for_each(f);
}

/// What transforms change. A sample keeps its columns: their names, their layouts and their lengths.
impl<T: Task> Sample<T> {
    /// Calls `f` with every observation, each once: that of each slot that holds a frame, and those that
    /// [follow](Self::next_observation) picks and episodes.
    pub fn each_observation(&mut self, f: impl FnMut(&mut T::Observation)) {
        each_observation(&mut self.columns, &mut [&mut self.next, &mut self.after_joints], f);
    }

    /// The [`actions`](Self::actions).
    pub fn actions_mut(&mut self) -> &mut [T::Action] {
        self.values_mut(column::ACTION)
    }

    /// The [`rewards`](Self::rewards). The [`returns`](Self::returns) are not summed anew.
    pub fn rewards_mut(&mut self) -> &mut [f32] {
        self.values_mut(column::REWARD)
    }

    /// The [`returns`](Self::returns).
    pub fn returns_mut(&mut self) -> &mut [f32] {
        &mut self.n_step.returns
    }

    /// The [`weights`](Self::weights).
    pub fn weights_mut(&mut self) -> &mut [f32] {
        &mut self.weights
    }

    /// A [`column`](Self::column), with its errors. Errors: [`Error::Config`] for an unknown name; [`Error::State`] for a
    /// `V` of another size.
    pub fn column_mut<V: Pod>(&mut self, name: &str) -> Result<&mut [V], Error> {
        let i = find(&self.specs, name)?;
        self.specs[i].values_mut(self.columns[i].bytes_mut())
    }

    fn values_mut<V: Pod>(&mut self, i: usize) -> &mut [V] {
        self.columns.get_mut(i).map_or(&mut [], Bytes::values_mut)
    }
}
