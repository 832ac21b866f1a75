//! Clips continuous actions to their space on the way to the environment; what is recorded stays as sampled.

use crate::{
    data::{Data, Dtype},
    space::Space,
    task::Task,
};

/// The finite bounds of the float elements of an action.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActionClip {
    /// Index of a 32-bit word of the action, and its bounds.
    bounds: Vec<(usize, f32, f32)>,
}

impl ActionClip {
    /// The bounds of `T`'s action space. Floats that do not start at a multiple of four bytes are left alone.
    pub(crate) fn of<T: Task>() -> Self {
        let (space, fields) = (T::action_space(), T::Action::fields());
        let spaces: Vec<Space> = match space {
            Space::Fields(fields) => fields.into_iter().map(|(_, space)| space).collect(),
            space => vec![space],
        };
        let mut bounds = Vec::new();
        let mut offset = 0;
        for (space, field) in spaces.iter().zip(&fields) {
            if let (Space::Box { low, high }, Dtype::F32, 0) = (space, field.dtype, offset % 4) {
                for (i, (low, high)) in low.iter().zip(high).enumerate() {
                    if low.is_finite() || high.is_finite() {
                        bounds.push((offset / 4 + i, *low, *high));
                    }
                }
            }
            offset += field.len() * field.dtype.size();
        }
        Self { bounds }
    }

    /// Whether nothing is bounded.
    pub(crate) fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    /// The action that the environment gets.
    #[inline]
    pub(crate) fn apply<A: Data>(&self, action: &A) -> A {
        let mut clipped = *action;
        let bytes = bytemuck::bytes_of_mut(&mut clipped);
        for (word, low, high) in &self.bounds {
            let slot = &mut bytes[word * 4..word * 4 + 4];
            let x = f32::from_ne_bytes([slot[0], slot[1], slot[2], slot[3]]).clamp(*low, *high);
            slot.copy_from_slice(&x.to_ne_bytes());
        }
        clipped
    }
}
