//! Buffers go out and come in.

use std::fs;

use gleaner::{arrow::Format, prelude::*, replay::Replay};
use proptest::prelude::*;

use crate::{
    contents::contents,
    made::{Made, Random, Source, columns, many_columns},
    place,
};

pub const FORMATS: [Format; 2] = [Format::Ipc, Format::Parquet];

/// A buffer that two writers filled in turns.
fn filled(capacity: u64, rows: [usize; 2], writes: usize, gaps: usize, seed: u64) -> Replay<Made> {
    let (replay, mut random) = (Replay::new(capacity).expect("a buffer"), Random(seed));
    let mut sources = [Source::new(rows[0], 1, 7), Source::new(rows[1], 2, 3)];
    for i in 0..writes {
        let ticks = 1 + random.below(6);
        let block = sources[i % 2].block(&many_columns(), ticks, gaps, &mut random);
        replay.extend(&block).expect("room");
    }
    replay
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// What comes in is what went out, to the bit: also into a buffer that has frames, from one that went round, with
    /// trajectories whose beginning or end is missing, and out and in again.
    #[test]
    fn a_buffer_is_the_same_behind_a_file(
        capacity in 1..120_u64,
        rows in [1..6_usize, 1..6_usize],
        writes in 1..24_usize,
        gaps in prop_oneof![Just(1_usize), 2..9_usize],
        seed in any::<u64>(),
        format in prop::sample::select(&FORMATS[..]),
    ) {
        let replay = filled(capacity, rows, writes, gaps, seed);
        let path = place(&format!("round-{format:?}"));
        prop_assert_eq!(replay.export(&path, format).expect("room"), replay.len());
        let own = contents(&replay);

        let fresh = Replay::<Made>::new(200).expect("a buffer");
        let written = fresh.import(&path).expect("a file of ours");
        prop_assert_eq!((written.frames, written.write_count), (replay.len(), replay.len()));
        prop_assert_eq!(written.trajectories, own.iter().filter(|own| own.stored.complete).count() as u64);
        prop_assert_eq!(&contents(&fresh), &own);

        fresh.export(&path, format).expect("room");
        let other = filled(5, [1, 1], 3, 1, seed);
        let used = Replay::<Made>::new(400).expect("a buffer");
        used.extend(&Source::new(2, 9, 4).block(&many_columns(), 3, 1, &mut Random(seed))).expect("room");
        let before = contents(&used);
        used.import(&path).expect("a file of ours");
        let mut all = contents(&used);
        let behind = all.split_off(before.len());
        prop_assert_eq!((&all, &behind), (&before, &own));
        drop(other);
        fs::remove_file(&path).expect("it was there");
    }
}

/// A buffer whose frames are gone keeps its columns behind a file.
#[test]
fn columns_without_frames_are_the_same_behind_a_file() {
    for format in FORMATS {
        let path = place(&format!("empty-{format:?}"));
        let emptied = filled(10, [2, 2], 3, 1, 7);
        emptied.empty(true).expect("nobody reads");
        emptied.export(&path, format).expect("room");
        let fresh = Replay::<Made>::new(20).expect("a buffer");
        assert_eq!(fresh.import(&path).expect("a file of ours").frames, 0);
        fresh.export(&path, format).expect("room");
        let used = filled(10, [2, 2], 3, 1, 8);
        let before = contents(&used);
        used.import(&path).expect("the same columns");
        assert_eq!(contents(&used), before);
        fs::remove_file(path).expect("it was there");
    }
}

/// A trajectory goes on where the file's last record left it, and what followed it is then what comes.
#[test]
fn a_trajectory_goes_on_behind_an_import() {
    let (mut source, mut random) = (Source::new(1, 1, 1 << 20), Random(3));
    let [first, second] = [5, 6].map(|ticks| source.block(&many_columns(), ticks, 1, &mut random));
    let whole = Replay::<Made>::new(100).expect("a buffer");
    for block in [&first, &second] {
        whole.extend(block).expect("room");
    }
    for format in FORMATS {
        let (path, half) = (place(&format!("half-{format:?}")), Replay::<Made>::new(100).expect("a buffer"));
        half.extend(&first).expect("room");
        half.export(&path, format).expect("room");
        let joined = Replay::<Made>::new(100).expect("a buffer");
        joined.import(&path).expect("a file of ours");
        joined.extend(&second).expect("room");
        assert_eq!(contents(&joined), contents(&whole));
        fs::remove_file(path).expect("it was there");
    }
}

/// Frames of 256 KiB.
struct Wide;

impl Task for Wide {
    type Observation = [f32; 1 << 16];
    type Action = i32;
    type Mask = ();
    fn observation_space() -> Space {
        Space::unbounded(1 << 16)
    }
    fn action_space() -> Space {
        Space::discrete(2)
    }
}

/// Files are written and read in pieces, which trajectories go over; a piece is what is held of it.
#[test]
fn long_trajectories_go_in_pieces() {
    const ROOM: usize = 24 << 20;
    let (mut random, replay) = (Random(8), Replay::<Wide>::new(1_000).expect("a buffer"));
    let mut source = Source::new(2, 1, 30);
    for _ in 0..8 {
        replay.extend(&source.block(&columns::<Wide>(), 4, 1, &mut random)).expect("room");
    }
    let own = contents(&replay);
    assert!(own.iter().any(|own| own.stored.frames > 16), "one is longer than a piece");
    for format in FORMATS {
        let path = place(&format!("long-{format:?}"));
        let (_, most) = crate::allocator::largest(|| replay.export(&path, format).expect("room"));
        assert!(most <= ROOM, "{format:?}: {most} bytes at once");
        let fresh = Replay::<Wide>::new(100).expect("a buffer");
        fresh.import(&path).expect("a file of ours");
        assert!(contents(&fresh) == own, "{format:?}");
        fs::remove_file(path).expect("it was there");
    }
}
