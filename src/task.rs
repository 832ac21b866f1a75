//! A task: what is seen, what is done, and the spaces of both.

use crate::{
    data::{Data, width},
    error::Error,
    space::Space,
};

/// What a policy sees and does. Rows of one task share columns, policy and batches.
///
/// Environments that gleaner steps implement [`Env`](crate::env::Env) or [`BatchEnv`](crate::env::BatchEnv) on top;
/// a host that steps its own entities needs no more than this.
pub trait Task: Send + Sync + 'static {
    /// What the policy sees: an array of numbers, or a struct by [`data!`](crate::data!).
    type Observation: Data;
    /// What the policy does. `i32` for discrete actions, `[f32; N]` for continuous ones.
    type Action: Data;
    /// Legal-action mask: `[u8; N]` with a byte an action, or `()` if all actions are always legal.
    type Mask: Data;

    /// The values that observations take.
    fn observation_space() -> Space;

    /// The values that actions take.
    fn action_space() -> Space;
}

/// Compares the spaces of a task with its types. Errors: [`Error::Space`], which says what is wrong, and what is legal.
pub fn check_spaces<T: Task>() -> Result<(), Error> {
    let task = std::any::type_name::<T>;
    let error = |what, problem| Error::Space { what, task: task().into(), problem };
    T::observation_space().check(&T::Observation::fields()).map_err(|problem| error("observation", problem))?;
    let actions = T::action_space();
    actions.check(&T::Action::fields()).map_err(|problem| error("action", problem))?;
    let mask = size_of::<T::Mask>();
    if mask != 0 && (mask != actions.mask_len() || width::<T::Mask>() != mask) {
        let problem =
            format!("the mask type has {mask} bytes; legal: (), or [u8; {}] for {actions}", actions.mask_len());
        return Err(error("action", problem));
    }
    Ok(())
}
