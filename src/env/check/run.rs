//! Steps instances of one environment side by side.

use bytemuck::{Zeroable, bytes_of, bytes_of_mut};

use super::{
    Panic, Place, Spaces, catch,
    inspect::{Elements, check_masks, compare},
    report::{FindingKind, Findings},
};
use crate::{
    data::Data,
    env::{Env, Transition},
    seed::{Purpose, Seed, Stream},
};

/// Seed of the streams: with the row and episode of a finding it replays it.
const SEED: Seed = Seed(0);
const ROWS: u32 = 2;
/// Frames after which each episode of a row is cut, if it has not ended.
const LENGTHS: [u32; 4] = [256, 3, 256, 256];

/// What an instance showed after a reset or step.
pub(super) struct Frame<E: Env> {
    pub observation: E::Observation,
    pub reward: f32,
    pub terminated: bool,
    pub truncated: bool,
    /// The mask as written over zeros, over zeros again, and over ones.
    pub masks: [E::Mask; 3],
}

struct Instance<E> {
    env: E,
    stream: Stream,
}

impl<E: Env> Instance<E> {
    /// Resets, or steps if there is an action.
    fn advance(&mut self, action: Option<&E::Action>, options: &E::Options) -> Result<Frame<E>, Panic> {
        let stream = &mut self.stream;
        let Transition { observation, reward, terminated, truncated } = match action {
            Some(action) => catch("step", || self.env.step(action, stream))?,
            None => {
                let observation = catch("reset", || self.env.reset(options, stream))?;
                Transition { observation, reward: 0.0, terminated: false, truncated: false }
            }
        };
        let masks = [self.mask(0)?, self.mask(0)?, self.mask(1)?];
        Ok(Frame { observation, reward, terminated, truncated, masks })
    }

    /// The mask as written over bytes of `fill`.
    fn mask(&self, fill: u8) -> Result<E::Mask, Panic> {
        let mut mask = E::Mask::zeroed();
        bytes_of_mut(&mut mask).fill(fill);
        if size_of::<E::Mask>() != 0 {
            catch("action_mask", || self.env.action_mask(&mut mask))?;
        }
        Ok(mask)
    }
}

/// The check of one environment.
pub(super) struct Run<'a, E: Env> {
    build: &'a dyn Fn() -> E,
    options: &'a E::Options,
    spaces: Spaces,
    elements: Elements,
    findings: &'a mut Findings,
    /// The instance that lives on from episode to episode; none before the first and after a panic.
    veteran: Option<E>,
}

impl<'a, E: Env> Run<'a, E> {
    pub(super) fn new(
        build: &'a dyn Fn() -> E,
        options: &'a E::Options,
        spaces: Spaces,
        findings: &'a mut Findings,
    ) -> Self {
        let elements = Elements::new::<E>(spaces.observation.as_ref());
        Self { build, options, spaces, elements, findings, veteran: None }
    }

    pub(super) fn episodes(mut self) {
        for row in 0..ROWS {
            for (episode, length) in (0..).zip(LENGTHS) {
                let place = Place { row, episode, step: None };
                let length = E::TIME_LIMIT.map_or(length, |limit| length.min(limit));
                match catch("build", || self.instances(place)) {
                    Ok((instances, kind)) => {
                        self.veteran = self.episode(instances, kind, place, length).map(|instance| instance.env);
                    }
                    // Nothing else can be learnt.
                    Err(panic) => return panic.report(self.findings, Some(place)),
                }
            }
        }
    }

    /// The veteran and new instances under one stream, and what a difference of the veteran means.
    fn instances(&mut self, place: Place) -> (Vec<Instance<E>>, FindingKind) {
        let kind = if self.veteran.is_some() { FindingKind::StateLeak } else { FindingKind::NotDeterministic };
        let veteran = self.veteran.take().unwrap_or_else(self.build);
        let envs = [veteran, (self.build)(), (self.build)()];
        // One more, to be saved and loaded on the way.
        let saved = E::STATE.map(|_| (self.build)());
        let stream = Stream::new(SEED, place.row, Purpose::Env, place.episode);
        (envs.into_iter().chain(saved).map(|env| Instance { env, stream }).collect(), kind)
    }

