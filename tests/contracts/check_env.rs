//! `check_env` finds each fault that it documents, names it with place, value and what is legal, lists all faults of one
//! environment at once, and finds none in the environments that gleaner brings.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bevy_ecs::prelude::Component;
use gleaner::{
    env::{
        Acrobot, CartPole, Env, GridWorld, GridWorldOptions, MountainCar, MountainCarContinuous, Pendulum, Stacked,
        StateCodec, Transition,
        check::{Finding, FindingKind},
        check_env, check_env_with,
    },
    seed::Stream,
    space::Space,
    task::Task,
};

type Step = Transition<[f32; 2]>;

fn running(observation: [f32; 2]) -> Step {
    Transition { observation, reward: 0.5, terminated: false, truncated: false }
}

/// A sound environment, of which each test breaks one method.
trait Breakable: Default + Send + Sync + 'static {
    const LIMIT: Option<u32> = Some(50);
    fn observation_space() -> Space {
        Space::uniform(0.0, 1.0, 2)
    }
    fn action_space() -> Space {
        Space::discrete(3)
    }
    fn reset(&mut self, stream: &mut Stream) -> [f32; 2] {
        [stream.unit(), 0.0]
    }
    fn step(&mut self, _action: i32, stream: &mut Stream) -> Step {
        running([stream.unit(), 0.5])
    }
    fn mask(&self, mask: &mut [u8; 3]) {
        *mask = [1; 3];
    }
}

#[derive(Component, Default)]
struct Sim<B: Breakable>(B);

impl<B: Breakable> Task for Sim<B> {
    type Observation = [f32; 2];
    type Action = i32;
    type Mask = [u8; 3];
    fn observation_space() -> Space {
        B::observation_space()
    }
    fn action_space() -> Space {
        B::action_space()
    }
}

impl<B: Breakable> Env for Sim<B> {
    type Options = ();
    const TIME_LIMIT: Option<u32> = B::LIMIT;
    fn reset(&mut self, _: &(), stream: &mut Stream) -> [f32; 2] {
        self.0.reset(stream)
    }
    fn step(&mut self, action: &i32, stream: &mut Stream) -> Step {
        self.0.step(*action, stream)
    }
    fn action_mask(&self, mask: &mut [u8; 3]) {
        self.0.mask(mask);
    }
}

fn findings<B: Breakable>() -> Vec<Finding> {
    check_env::<Sim<B>>().expect_err("nothing found").findings
}

/// The one finding, in words.
fn only<B: Breakable>(kind: FindingKind) -> String {
    let findings = findings::<B>();
    assert_eq!(findings.iter().map(|finding| finding.kind).collect::<Vec<_>>(), [kind], "{findings:#?}");
    findings[0].to_string()
}

/// Declares a broken environment: its fields, then the methods that differ.
macro_rules! broken {
    ($name:ident { $($field:ident: $type:ty),* } $($body:tt)*) => {
        #[derive(Default)]
        struct $name { $($field: $type),* }
        impl Breakable for $name { $($body)* }
    };
}

#[test]
fn what_gleaner_brings_is_sound() {
    broken!(Sound {});
    check_env::<Sim<Sound>>().unwrap();
    check_env::<CartPole>().unwrap();
    check_env::<Pendulum>().unwrap();
    check_env::<MountainCar>().unwrap();
    check_env::<MountainCarContinuous>().unwrap();
    check_env::<Acrobot>().unwrap();
    check_env::<GridWorld>().unwrap();
    check_env::<Stacked<CartPole, 4>>().unwrap();
    check_env::<Stacked<GridWorld, 2>>().unwrap();
    let options = GridWorldOptions { start: Some([2, 2]) };
    check_env_with(|| Stacked::<_, 3>::new(GridWorld::default()), &options).unwrap();
}

#[test]
fn spaces_that_do_not_fit_their_types() {
    broken!(Observation {} fn observation_space() -> Space { Space::uniform(0.0, 1.0, 3) });
    let found = only::<Observation>(FindingKind::Space);
    assert_eq!(
        found,
        "observation_space does not fit: it has 3 elements, the type has 2 (shape [2]); legal: a space of the dtype and shape of its type"
    );
    broken!(Action {} fn action_space() -> Space { Space::uniform(0.0, 1.0, 2) });
    assert!(only::<Action>(FindingKind::Space).starts_with("action_space does not fit: it has 2 elements"));
    broken!(Mask {} fn action_space() -> Space { Space::discrete(4) });
    let found = only::<Mask>(FindingKind::Space);
    assert!(found.ends_with("the mask type has 3 bytes; legal: (), or [u8; 4] for discrete(4)"), "{found}");
    broken!(Panics {} fn action_space() -> Space { panic!("no space") });
    assert_eq!(only::<Panics>(FindingKind::Panic), "action_space panicked: no space; legal: no panic");
}

