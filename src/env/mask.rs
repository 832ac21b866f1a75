//! Whether a mask leaves an action to take.

use crate::{data::Data, error::Error, space::Space};

/// The parts of a mask, each of which must allow an action: one for a discrete space, one a number for several.
#[derive(Clone, Debug, Default)]
pub(crate) struct MaskParts(Vec<usize>);

impl MaskParts {
    /// The parts of the masks of `space`.
    pub(crate) fn of(space: &Space) -> Self {
        Self(match space {
            Space::Discrete { n } => vec![*n as usize],
            Space::MultiDiscrete { n } => n.iter().map(|n| *n as usize).collect(),
            Space::Fields(fields) => fields.iter().flat_map(|(_, space)| Self::of(space).0).collect(),
            Space::MultiBinary { .. } | Space::Box { .. } => Vec::new(),
        })
    }

    /// Whether every part allows an action.
    #[inline]
    pub(crate) fn allows<M: Data>(&self, mask: &M) -> bool {
        let mut rest = bytemuck::bytes_of(mask);
        self.0.iter().all(|part| {
            let (own, behind) = rest.split_at(*part);
            rest = behind;
            own.iter().any(|entry| *entry != 0)
        })
    }

    /// [`Error::NoLegalAction`], unless every part allows an action.
    pub(crate) fn check<M: Data>(&self, mask: &M, row: u32, episode: u32, step: u32) -> Result<(), Error> {
        if size_of::<M>() == 0 || self.allows(mask) {
            return Ok(());
        }
        Err(Error::NoLegalAction { mask: format!("{mask:?}"), row, episode, step })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_needs_an_action() {
        let parts = MaskParts::of(&Space::MultiDiscrete { n: vec![2, 3] });
        assert!(parts.allows(&[0_u8, 1, 1, 0, 0]));
        assert!(!parts.allows(&[0_u8, 0, 1, 1, 1]), "the first part allows nothing");
        let error = parts.check(&[1_u8, 1, 0, 0, 0], 7, 8, 9).expect_err("the second part allows nothing");
        assert!(error.to_string().contains("row 7, episode 8, step 9"), "{error}");
    }
}
