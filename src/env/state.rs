//! How the state of an environment becomes bytes in a checkpoint, and what it is again after.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

use bytemuck::Pod;
use serde::{Serialize, de::DeserializeOwned};

use crate::error::{BoxError, Error, panic_message};

/// Saves the state of an environment and loads it again, so that an episode goes on where a checkpoint was made.
///
/// One line in an implementation of [`Env`](super::Env) or [`BatchEnv`](super::BatchEnv): plain old data by
/// [`pod`](Self::pod), any type that serde knows by [`serde`](Self::serde), all others by functions of their own.
///
/// ```
/// # use gleaner::prelude::*;
/// use gleaner::env::StateCodec;
///
/// #[derive(bevy_ecs::prelude::Component, serde::Serialize, serde::Deserialize)]
/// struct Count(u32);
/// # impl Task for Count {
/// #     type Observation = f32;
/// #     type Action = i32;
/// #     type Mask = ();
/// #     fn observation_space() -> Space { Space::unbounded(1) }
/// #     fn action_space() -> Space { Space::discrete(2) }
/// # }
///
/// impl Env for Count {
///     type Options = ();
///     const STATE: Option<StateCodec<Self>> = Some(StateCodec::serde());
/// #   fn reset(&mut self, _: &(), _: &mut Stream) -> f32 { self.0 = 0; 0.0 }
/// #   fn step(&mut self, action: &i32, _: &mut Stream) -> Transition<f32> {
/// #       self.0 += *action as u32;
/// #       Transition { observation: self.0 as f32, reward: 1.0, terminated: self.0 > 9, truncated: false }
/// #   }
///     // reset, step …
/// }
///
/// let mut bytes = Vec::new();
/// let codec = Count::STATE.unwrap();
/// codec.save(&Count(7), &mut bytes);
/// let mut other = Count(0);
/// codec.load(&mut other, &bytes)?;
/// assert_eq!(other.0, 7);
/// # Ok::<(), gleaner::BoxError>(())
/// ```
pub struct StateCodec<E: ?Sized> {
    save: fn(&E, &mut Vec<u8>),
    load: fn(&mut E, &[u8]) -> Result<(), BoxError>,
}

impl<E: ?Sized> StateCodec<E> {
    /// By two functions: `save` appends all that `step` and `action_mask` depend on beside action and stream, `load`
    /// brings it into an environment that the same factory built. The bytes may be those of a spoiled file: what is
    /// wrong with them is an error of `load`.
    pub const fn new(save: fn(&E, &mut Vec<u8>), load: fn(&mut E, &[u8]) -> Result<(), BoxError>) -> Self {
        Self { save, load }
    }

    /// Appends the state of `env`.
    pub fn save(&self, env: &E, to: &mut Vec<u8>) {
        (self.save)(env, to);
    }

    /// Gives `env` the state that was saved. Errors: what the codec says of wrong bytes.
    pub fn load(&self, env: &mut E, from: &[u8]) -> Result<(), BoxError> {
        (self.load)(env, from)
    }

    /// [`save`](Self::save) for a checkpoint; `what` names the environment in errors. Errors: a panic.
    pub(super) fn saved(&self, env: &E, what: &str) -> Result<Vec<u8>, Error> {
        let saved = catch_unwind(AssertUnwindSafe(|| {
            let mut bytes = Vec::new();
            self.save(env, &mut bytes);
            bytes
        }));
        saved.map_err(|payload| problem(what, "save", panic_message(payload)))
    }

    /// [`load`](Self::load) from a checkpoint. Errors: those of the codec, a panic.
    pub(super) fn loaded(&self, env: &mut E, from: &[u8], what: &str) -> Result<(), Error> {
        let loaded = catch_unwind(AssertUnwindSafe(|| self.load(env, from)));
        let done = loaded.unwrap_or_else(|payload| Err(format!("it panicked: {}", panic_message(payload)).into()));
        done.map_err(|error| problem(what, "load", error))
    }
}

fn problem(what: &str, call: &str, problem: impl fmt::Display) -> Error {
    Error::Checkpoint(format!("{call} of the state of {what}: {problem}"))
}

impl<E> StateCodec<E> {
    /// The environment's own bytes. Its fields may then have any value of their types.
    pub const fn pod() -> Self
    where
        E: Pod,
    {
        Self::new(
            |env, to| to.extend_from_slice(bytemuck::bytes_of(env)),
            |env, from| {
                let legal = size_of::<E>();
                *env = bytemuck::try_pod_read_unaligned(from)
                    .map_err(|_| format!("{} bytes; legal: {legal}", from.len()))?;
                Ok(())
            },
        )
    }

    /// The whole environment by serde, in the postcard format.
    pub const fn serde() -> Self
    where
        E: Serialize + DeserializeOwned,
    {
        Self::new(
            |env, to| match postcard::to_extend(env, std::mem::take(to)) {
                Ok(bytes) => *to = bytes,
                Err(error) => panic!("{error}"),
            },
            |env, from| {
                let (read, rest) = postcard::take_from_bytes(from)?;
                if !rest.is_empty() {
                    return Err(format!("{} bytes are left over", rest.len()).into());
                }
                *env = read;
                Ok(())
            },
        )
    }
}

impl<E: ?Sized> Clone for StateCodec<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E: ?Sized> Copy for StateCodec<E> {}

impl<E: ?Sized> fmt::Debug for StateCodec<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateCodec")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round<E: PartialEq + fmt::Debug>(codec: StateCodec<E>, env: E, mut other: E) -> Vec<u8> {
        let bytes = codec.saved(&env, "it").expect("no panic");
        codec.loaded(&mut other, &bytes, "it").expect("its own bytes");
        assert_eq!(env, other);
        for wrong in [&bytes[..bytes.len() - 1], &[&bytes[..], &[0]].concat()] {
            assert!(codec.loaded(&mut other, wrong, "row 3").expect_err("wrong").to_string().contains("row 3"));
        }
        assert_eq!(env, other, "an error changes nothing");
        bytes
    }

    #[test]
    fn codecs_give_back_what_they_were_given() {
        assert_eq!(round(StateCodec::pod(), [1.5_f32, -0.0], [9.0; 2]).len(), 8);
        round(StateCodec::serde(), (7_u32, vec![1_u8, 2], Some(0.5_f32)), Default::default());
    }

    #[test]
    fn a_panic_is_an_error() {
        let codec = StateCodec::<u8>::new(|_, _| panic!("full"), |_, _| panic!("empty"));
        assert!(codec.saved(&1, "row 3").expect_err("it panics").to_string().contains("row 3: full"));
        assert!(codec.loaded(&mut 1, &[], "row 3").expect_err("it panics").to_string().contains("panicked: empty"));
    }
}