    /// Runs one episode of `instances`, the veteran first, interleaved so that what they share shows. Gives the veteran
    /// back unless something panicked.
    fn episode(
        &mut self,
        mut instances: Vec<Instance<E>>,
        kind: FindingKind,
        mut place: Place,
        length: u32,
    ) -> Option<Instance<E>> {
        let mut actions = Stream::new(SEED, place.row, Purpose::Action, place.episode);
        let mut action = None;
        for step in 0..=length {
            let frames: Result<Vec<_>, _> =
                instances.iter_mut().map(|instance| instance.advance(action.as_ref(), self.options)).collect();
            let frames = frames.map_err(|panic| panic.report(self.findings, Some(place))).ok()?;
            if !self.alike(&frames, kind, place) {
                // Its actions would not be legal for the others any more.
                instances.truncate(1);
            }
            let frame = &frames[0];
            self.elements.check(frame, place, self.findings);
            let legal = check_masks(&self.spaces.action, &frame.masks, place, self.findings);
            if !legal || frame.terminated || frame.truncated {
                break;
            }
            let mut drawn = E::Action::zeroed();
            // Entries that `action_mask` does not write count as legal, so that the rest is checked too.
            let mask = bytes_of(&frame.masks[2]);
            self.spaces.action.sample(&mut actions, bytes_of_mut(&mut drawn), &E::Action::fields(), mask);
            action = Some(drawn);
            place.step = Some(step);
            if step.is_power_of_two() || step == 0 {
                self.reload(&mut instances, place);
            }
        }
        instances.into_iter().next()
    }

    /// Replaces the last instance, if there are four, by a new one that has its state from the codec.
    fn reload(&mut self, instances: &mut Vec<Instance<E>>, place: Place) {
        let (Some(codec), [_, _, _, last]) = (E::STATE, &mut instances[..]) else { return };
        let loaded = catch("StateCodec", || {
            let (mut env, mut bytes) = ((self.build)(), Vec::new());
            codec.save(&last.env, &mut bytes);
            codec.load(&mut env, &bytes).map(|()| env)
        });
        match loaded {
            Ok(Ok(env)) => return last.env = env,
            Ok(Err(error)) => {
                let problem = format!("does not load what it saved: {error}");
                self.findings.add(
                    FindingKind::SavedState,
                    Some(place),
                    "STATE",
                    problem,
                    "a codec that takes its own bytes",
                );
            }
            Err(panic) => panic.report(self.findings, Some(place)),
        }
        instances.truncate(3);
    }

    /// Whether all instances showed the same; `kind` is what a difference between the veteran and both others means.
    fn alike(&mut self, frames: &[Frame<E>], kind: FindingKind, place: Place) -> bool {
        let [veteran, first, second, saved @ ..] = frames else { return true };
        let pairs = [(FindingKind::NotDeterministic, second), (kind, veteran)];
        let pairs = pairs.into_iter().chain(saved.iter().map(|saved| (FindingKind::SavedState, saved)));
        let found = pairs.map(|(kind, other)| (kind, compare(&self.elements, first, other)));
        let Some((kind, differences)) = found.into_iter().find(|(_, differences)| !differences.is_empty()) else {
            return true;
        };
        let (other, legal) = match kind {
            FindingKind::StateLeak => ("one that ran before", "reset makes all state anew"),
            FindingKind::SavedState => {
                ("one that was saved and loaded", "STATE saves all that steps and masks depend on")
            }
            _ => ("another", "state, action and stream alone decide, and instances share nothing that changes"),
        };
        for (subject, [a, b]) in differences {
            let problem = format!("is {a} in a new instance and {b} in {other}, with the same stream and actions");
            self.findings.add(kind, Some(place), subject, problem, legal);
        }
        false
    }
}
