//! Buffers that were written to in all ways, each with its model, and what every sample of them has to hold.

use gleaner::{
    components::{End, Flags, Truncation},
    replay::{Replay, Sample},
};
use proptest::{collection::vec, prelude::*};

use crate::made::{Block, Made, Model, Source};

/// A buffer, what it holds, and how it goes on.
#[derive(Debug)]
pub struct Scene {
    pub replay: Replay<Made>,
    pub model: Model,
    /// By frame number: how far the next frame of its row lies.
    pub steps: Vec<u64>,
}

/// A write: of one of two collectors or of whole episodes, so many ticks, bytes below a number end episodes, gaps.
type Write = (usize, usize, u8, bool);

/// Buffers of 1 to 89 frames after 1 to 11 writes, never empty.
pub fn scene() -> impl Strategy<Value = Scene> {
    let writes = vec((0..3_usize, 1..9_usize, 0..120_u8, any::<bool>()), 1..12);
    (1..90_usize, [1..8_usize, 1..8_usize], writes, vec(0..=255_u8, 97))
        .prop_map(|(capacity, rows, writes, script)| written(capacity, rows, &writes, &script))
        .prop_filter("an empty buffer", |scene| !scene.model.frames.is_empty())
}

fn written(capacity: usize, rows: [usize; 2], writes: &[Write], script: &[u8]) -> Scene {
    let mut scene = Scene::of_capacity(capacity);
    let mut sources = [Source::new(rows[0], 1), Source::new(rows[1], 2), Source::new(1, 3)];
    let (mut serial, mut at) = (0, 0);
    for &(source, ticks, ends, gaps) in writes {
        sources[source].set_serial(serial);
        let mut byte = || {
            at += 1;
            let byte = script[at % script.len()];
            if gaps && byte > 230 { 255 } else { byte.min(254) }
        };
        let (slots, shape) = match source {
            2 => (sources[2].episodes(&vec![1 + ticks; 1 + usize::from(ends) % 4]), None),
            _ => (sources[source].ticks(ticks, ends, &mut byte), Some(rows[source])),
        };
        serial = sources[source].serial();
        scene.write(&slots, shape);
    }
    scene
}

impl Scene {
    fn of_capacity(capacity: usize) -> Self {
        let replay = Replay::new(capacity as u64).expect("a buffer");
        Self { replay, model: Model::new(capacity), steps: Vec::new() }
    }

    /// Whole episodes of these lengths in an empty buffer, which is as large as they are.
    pub fn of_episodes(lengths: &[usize]) -> Self {
        let capacity = lengths.iter().sum();
        let mut scene = Self::of_capacity(capacity);
        scene.write(&Source::new(1, 0).episodes(lengths), None);
        scene
    }

    pub fn write(&mut self, slots: &[Option<crate::made::Frame>], rows: Option<usize>) {
        self.replay.extend(&Block::new(slots, rows)).expect("room");
        self.model.extend(slots, rows);
        let step = rows.filter(|_| slots.iter().all(Option::is_some)).unwrap_or(1);
        self.steps.resize(self.model.written as usize, step as u64);
    }

    /// The frame where the episode begins that goes on where another one has ended, whose newest frame is `last`.
    pub fn next_episode(&self, last: u64) -> Option<u64> {
        let next = last + self.steps[last as usize];
        let ended = self.model.frame(last).end != End::RUNNING;
        (ended && next < self.model.written && self.model.frame(next).step == 0).then_some(next)
    }

    /// Numbers of the frames of every trajectory, by step, in pieces without gaps.
    pub fn trajectories(&self) -> Vec<Vec<u64>> {
        self.model.ids().into_iter().map(|id| self.model.trajectory(id)).collect()
    }

    /// Frames that were drawn one by one: they are there, with the values that were written.
    pub fn check_frames(&self, sample: &Sample<Made>) {
        assert_eq!(sample.picks(), sample.len());
        for i in 0..sample.len() {
            self.check_frame(sample, i, false);
            let frame = self.model.frame(sample.frames()[i]);
            assert_eq!(sample.next_observation(i), &[frame.id as i32, frame.step as i32 + 1]);
        }
    }

    /// Slices: frames that are there, in each pick of one trajectory and `stride` steps apart, with the values that were
    /// written; other slots are zeros; the last frame of a pick is marked.
    pub fn check(&self, sample: &Sample<Made>, stride: u32) {
        self.check_picks(sample, stride, false);
    }

    /// The same of picks that may go on in another episode if `joins`.
    pub fn check_picks(&self, sample: &Sample<Made>, stride: u32, joins: bool) {
        for pick in 0..sample.picks() {
            let slots = sample.pick(pick);
            let valid: Vec<_> = slots.clone().filter(|i| sample.flags()[*i].valid()).collect();
            let (first, last) = (valid[0], valid[valid.len() - 1]);
            assert_eq!(valid.len(), last - first + 1, "frames lie together");
            for i in slots.clone() {
                if valid.contains(&i) {
                    self.check_frame(sample, i, i == last);
                } else {
                    assert_eq!((sample.frames()[i], sample.flags()[i]), (u64::MAX, Flags::INVALID));
                    assert_eq!(
                        (sample.observations()[i], sample.rewards()[i], sample.ends()[i].done()),
                        ([0; 2], 0.0, false)
                    );
                }
            }
            for pair in valid.windows(2) {
                let [one, two] = [pair[0], pair[1]].map(|i| self.model.frame(sample.frames()[i]));
                if joins && one.id != two.id {
                    assert_eq!(sample.next_observation(pair[0]), &[one.id as i32, one.step as i32 + 1]);
                    continue;
                }
                assert_eq!((one.id, one.step + stride), (two.id, two.step));
                assert_eq!(sample.next_observation(pair[0]), &sample.observations()[pair[1]]);
            }
            let frame = self.model.frame(sample.frames()[last]);
            assert_eq!(sample.next_observation(last), &[frame.id as i32, frame.step as i32 + 1]);
        }
    }

    fn check_frame(&self, sample: &Sample<Made>, i: usize, edge: bool) {
        let number = sample.frames()[i];
        assert!((self.model.tail()..self.model.written).contains(&number), "j3: {number} is not there");
        assert!(sample.index(i) < self.model.capacity as u64);
        let frame = self.model.frame(number);
        assert_eq!(sample.observations()[i], [frame.id as i32, frame.step as i32]);
        assert_eq!((sample.actions()[i], sample.rewards()[i]), (frame.serial as i32, frame.serial as f32));
        assert_eq!((sample.steps()[i].0, sample.trajectory_ids()[i].0), (frame.step, frame.id));
        let end = match frame.end {
            End::RUNNING if edge => End::truncated_by(Truncation::BatchEdge),
            end => end,
        };
        assert_eq!((sample.ends()[i], sample.flags()[i]), (end, Flags::VALID));
    }
}
