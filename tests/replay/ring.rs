//! The ring and its index against a list of frames.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use gleaner::{
    components::{ColumnSpec, Frames},
    replay::{Capacity, Replay, ReplayConfig, Storage},
};
use proptest::{collection::vec, prelude::*};

use crate::{
    made::{Block, Made, Model, Source},
    script::{Player, writes},
};

/// Everything that can be seen of the buffer is as in the model.
fn check(replay: &Replay<Made>, model: &Model) {
    assert_eq!(replay.frames(), model.tail()..model.written);
    let numbers: Vec<u64> = replay.frames().collect();
    let sample = replay.read(&numbers).expect("frames that are there");
    for (i, frame) in model.frames.iter().enumerate() {
        assert_eq!(sample.observations()[i], [frame.id as i32, frame.step as i32]);
        assert_eq!(sample.next_observation(i), &[frame.id as i32, frame.step as i32 + 1], "{frame:?}");
        assert_eq!(sample.actions()[i], frame.serial as i32);
        assert_eq!(sample.rewards()[i], frame.serial as f32);
        assert_eq!(sample.ends()[i], frame.end);
        assert_eq!((sample.steps()[i].0, sample.trajectory_ids()[i].0), (frame.step, frame.id));
        assert_eq!(sample.versions()[i], u64::from(!frame.serial));
    }
    let stored = replay.trajectories();
    let mut ids: Vec<u64> = stored.iter().map(|stored| stored.id.0).collect();
    ids.sort_unstable();
    assert_eq!(ids, model.ids());
    assert_eq!(replay.stats().trajectories as usize, ids.len());
    for stored in stored {
        let own = model.trajectory(stored.id.0);
        assert_eq!((stored.first, stored.frames as usize), (own[0], own.len()), "{stored:?}");
        let (first, last) = (model.frame(own[0]), model.frame(own[own.len() - 1]));
        assert_eq!(stored.complete, last.end.done(), "{stored:?}");
        assert_eq!(stored.end, last.end);
        assert_eq!(stored.beheaded, first.step > 0, "{stored:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// I16, O-18 for the writers: ticks with and without gaps, of two collectors in turns, and whole episodes.
    #[test]
    fn i16_o18_a_buffer_holds_the_newest_frames(
        capacity in 1..90_usize,
        rows in [1..8_usize, 1..8_usize],
        writes in writes(),
        script in vec(0..=255_u8, 97),
        mapped in any::<bool>(),
    ) {
        let path = place();
        let storage = if mapped { Storage::File(path.clone()) } else { Storage::Memory };
        let config = ReplayConfig { capacity: Capacity::Frames(capacity as u64), storage, ..ReplayConfig::default() };
        let mut player = Player::new(capacity, rows, script);
        player.replay = Replay::with_config(config).expect("a buffer");
        for write in &writes {
            player.play(write);
            check(&player.replay, &player.model);
            prop_assert_eq!(path.exists(), mapped);
        }
        drop(player);
        prop_assert!(!path.exists());
    }
}

/// A path where nothing is.
fn place() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("replay-ring-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// ST-04: a mapped file that is there already, or that the disk has no room for, is an error of the first write.
#[test]
fn st_04_a_file_that_cannot_be_made_is_an_error() {
    let path = place();
    let storage = || ReplayConfig { storage: Storage::File(path.clone()), ..ReplayConfig::default() };
    let block = || Block::new(&Source::new(1, 0).ticks(1, 0, &mut || 9), None);
    std::fs::write(&path, b"of somebody").expect("room");
    let replay = Replay::<Made>::with_config(storage()).expect("not made yet");
    let error = replay.extend(&block()).expect_err("it exists").to_string();
    assert!(error.contains("replay-ring"), "{error}");
    assert_eq!(std::fs::read(&path).expect("it stays"), b"of somebody");
    std::fs::remove_file(&path).expect("ours");
    let config = ReplayConfig { capacity: Capacity::Frames(1 << 50), ..storage() };
    let huge = Replay::<Made>::with_config(config).expect("not made yet");
    assert!(huge.extend(&block()).is_err());
    assert!(!path.exists(), "nothing is left behind");
    replay.extend(&block()).expect("room now");
    assert_eq!(replay.len(), 1);
}

/// J7: a block of more than twice the capacity leaves its newest frames.
#[test]
fn j7_more_rows_than_twice_the_capacity() {
    let replay = Replay::<Made>::new(4).expect("a buffer");
    let slots = Source::new(1, 0).ticks(10, 0, &mut || 9);
    replay.extend(&Block::new(&slots, Some(1))).expect("room");
    let sample = replay.read(&[6, 7, 8, 9]).expect("the last four");
    assert_eq!(sample.actions(), [6, 7, 8, 9]);
    assert_eq!((replay.write_count(), replay.len()), (10, 4));
    // The cursor: where the next frame goes.
    assert_eq!(replay.write_count() % replay.stats().capacity, 2);
    assert_eq!((sample.index(0), sample.generation(0)), (2, 1));
}

/// The ring example of RC: capacity 10, ends at places 2 and 7, the newest frame at place 4.
#[test]
fn o18_rc_trajectories_around_the_seam() {
    let replay = Replay::<Made>::new(10).expect("a buffer");
    // Places 5 to 7 are one, 8, 9, 0, 1, 2 another, and places 3 and 4 begin the next.
    let slots = Source::new(1, 0).episodes(&[5, 3, 5]);
    replay.extend(&Block::new(&slots, None)).expect("room");
    let mut rest = Source::new(1, 1);
    replay.extend(&Block::new(&rest.ticks(2, 0, &mut || 9), Some(1))).expect("room");
    let places = |stored: &gleaner::replay::Stored| {
        let (first, last) = (stored.first % 10, (stored.first + u64::from(stored.frames) - 1) % 10);
        (first, last, stored.frames)
    };
    let stored: Vec<_> = replay.trajectories().iter().map(places).collect();
    assert_eq!(stored, [(5, 7, 3), (8, 2, 5), (3, 4, 2)]);
}

/// A block whose columns, rows or flags do not agree.
struct Odd {
    block: Block,
    short: bool,
    rows: Option<usize>,
    frames: usize,
}

impl Frames for Odd {
    fn columns(&self) -> &[ColumnSpec] {
        self.block.columns()
    }
    fn bytes(&self, i: usize) -> &[u8] {
        let bytes = self.block.bytes(i);
        if self.short && i == 2 { &bytes[4..] } else { bytes }
    }
    fn slots(&self) -> usize {
        self.block.slots()
    }
    fn frames(&self) -> usize {
        self.frames
    }
    fn rows(&self) -> Option<usize> {
        self.rows
    }
    fn next_observation(&self, i: usize) -> &[u8] {
        self.block.next_observation(i)
    }
}

/// A block that lacks columns.
struct Few(Block);

impl Frames for Few {
    fn columns(&self) -> &[ColumnSpec] {
        &self.0.columns()[..5]
    }
    fn bytes(&self, i: usize) -> &[u8] {
        if i < 5 { self.0.bytes(i) } else { &[] }
    }
    fn slots(&self) -> usize {
        self.0.slots()
    }
    fn frames(&self) -> usize {
        self.0.frames()
    }
    fn rows(&self) -> Option<usize> {
        None
    }
    fn next_observation(&self, i: usize) -> &[u8] {
        self.0.next_observation(i)
    }
}

#[test]
fn blocks_that_do_not_agree_with_themselves_are_errors() {
    let replay = Replay::<Made>::new(20).expect("a buffer");
    let mut source = Source::new(1, 0);
    let mut slots = source.ticks(6, 0, &mut || 9);
    let extend = |slots: &[Option<crate::made::Frame>], short, rows, frames| {
        let odd = Odd { block: Block::new(slots, None), short, rows, frames };
        replay.extend(&odd).map(drop).map_err(|error| error.to_string())
    };
    extend(&slots, false, Some(1), 6).expect("room");
    for (short, rows, frames, wanted) in [
        (true, None, 6, "column is \"reward\" of 20 bytes; legal: at least 4 for each of 6 slots"),
        (false, Some(4), 6, "rows is 4; legal: a divisor of 6 slots"),
        (false, Some(0), 6, "rows is 0; legal: a divisor of 6 slots"),
        (false, None, 5, "frames is 5; legal: the 6 slots that are marked as frames"),
        (false, None, 7, "frames is 7; legal: the 6 slots that are marked as frames"),
    ] {
        assert_eq!(extend(&slots, short, rows, frames).expect_err("wrong"), wanted);
    }
    let few = Few(Block::new(&slots, None));
    let error = Replay::<Made>::new(20).expect("a buffer").extend(&few).expect_err("no flags").to_string();
    assert!(error.contains("legal: observation, action, reward, end"), "{error}");
    assert!(replay.extend(&few).is_err());
    slots[3] = None;
    for rows in [None, Some(2)] {
        let error = extend(&slots, false, rows, 6).expect_err("a gap that is not told");
        assert!(error.starts_with("frames is 6; legal: the 5"), "{error}");
    }
    assert_eq!((replay.len(), replay.trajectories().len()), (6, 1), "an error changes nothing");
}

#[test]
fn columns_are_locked_and_wrong_ones_named() {
    let replay = Replay::<Made>::new(4).expect("a buffer");
    let slots = Source::new(1, 0).ticks(1, 0, &mut || 9);
    replay.extend(&Block::new(&slots, Some(1))).expect("room");
    let batch = gleaner::prelude::Collector::<gleaner::prelude::CartPole>::builder()
        .frames_per_batch(2)
        .build()
        .expect("a collector")
        .next()
        .expect("a batch")
        .expect("no error");
    let error = replay.extend(&batch).expect_err("other columns").to_string();
    assert!(error.contains("observation") && error.contains("columns"), "{error}");
    assert_eq!(replay.len(), 1);
}

#[test]
fn an_empty_buffer_says_so() {
    let replay = Replay::<Made>::new(4).expect("a buffer");
    assert_eq!(replay.stats().frames, 0);
    assert!(replay.is_empty() && replay.trajectories().is_empty());
    let error = replay.sampler().batch_size(1).build().expect("a sampler").sample().expect_err("nothing there");
    assert_eq!(error.to_string(), "sample: the replay buffer holds no frame");
    assert!(replay.read(&[0]).is_err());
    assert!(Replay::<Made>::new(0).is_err());
    assert!(
        Replay::<Made>::new(u64::MAX)
            .expect("not allocated yet")
            .extend(&Block::new(&Source::new(1, 0).ticks(1, 0, &mut || 9), None))
            .is_err()
    );
}
