//! Files that somebody has spoiled.

use std::{
    fs::{self, File},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use gleaner::{arrow::Format, replay::Replay};
use parquet::{
    arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder},
    basic::Compression,
    file::properties::WriterProperties,
};

use crate::{
    allocator::largest,
    made::{Made, Random, Source, many_columns},
    place,
};

/// What a reader may take before it has seen the bytes that a number counts.
const CONSTANT: usize = 4 << 20;

fn file(format: Format) -> Vec<u8> {
    let (replay, mut random) = (Replay::<Made>::new(40).expect("a buffer"), Random(1));
    let mut source = Source::new(2, 1, 4);
    for _ in 0..4 {
        replay.extend(&source.block(&many_columns(), 6, 1, &mut random)).expect("room");
    }
    let path = place(&format!("whole-{format:?}"));
    replay.export(&path, format).expect("room");
    let bytes = fs::read(&path).expect("it is there");
    fs::remove_file(path).expect("it is there");
    bytes
}

/// A Parquet file as pandas and pyarrow write it.
fn compressed(file: &[u8]) -> Vec<u8> {
    let path = place("uncompressed");
    fs::write(&path, file).expect("room");
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).expect("it is there"));
    let reader = reader.expect("a Parquet file");
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), reader.schema().clone(), Some(properties)).expect("memory");
    reader.build().expect("a Parquet file").for_each(|batch| writer.write(&batch.expect("whole")).expect("memory"));
    fs::remove_file(path).expect("it is there");
    writer.into_inner().expect("memory")
}

/// Cuts, flips, puts in, takes out, repeats, or writes numbers that are huge; mostly where the file describes itself.
fn spoil(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let tail = bytes.len() - random.below(bytes.len().min(3_000)) - 1;
    let at = if random.below(3) > 0 { tail } else { random.below(bytes.len()) };
    match random.below(8) {
        0 => bytes.truncate(at),
        1 | 2 => bytes[at] ^= 1 << random.below(8),
        3 => bytes[at] = random.next() as u8,
        4 => bytes.insert(at, random.next() as u8),
        5 => drop(bytes.remove(at)),
        6 => {
            // The largest number, as a varint or as it lies in memory.
            let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
            let len = [2, 4, 5, 8][random.below(4)].min(bytes.len() - at);
            bytes[at..at + len].copy_from_slice(&huge[8 - len..]);
        }
        _ => {
            let end = at + random.below(20).min(bytes.len() - at);
            let part = bytes[at..end].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, part);
        }
    }
}

/// Imports a file; one that is taken leaves a buffer that can be used. Whether it was, and the largest piece of memory.
fn import(path: &Path) -> (bool, usize) {
    let replay = Replay::<Made>::new(100).expect("a buffer");
    let (imported, most) = largest(|| replay.import(path));
    if imported.is_err() {
        assert!(replay.is_empty() && replay.write_count() == 0, "nothing of a wrong file is taken");
        return (false, most);
    }
    // Steps may be any, so that a trajectory may be there in parts.
    let all: Vec<u64> = replay.frames().collect();
    assert_eq!(replay.read(&all).expect("frames that are there").len(), all.len());
    assert_eq!(replay.trajectories().iter().map(|stored| stored.frames as usize).sum::<usize>(), all.len());
    (true, most)
}

fn cases(name: &str, whole: &[u8], count: usize) {
    let (path, mut random) = (place(&format!("spoiled-{name}")), Random(7));
    fs::write(&path, whole).expect("room");
    assert!(import(&path).0);
    let (mut taken, mut huge) = (0, 0);
    for case in 0..count {
        let mut bytes = whole.to_vec();
        (0..1 + random.below(3)).for_each(|_| spoil(&mut bytes, &mut random));
        fs::write(&path, &bytes).expect("room");
        let Ok((is, most)) = catch_unwind(AssertUnwindSafe(|| import(&path))) else {
            panic!("case {case} of {name} panicked");
        };
        huge = huge.max(most);
        assert!(most <= CONSTANT, "case {case} of {name}: {most} bytes at once");
        taken += usize::from(is);
    }
    // Values of columns may be any: some files are taken.
    println!("{name}: {taken} of {count} were taken, {huge} bytes at most");
    assert!(taken < count / 2, "{name}: {taken} were taken");
    fs::remove_file(path).expect("it was there");
}

#[test]
fn spoiled_ipc_files_are_errors_or_harmless() {
    cases("ipc", &file(Format::Ipc), 4_000);
}

#[test]
fn spoiled_parquet_files_are_errors_or_harmless() {
    cases("parquet", &file(Format::Parquet), 2_000);
    cases("snappy", &compressed(&file(Format::Parquet)), 2_000);
}

/// A file that ends anywhere before its end is no file.
#[test]
fn cut_files_are_errors() {
    for format in [Format::Ipc, Format::Parquet] {
        let (whole, path) = (file(format), place(&format!("cut-{format:?}")));
        for len in (0..whole.len()).step_by(61).chain(whole.len() - 12..whole.len()) {
            fs::write(&path, &whole[..len]).expect("room");
            assert!(!import(&path).0, "{len} of {} bytes of {format:?}", whole.len());
        }
        fs::remove_file(path).expect("it was there");
    }
}
