//! Checks of the actions that a user's policy gave.

use bytemuck::{bytes_of, cast_slice};

use crate::{
    components::Masks,
    data::{Data, Dtype, Field, finite},
    space::Space,
    task::Task,
};

/// An illegal action: the row within the run, the value, and what is legal.
pub type Illegal = (usize, String, String);

/// Checks the actions of a run of rows. Errors: the first one that is outside the space or forbidden by its mask.
///
/// Elements of a box of `f32` need to be finite only: an action is recorded as sampled and clipped for the
/// environment, so one outside the bounds is legal.
pub fn check_actions<T: Task>(
    space: &Space,
    fields: &[Field],
    masks: Masks<'_>,
    actions: &[T::Action],
) -> Result<(), Illegal> {
    if fine::<T::Action>(space, fields, masks, actions) {
        return Ok(());
    }
    for (row, action) in actions.iter().enumerate() {
        if let Err(problem) = contains(space, bytes_of(action), fields, masks.row(row)) {
            let (value, legal) = problem.split_once("; legal: ").unwrap_or((&problem, "a value of the space"));
            return Err((row, value.into(), legal.into()));
        }
    }
    Ok(())
}

/// Whether a quick look settles that all is well; no early exit, so that it vectorises.
fn fine<A: Data>(space: &Space, fields: &[Field], masks: Masks<'_>, actions: &[A]) -> bool {
    match (space, fields) {
        (Space::Discrete { n }, [field]) if field.dtype == Dtype::I32 && size_of::<A>() == 4 => {
            let actions: &[u32] = cast_slice(actions);
            // A negative index is a huge unsigned one.
            let inside = actions.iter().fold(true, |all, action| all & (action < n));
            inside && (masks.width() == 0 || actions.iter().enumerate().all(|(row, x)| masks.legal(row, *x as usize)))
        }
        (Space::Box { .. }, [field]) if field.dtype == Dtype::F32 => {
            actions.iter().fold(true, |all, action| all & action.is_finite())
        }
        _ => false,
    }
}

/// [`Space::contains`], but for boxes of `f32` without their bounds.
fn contains(space: &Space, bytes: &[u8], fields: &[Field], mask: &[u8]) -> Result<(), String> {
    match (space, fields) {
        (Space::Box { .. }, [field]) if field.dtype == Dtype::F32 => {
            let element = |chunk: &[u8]| f32::from_ne_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
            match bytes.chunks_exact(4).map(element).enumerate().find(|(_, x)| !finite(*x)) {
                Some((i, x)) => Err(format!("element {i} is {x}; legal: a finite number")),
                None => Ok(()),
            }
        }
        (Space::Fields(spaces), _) => {
            let (mut bytes, mut mask) = (bytes, mask);
            for ((name, space), field) in spaces.iter().zip(fields) {
                let (own, rest) = bytes.split_at(field.len() * field.dtype.size());
                let (own_mask, mask_rest) = mask.split_at(space.mask_len().min(mask.len()));
                contains(space, own, std::slice::from_ref(field), own_mask)
                    .map_err(|problem| format!("field {name:?}: {problem}"))?;
                (bytes, mask) = (rest, mask_rest);
            }
            Ok(())
        }
        _ => space.contains(bytes, fields, mask),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::data! {
        struct Gripper {
            turn: [f32; 2],
            grip: i32,
        }
    }

    macro_rules! task {
        ($name:ident, $action:ty, $mask:ty, $space:expr) => {
            struct $name;
            impl Task for $name {
                type Observation = f32;
                type Action = $action;
                type Mask = $mask;
                fn observation_space() -> Space {
                    Space::unbounded(1)
                }
                fn action_space() -> Space {
                    $space
                }
            }
        };
    }
    task!(Pick, i32, [u8; 3], Space::discrete(3));
    task!(Push, [f32; 2], (), Space::uniform(-1.0, 1.0, 2));
    task!(Two, [i32; 2], (), Space::MultiDiscrete { n: vec![2, 4] });
    task!(
        Hand,
        Gripper,
        (),
        Space::Fields(vec![("turn".into(), Space::uniform(-1.0, 1.0, 2)), ("grip".into(), Space::discrete(2))])
    );

    fn check<T: Task>(masks: Masks<'_>, actions: &[T::Action]) -> Result<(), Illegal> {
        check_actions::<T>(&T::action_space(), &T::Action::fields(), masks, actions)
    }

    fn illegal(row: usize, value: &str, legal: &str) -> Result<(), Illegal> {
        Err((row, value.into(), legal.into()))
    }

    #[test]
    fn an_index_is_checked_against_space_and_mask() {
        let none = Masks::new::<()>(&[]);
        assert_eq!(check::<Pick>(none, &[0, 2, 1]), Ok(()));
        assert_eq!(check::<Pick>(none, &[0, 3, -1]), illegal(1, "3", "0 to 2"));
        assert_eq!(check::<Pick>(none, &[0, 2, -1]), illegal(2, "-1", "0 to 2"));
        let masks = [[1_u8, 1, 1], [0, 1, 1]];
        assert_eq!(check::<Pick>(Masks::new(&masks), &[0, 1]), Ok(()));
        let forbidden = illegal(1, "0, which the mask forbids", "[1, 2]");
        assert_eq!(check::<Pick>(Masks::new(&masks), &[0, 0]), forbidden);
    }

    #[test]
    fn a_number_need_be_finite_only() {
        let none = Masks::new::<()>(&[]);
        assert_eq!(check::<Push>(none, &[[0.0, 17.0], [-1.0, -3.0]]), Ok(()));
        let nan = illegal(1, "element 0 is NaN", "a finite number");
        assert_eq!(check::<Push>(none, &[[0.0, 17.0], [f32::NAN, -3.0]]), nan);
    }

    #[test]
    fn composite_actions_name_their_part() {
        let none = Masks::new::<()>(&[]);
        assert_eq!(check::<Two>(none, &[[1, 3], [0, 0]]), Ok(()));
        assert_eq!(check::<Two>(none, &[[1, 3], [0, 4]]), illegal(1, "element 1: 4", "0 to 3"));
        assert_eq!(check::<Hand>(none, &[Gripper { turn: [5.0, 0.0], grip: 1 }]), Ok(()));
        let wrong = [Gripper { turn: [0.0, 0.0], grip: 2 }];
        assert_eq!(check::<Hand>(none, &wrong), illegal(0, "field \"grip\": 2", "0 to 1"));
    }
}
