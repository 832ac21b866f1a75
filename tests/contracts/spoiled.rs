//! Checkpoints that are wrong: whatever the bytes, an error, or a collector that can be used; never a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gleaner::{
    policy::{Layer, Normalize},
    prelude::*,
};

use crate::support::{Ending, Script, Tag, tags};

/// Numbers for the cases (Vigna 2015, splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// A collector with something of everything.
fn new() -> Collector<Tag> {
    let network = |trunk, normalize: bool| {
        let normalize = normalize.then(Normalize::default);
        let spec = NetworkSpec { trunk, actor: vec![], critic: Some(vec![]), normalize, ..NetworkSpec::default() };
        Policy::network(spec).backend(Backend::Cpu)
    };
    let policies = [(0..2, network(vec![Layer::Gru(2)], true)), (2..3, network(vec![], false))];
    let builder =
        tags(Script::lengths(&[3, 40, 7], Ending::Truncated)).rows(3).frames_per_batch(3 * 9).policies(policies);
    builder.trajs_per_batch(1).build().unwrap()
}

fn file() -> Vec<u8> {
    let mut collector = new();
    for _ in 0..3 {
        collector.next().unwrap().unwrap();
    }
    let weights = collector.weights().unwrap();
    weights.publish((*weights.latest().1).clone()).unwrap();
    assert!(collector.stats().in_flight_frames > collector.stats().trajectory_pending_frames, "episodes wait");
    let mut file = Vec::new();
    collector.save_to(&mut file).unwrap();
    file
}

/// What the blocks of a file carry.
fn carried(file: &[u8]) -> Vec<u8> {
    let (mut carried, mut at) = (Vec::new(), 16);
    loop {
        let len = u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        if len == 0 {
            return carried;
        }
        carried.extend_from_slice(&file[at + 8..][..len]);
        at += 8 + len;
    }
}

/// A file with the right lengths and checksums around other bytes.
fn sealed(header: &[u8], carried: &[u8]) -> Vec<u8> {
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

/// Cuts, flips, puts in, takes out, or writes numbers that are huge.
fn spoil(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    match random.below(7) {
        0 => bytes.truncate(at),
        1 | 2 => bytes[at] ^= 1 << random.below(8),
        3 => bytes[at] = random.next() as u8,
        4 => bytes.insert(at, random.next() as u8),
        5 => drop(bytes.remove(at)),
        _ => {
            // The largest number, as a varint or as it lies in memory.
            let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
            let len = [2, 4, 8, 10][random.below(4)].min(bytes.len() - at);
            bytes[at..at + len].copy_from_slice(&huge[10 - len..]);
        }
    }
}

/// Loads files, each into a collector that none was loaded into; how many were taken.
fn cases(count: usize, seed: u64, mut make: impl FnMut(&mut Random) -> Vec<u8>) -> usize {
    let (mut random, mut taken, mut collector) = (Random(seed), 0, new());
    let before = |collector: &Collector<Tag>| {
        let mut file = Vec::new();
        collector.save_to(&mut file).map(|()| file).unwrap_or_default()
    };
    let untouched = before(&collector);
    for case in 0..count {
        let file = make(&mut random);
        let loaded = catch_unwind(AssertUnwindSafe(|| collector.load_from(&mut &file[..])));
        match loaded.unwrap_or_else(|_| panic!("case {case} of seed {seed} panicked: {file:?}")) {
            Ok(()) => {
                // Numbers of a spoiled file may end a collection, with an error that names them.
                let used = catch_unwind(AssertUnwindSafe(|| {
                    let _next = (collector.next(), collector.next());
                }));
                assert!(used.is_ok(), "case {case} of seed {seed} panicked when used: {file:?}");
                taken += 1;
                collector = new();
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert!(
                    case % 64 != 0 || before(&collector) == untouched,
                    "case {case} left something behind: {error}"
                );
            }
        }
    }
    assert!(before(&collector) == untouched);
    taken
}

#[test]
fn ck_a_file_as_it_was_written_is_taken() {
    let file = file();
    assert_eq!(cases(1, 0, |_| file.clone()), 1);
    assert_eq!(sealed(&file[..16], &carried(&file)), file);
}

/// Whatever happens to the bytes of a file shows.
#[test]
fn ck_spoiled_files_are_errors() {
    let file = file();
    let spoiled = |random: &mut Random| {
        let mut spoiled = file.clone();
        while spoiled == file {
            (0..1 + random.below(3)).for_each(|_| spoil(&mut spoiled, random));
        }
        spoiled
    };
    assert_eq!(cases(10_000, 1, spoiled), 0);
    for cut in 0..file.len() {
        assert!(new_or_error(&file[..cut]).is_err(), "cut at {cut}");
    }
}

fn new_or_error(file: &[u8]) -> Result<(), Error> {
    thread_local!(static COLLECTOR: std::cell::RefCell<Collector<Tag>> = std::cell::RefCell::new(new()));
    COLLECTOR.with_borrow_mut(|collector| collector.load_from(&mut &file[..]))
}

/// Files with the right checksums whose contents are wrong.
#[test]
fn ck_wrong_contents_are_errors_or_harmless() {
    let file = file();
    let (header, whole) = (&file[..16], carried(&file));
    let spoiled = |random: &mut Random| {
        let mut carried = whole.clone();
        (0..1 + random.below(2)).for_each(|_| spoil(&mut carried, random));
        sealed(header, &carried)
    };
    let taken = cases(12_000, 3, spoiled);
    // Values of columns may be any: some files are taken.
    assert!(taken > 200 && taken < 9_000, "{taken} were taken");
    let random_bytes = |random: &mut Random| {
        let mut carried = whole[..random.below(whole.len())].to_vec();
        carried.extend((0..random.below(300)).map(|_| random.next() as u8));
        sealed(header, &carried)
    };
    cases(2_000, 4, random_bytes);
}