#[test]
fn a_time_limit_without_frames() {
    broken!(Limit {} const LIMIT: Option<u32> = Some(0););
    assert_eq!(only::<Limit>(FindingKind::TimeLimit), "TIME_LIMIT is Some(0); legal: None, or Some of at least 1");
}

#[test]
fn an_observation_outside_its_space() {
    broken!(Outside { steps: u32 }
        fn reset(&mut self, stream: &mut Stream) -> [f32; 2] {
            self.steps = 0;
            [stream.unit(), 0.0]
        }
        fn step(&mut self, _: i32, stream: &mut Stream) -> Step {
            self.steps += 1;
            running([stream.unit(), if self.steps == 3 { 1.5 } else { 0.0 }])
        }
    );
    assert_eq!(
        only::<Outside>(FindingKind::OutsideSpace),
        "observation element 1 is 1.5 (row 0, episode 0, step 2; 8 times in all); legal: 0 to 1"
    );
}

#[test]
fn numbers_that_are_not_finite() {
    broken!(Observation {} fn reset(&mut self, _: &mut Stream) -> [f32; 2] { [0.0, f32::NAN] });
    let found = only::<Observation>(FindingKind::NotFinite);
    assert!(found.starts_with("observation element 1 is NaN (row 0, episode 0, reset"), "{found}");
    broken!(Reward {} fn step(&mut self, _: i32, _: &mut Stream) -> Step {
        Transition { reward: f32::INFINITY, ..running([0.0; 2]) }
    });
    let found = only::<Reward>(FindingKind::NotFinite);
    assert!(found.starts_with("reward is inf (row 0, episode 0, step 0"), "{found}");
}

#[test]
fn panics_are_caught_and_named() {
    broken!(InReset {} fn reset(&mut self, _: &mut Stream) -> [f32; 2] { panic!("no start") });
    assert!(only::<InReset>(FindingKind::Panic).starts_with("reset panicked: no start (row 0, episode 0, reset"));
    broken!(InStep {} fn step(&mut self, _: i32, _: &mut Stream) -> Step { panic!("bad {}", 7) });
    assert!(only::<InStep>(FindingKind::Panic).starts_with("step panicked: bad 7 (row 0, episode 0, step 0; 8 times"));
    broken!(InMask {} fn mask(&self, _: &mut [u8; 3]) { panic!("no mask") });
    assert!(only::<InMask>(FindingKind::Panic).starts_with("action_mask panicked: no mask (row 0, episode 0, reset"));
    broken!(Sound {});
    let error = check_env_with(|| -> Sim<Sound> { panic!("no file") }, &()).unwrap_err();
    assert_eq!(error.findings.len(), 1);
    assert!(error.to_string().contains("build panicked: no file (row 0, episode 0, reset)"), "{error}");
}

#[test]
fn a_frame_with_both_ends() {
    broken!(Both {} fn step(&mut self, _: i32, _: &mut Stream) -> Step {
        Transition { terminated: true, truncated: true, ..running([0.0; 2]) }
    });
    let found = only::<Both>(FindingKind::BothEnds);
    assert!(found.starts_with("end is both terminated and truncated (row 0, episode 0, step 0; 8 times"), "{found}");
}

#[test]
fn masks_that_forbid_all_or_miss_entries_or_change_by_themselves() {
    broken!(Empty {} fn mask(&self, mask: &mut [u8; 3]) { *mask = [0; 3]; });
    let found = only::<Empty>(FindingKind::EmptyMask);
    assert!(found.starts_with("mask forbids all of 0 to 2 (row 0, episode 0, reset"), "{found}");

    broken!(Unwritten {} fn mask(&self, mask: &mut [u8; 3]) { (mask[0], mask[2]) = (1, 0); });
    let found = only::<Unwritten>(FindingKind::UnwrittenMask);
    assert!(found.starts_with("mask entry 1 is not written by action_mask (row 0, episode 0, reset"), "{found}");

    broken!(Unstable { calls: AtomicU32 } fn mask(&self, mask: &mut [u8; 3]) {
        *mask = [1, 1, self.calls.fetch_add(1, Relaxed) as u8 & 1];
    });
    let found = findings::<Unstable>();
    assert_eq!(found[0].kind, FindingKind::UnstableMask);
    assert!(found[0].to_string().starts_with("mask entry 2 is 0, and 1 when action_mask is called again"));
}

#[test]
fn a_mask_is_obeyed() {
    broken!(Obeyed { position: i32 }
        fn reset(&mut self, _: &mut Stream) -> [f32; 2] {
            self.position = 0;
            [0.0; 2]
        }
        fn step(&mut self, action: i32, _: &mut Stream) -> Step {
            assert_ne!(action, self.position, "an action that the mask forbids");
            self.position = action;
            running([0.0; 2])
        }
        fn mask(&self, mask: &mut [u8; 3]) {
            *mask = std::array::from_fn(|i| u8::from(i as i32 != self.position));
        }
    );
    check_env::<Sim<Obeyed>>().unwrap();
}

