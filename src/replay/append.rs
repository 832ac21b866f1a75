//! Samples of several buffers as one.

use super::{Sample, lists::Lists};
use crate::{bytes::Bytes, error::Error, task::Task};

impl<T: Task> Sample<T> {
    /// Forgets all picks.
    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.weights.clear();
        self.ends.clear();
        self.joints.clear();
        self.after_joints.resize(0);
        self.missing.clear();
        self.buffers.clear();
        self.consumer_version = None;
        self.n_step.returns.clear();
        self.n_step.discounts.clear();
        self.columns.iter_mut().for_each(|column| column.resize(0));
        self.next.resize(0);
        self.lists.iter_mut().for_each(Lists::clear);
        self.learning = 0..usize::MAX;
        self.capacities.clear();
    }

    /// Adds the picks of another sample, as those of buffer number `buffer`. Errors: other columns, or sequences that
    /// differ in what is learned from.
    pub(super) fn append(&mut self, other: &Self, buffer: u32) -> Result<(), Error> {
        if self.ends.is_empty() {
            if self.specs != other.specs {
                self.specs.clone_from(&other.specs);
            }
            self.columns.resize_with(other.columns.len(), Bytes::default);
            self.adopt_lists(other);
            self.learning = other.learning.clone();
        }
        let returns = self.n_step.returns.len() == self.ends.len() && other.n_step.returns.len() == other.ends.len();
        let none = self.n_step.returns.is_empty() && other.n_step.returns.is_empty();
        let differs = match () {
            () if self.specs != other.specs || !self.has_lists_of(other.ragged_columns()) => "columns",
            () if self.learning != other.learning => "sequences",
            () if !(returns || none) => "n_step",
            () => "",
        };
        if !differs.is_empty() {
            return Err(Error::config(
                differs,
                format!("others in buffer {buffer}"),
                "the same in all buffers of a mixture",
            ));
        }
        for (own, new) in self
            .columns
            .iter_mut()
            .zip(&other.columns)
            .chain([(&mut self.next, &other.next), (&mut self.after_joints, &other.after_joints)])
        {
            let at = own.bytes().len();
            own.resize(at + new.bytes().len());
            own.bytes_mut()[at..].copy_from_slice(new.bytes());
        }
        self.append_lists(other);
        let slots = self.frames.len();
        self.joints.extend(other.joints.iter().map(|joint| slots + joint));
        self.frames.extend(&other.frames);
        self.weights.extend(&other.weights);
        self.missing.extend((0..other.ends.len()).map(|pick| other.missing.get(pick).copied().unwrap_or(0)));
        self.n_step.returns.extend(&other.n_step.returns);
        self.n_step.discounts.extend(&other.n_step.discounts);
        self.capacities.resize(buffer as usize, 1);
        self.capacities.push(other.capacity);
        self.buffers.extend(std::iter::repeat_n(buffer, other.ends.len()));
        self.ends.extend(other.ends.iter().map(|end| slots + end));
        Ok(())
    }
}
