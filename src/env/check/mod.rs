//! Tells what is wrong with an environment before anything is collected from it.

mod inspect;
mod report;
mod run;

pub use report::{CheckReport, Finding, FindingKind, Place};

use std::{
    any::type_name,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::Env;
use crate::{
    data::{Data, width},
    error::panic_message,
    space::Space,
    task::Task,
};
use report::Findings;
use run::Run;

/// Runs an environment on random legal actions and lists all that is wrong with it.
///
/// Eight episodes, two rows of four, of at most 256 frames each; one of them is cut short, as a forced reset does.
/// Found are: spaces that do not describe their types, observations outside their space, numbers that are not finite,
/// panics, frames both terminated and truncated, masks that forbid everything, miss entries or change by themselves,
/// data that state, action and stream do not determine, state that leaks over a reset, and state that its codec does not
/// bring back. An environment that never
/// ends is fine. The default options are used.
///
/// Panics are caught, which needs `panic = "unwind"`; their usual messages are printed all the same. Errors: the
/// [`CheckReport`] of all that was found.
///
/// ```
/// gleaner::env::check_env::<gleaner::env::CartPole>().unwrap();
/// ```
pub fn check_env<E: Env + Default>() -> Result<(), CheckReport> {
    check_env_with(E::default, &E::Options::default())
}

/// [`check_env`] for an environment that `build` makes and `options` reset.
///
/// `build` is called several times and must make equal environments. Errors: those of `check_env`.
pub fn check_env_with<E: Env>(build: impl Fn() -> E, options: &E::Options) -> Result<(), CheckReport> {
    let mut findings = Findings::default();
    let spaces = check_task::<E>(&mut findings);
    if E::TIME_LIMIT == Some(0) {
        findings.add(FindingKind::TimeLimit, None, "TIME_LIMIT", "is Some(0)", "None, or Some of at least 1");
    }
    if let Some(spaces) = spaces {
        Run::new(&build, options, spaces, &mut findings).episodes();
    }
    findings.into_result(type_name::<E>())
}

/// The spaces that the run needs.
struct Spaces {
    /// None if it does not describe its type: then observations are only checked to be finite.
    observation: Option<Space>,
    action: Space,
}

/// Checks what needs no instance; nothing is returned if no action can be drawn.
fn check_task<T: Task>(findings: &mut Findings) -> Option<Spaces> {
    let observation = check_space("observation_space", T::observation_space, findings, |space| {
        space.check(&T::Observation::fields())
    });
    let action = check_space("action_space", T::action_space, findings, |space| {
        space.check(&T::Action::fields())?;
        let (mask, entries) = (size_of::<T::Mask>(), space.mask_len());
        if mask == 0 || (mask == entries && width::<T::Mask>() == mask) {
            return Ok(());
        }
        Err(format!("the mask type has {mask} bytes; legal: (), or [u8; {entries}] for {space}"))
    });
    Some(Spaces { observation, action: action? })
}

fn check_space(
    name: &'static str,
    space: impl Fn() -> Space,
    findings: &mut Findings,
    check: impl Fn(&Space) -> Result<(), String>,
) -> Option<Space> {
    let space = match catch(name, space) {
        Ok(space) => space,
        Err(panic) => {
            panic.report(findings, None);
            return None;
        }
    };
    match check(&space) {
        Ok(()) => Some(space),
        Err(problem) => {
            let (problem, legal) =
                problem.split_once("; legal: ").unwrap_or((&problem, "a space of the dtype and shape of its type"));
            findings.add(FindingKind::Space, None, name, format!("does not fit: {problem}"), legal);
            None
        }
    }
}

/// A caught panic of user code.
struct Panic {
    call: &'static str,
    message: String,
}

impl Panic {
    fn report(self, findings: &mut Findings, place: Option<Place>) {
        findings.add(FindingKind::Panic, place, self.call, format!("panicked: {}", self.message), "no panic");
    }
}

fn catch<R>(call: &'static str, f: impl FnOnce() -> R) -> Result<R, Panic> {
    // What a panicking call leaves behind is thrown away by every caller.
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| Panic { call, message: panic_message(payload) })
}
