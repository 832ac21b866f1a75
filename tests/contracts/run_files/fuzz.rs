//! Thousands of broken files: each gives a collector or an error with a place in the file, never a panic.

use gleaner::{
    prelude::*,
    seed::{Purpose, Seed},
};

use super::{Folder, asset, registry};

const FILES: u32 = 6_000;

/// Pieces of a file's language, and of what only looks like it.
const PIECES: [&str; 24] = [
    "(",
    ")",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "//",
    "/*",
    "*/",
    "Some(",
    "None",
    "-1",
    "0",
    "999999999999999999999",
    "1e400",
    "NaN",
    "inf",
    "r#\"",
    "'",
    "\\",
    "rows:",
    "#![enable(unwrap_newtypes)]",
    "é",
];

fn mutate(bytes: &mut Vec<u8>, stream: &mut Stream) {
    let at = stream.below(bytes.len() as u32 + 1) as usize;
    let rest = bytes.len() - at;
    let length = (stream.below(40) as usize).min(rest);
    match stream.below(7) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..at + length)),
        2 if rest > 0 => bytes[at] ^= 1 << stream.below(8),
        3 => bytes.insert(at, stream.below(256) as u8),
        4 => {
            let copy = bytes[at..at + length].to_vec();
            let to = stream.below(bytes.len() as u32 + 1) as usize;
            bytes.splice(to..to, copy);
        }
        5 if rest > 0 => bytes[at] = b'0' + stream.below(10) as u8,
        _ => {
            let piece = PIECES[stream.below(PIECES.len() as u32) as usize];
            bytes.splice(at..(at + stream.below(2) as usize).min(bytes.len()), piece.bytes());
        }
    }
}

#[test]
fn no_file_panics() {
    let sources = ["cart_pole.ron", "pendulum.ron", "grid_world.ron"].map(|name| std::fs::read(asset(name)).unwrap());
    let folder = Folder::new();
    let mut registry = registry();
    // What a mutated number may ask for.
    registry.max_memory(4 << 20);
    let (mut built, mut refused) = (0, 0);
    for i in 0..FILES {
        let mut stream = Stream::new(Seed(11), i, Purpose::Env, 0);
        let mut bytes = sources[i as usize % sources.len()].clone();
        for _ in 0..1 + stream.below(3) {
            mutate(&mut bytes, &mut stream);
        }
        let path = folder.write("run.ron", &bytes);
        match registry.open(&path) {
            Ok(_) => built += 1,
            Err(error) => {
                let message = error.to_string();
                assert!(message.contains("run.ron:"), "file {i}: {message}");
                assert!(message.len() < 4_000, "file {i}: a message of {} bytes", message.len());
                refused += 1;
            }
        }
    }
    assert!(built > FILES / 10 && refused > FILES / 10, "{built} built, {refused} refused");
}
