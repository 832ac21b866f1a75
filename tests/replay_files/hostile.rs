//! Files that are wrong.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gleaner::{
    Error,
    replay::{Replay, Sampler},
};

use crate::{
    allocator::largest,
    made::{Block, Made, Source},
};

const CAPACITY: u64 = 8;
/// What a decoder may take before it has seen the bytes that a number counts.
pub const CONSTANT: usize = 4 << 20;

/// Numbers for the cases (Vigna 2015, splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

fn sampler(replay: &Replay<Made>) -> Sampler<Made> {
    replay.sampler().batch_size(3).n_step(2, 0.9).build().expect("a sampler")
}

fn block(worker: u64, ticks: usize) -> Block {
    Block::new(&Source::new(2, worker).ticks(ticks, 60, &mut || 50), Some(2))
}

/// A file of a ring that went round, with a sampler that has drawn and one with samples ahead.
fn file() -> Vec<u8> {
    let replay = Replay::<Made>::new(CAPACITY).expect("a buffer");
    for worker in 1..5 {
        replay.extend(&block(worker, 2)).expect("room");
    }
    replay.extend(&Block::new(&Source::new(1, 9).ticks(3, 0, &mut || 50), None)).expect("room");
    let mut plain = sampler(&replay);
    plain.sample().expect("frames");
    let ahead = sampler(&replay).prefetch(1).expect("a thread");
    while ahead.ready() == 0 {
        std::thread::yield_now();
    }
    let mut file = Vec::new();
    replay.save_to(&mut file, &[&plain, &ahead]).expect("memory");
    file
}

/// What the blocks of a file carry.
pub fn carried(file: &[u8]) -> Vec<u8> {
    let (mut carried, mut at) = (Vec::new(), 16);
    loop {
        let len = u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes")) as usize;
        if len == 0 {
            return carried;
        }
        carried.extend_from_slice(&file[at + 8..][..len]);
        at += 8 + len;
    }
}

/// A file with the right lengths and checksums around other bytes.
pub fn sealed(header: &[u8], carried: &[u8]) -> Vec<u8> {
    let (mut file, mut sum) = (header.to_vec(), crc32fast::hash(header));
    for block in carried.chunks(1 << 16).chain([&[][..]]) {
        let mut hasher = crc32fast::Hasher::new_with_initial(sum);
        hasher.update(&(block.len() as u32).to_le_bytes());
        hasher.update(block);
        sum = hasher.finalize();
        file.extend_from_slice(&(block.len() as u32).to_le_bytes());
        file.extend_from_slice(&sum.to_le_bytes());
        file.extend_from_slice(block);
    }
    file
}

/// Cuts, flips, puts in, takes out, repeats, or writes numbers that are huge.
pub fn spoil(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let (at, kind) = (random.below(bytes.len()), random.below(9));
    match kind {
        0 => bytes.truncate(at),
        1 | 2 => bytes[at] ^= 1 << random.below(8),
        3 => bytes[at] = random.next() as u8,
        4 => bytes.insert(at, random.next() as u8),
        5 => drop(bytes.remove(at)),
        6 => {
            // The largest number, as a varint or as it lies in memory.
            let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
            let len = [2, 4, 8, 10][random.below(4)].min(bytes.len() - at);
            bytes[at..at + len].copy_from_slice(&huge[10 - len..]);
        }
        7 => {
            let end = at + random.below(20).min(bytes.len() - at);
            let part = bytes[at..end].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, part);
        }
        _ => {
            let end = at + random.below(20).min(bytes.len() - at);
            bytes[at..end].iter_mut().for_each(|byte| *byte = random.next() as u8);
        }
    }
}

/// Loads a file; one that is taken must hold a buffer that can be used.
fn load(file: &[u8]) -> Result<(), Error> {
    let replay = Replay::<Made>::new(CAPACITY).expect("a buffer");
    let mut plain = sampler(&replay);
    let mut ahead = sampler(&replay).prefetch(1).expect("a thread");
    let (loaded, most) = largest(|| replay.load_from(&mut &file[..], &mut [&mut plain, &mut ahead]));
    assert!(most <= CONSTANT, "{most} bytes at once");
    if let Err(error) = loaded {
        assert!(replay.is_empty() && replay.write_count() == 0);
        return Err(error);
    }
    for worker in 20..25 {
        let (numbers, _) = (replay.frames().collect::<Vec<_>>(), replay.trajectories());
        let _read = replay.read(&numbers).expect("frames that are there");
        for sample in [plain.sample(), ahead.next().expect("endless")].into_iter().flatten() {
            let _all = (sample.next_observation(0), sample.pick(0), sample.column::<f32>("reward").is_ok());
            assert!(sample.columns().len() == 8 && sample.generation(0) <= sample.frames()[0]);
        }
        replay.extend(&block(worker, 2)).expect("room");
    }
    Ok(())
}

/// Runs the cases; none panics, and how many were taken comes back.
fn cases(count: usize, seed: u64, mut make: impl FnMut(&mut Random) -> Vec<u8>) -> usize {
    let (mut random, mut taken) = (Random(seed), 0);
    for case in 0..count {
        let file = make(&mut random);
        match catch_unwind(AssertUnwindSafe(|| load(&file))) {
            Ok(loaded) => taken += usize::from(loaded.is_ok()),
            Err(_) => panic!("case {case} of seed {seed} panicked: {file:?}"),
        }
    }
    taken
}

#[test]
fn a_file_as_it_was_written_is_taken() {
    let file = file();
    load(&file).expect("a whole file");
    assert_eq!(sealed(&file[..16], &carried(&file)), file);
}

/// Whatever happens to the bytes of a file shows.
#[test]
fn spoiled_files_are_errors() {
    let file = file();
    let spoiled = |random: &mut Random| {
        let mut spoiled = file.clone();
        while spoiled == file {
            (0..1 + random.below(3)).for_each(|_| spoil(&mut spoiled, random));
        }
        spoiled
    };
    assert_eq!(cases(30_000, 1, spoiled), 0);
    let random_bytes = |random: &mut Random| {
        let mut bytes = file[..random.below(40)].to_vec();
        bytes.extend((0..random.below(300)).map(|_| random.next() as u8));
        bytes
    };
    assert_eq!(cases(5_000, 2, random_bytes), 0);
}

/// Files with the right checksums whose contents are wrong: an error, or a buffer that can be used.
#[test]
fn wrong_contents_are_errors_or_harmless() {
    let file = file();
    let (header, whole) = (&file[..16], carried(&file));
    let spoiled = |random: &mut Random| {
        let mut carried = whole.clone();
        (0..1 + random.below(3)).for_each(|_| spoil(&mut carried, random));
        sealed(header, &carried)
    };
    let taken = cases(65_000, 3, spoiled);
    // Values of columns may be any: some files are taken.
    assert!(taken > 1_000 && taken < 40_000, "{taken} were taken");
    let random_bytes = |random: &mut Random| {
        let mut carried = whole[..random.below(whole.len())].to_vec();
        carried.extend((0..random.below(300)).map(|_| random.next() as u8));
        sealed(header, &carried)
    };
    cases(5_000, 4, random_bytes);
}