#[test]
fn data_that_the_stream_does_not_determine() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    broken!(Ambient {} fn step(&mut self, _: i32, stream: &mut Stream) -> Step {
        Transition { reward: CALLS.fetch_add(1, Relaxed) as f32, ..running([stream.unit(), 0.5]) }
    });
    let found = only::<Ambient>(FindingKind::NotDeterministic);
    assert!(
        found.starts_with("reward is 1 in a new instance and 2 in another, with the same stream and actions (row 0"),
        "{found}"
    );
}

#[test]
fn instances_that_share_state() {
    // Alone each would be sound: the shared state is reset with the instance.
    static SHARED: AtomicU32 = AtomicU32::new(0);
    broken!(Sharing {}
        fn reset(&mut self, _: &mut Stream) -> [f32; 2] {
            SHARED.store(0, Relaxed);
            [0.0; 2]
        }
        fn step(&mut self, _: i32, _: &mut Stream) -> Step {
            running([SHARED.fetch_add(1, Relaxed) as f32 / 1000.0, 0.0])
        }
    );
    let found = only::<Sharing>(FindingKind::NotDeterministic);
    assert!(found.starts_with("observation element 0 is 0.001 in a new instance and 0.002 in another"), "{found}");
}

#[test]
fn state_that_leaks_over_a_reset() {
    broken!(Leak { total: u32 } fn step(&mut self, _: i32, stream: &mut Stream) -> Step {
        self.total += 1;
        running([stream.unit(), self.total as f32 / 1000.0])
    });
    let found = only::<Leak>(FindingKind::StateLeak);
    assert!(
        found.starts_with("observation element 1 is 0.001 in a new instance and 0.051 in one that ran before, with"),
        "{found}"
    );
    assert!(found.contains("(row 0, episode 1, step 0;"), "{found}");
}

/// Counts to its length; what the codec leaves out shows.
#[derive(Component, Default)]
struct Counts<const FORGETS: bool> {
    steps: u32,
}

impl<const FORGETS: bool> Task for Counts<FORGETS> {
    type Observation = [f32; 2];
    type Action = i32;
    type Mask = ();
    fn observation_space() -> Space {
        Space::uniform(0.0, 100.0, 2)
    }
    fn action_space() -> Space {
        Space::discrete(3)
    }
}

impl<const FORGETS: bool> Env for Counts<FORGETS> {
    type Options = ();
    const TIME_LIMIT: Option<u32> = Some(50);
    const STATE: Option<StateCodec<Self>> = Some(StateCodec::new(
        |env, to| to.push(if FORGETS { 0 } else { env.steps as u8 }),
        |env, from| {
            env.steps = u32::from(*from.first().ok_or("no bytes")?);
            Ok(())
        },
    ));
    fn reset(&mut self, _: &(), _: &mut Stream) -> [f32; 2] {
        self.steps = 0;
        [0.0; 2]
    }
    fn step(&mut self, _: &i32, _: &mut Stream) -> Step {
        self.steps += 1;
        running([self.steps as f32, 0.0])
    }
}

#[test]
fn state_that_a_codec_forgets() {
    check_env::<Counts<false>>().unwrap();
    let findings = check_env::<Counts<true>>().expect_err("it forgets").findings;
    let [finding] = &findings[..] else { panic!("{findings:#?}") };
    assert_eq!((finding.kind, &*finding.subject), (FindingKind::SavedState, "observation element 0"));
    assert!(finding.to_string().contains("in one that was saved and loaded"), "{finding}");
}

#[test]
fn all_findings_are_listed() {
    broken!(Wrong { total: f32 }
        const LIMIT: Option<u32> = None;
        fn observation_space() -> Space { Space::discrete(0) }
        fn step(&mut self, _: i32, _: &mut Stream) -> Step {
            self.total += 1.0;
            Transition { observation: [self.total, f32::NAN], reward: f32::NAN, terminated: true, truncated: true }
        }
        fn mask(&self, mask: &mut [u8; 3]) { mask[0] = 1; }
    );
    let error = check_env::<Sim<Wrong>>().unwrap_err();
    let kinds: Vec<_> = error.findings.iter().map(|finding| (finding.kind, finding.subject.as_str())).collect();
    assert_eq!(
        kinds,
        [
            (FindingKind::Space, "observation_space"),
            (FindingKind::UnwrittenMask, "mask entry 1"),
            (FindingKind::UnwrittenMask, "mask entry 2"),
            (FindingKind::NotFinite, "observation element 1"),
            (FindingKind::NotFinite, "reward"),
            (FindingKind::BothEnds, "end"),
            (FindingKind::StateLeak, "observation element 0"),
        ]
    );
    let shown = format!("{error:?}");
    assert_eq!(shown.lines().count(), 8, "{shown}");
    assert!(shown.starts_with("7 findings in contracts::check_env::Sim<"), "{shown}");
}
