//! Checkpoints of replay buffers are read without trust: bytes as they are, and bytes in blocks whose checksums are right.
//! What is taken is a buffer that can be used.

#![no_main]

use gleaner::{prelude::*, replay::Replay};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    load(bytes);
    load(&sealed(bytes));
});

fn load(mut file: &[u8]) {
    let replay = Replay::<CartPole>::new(16).expect("a buffer");
    let mut sampler = replay.sampler().batch_size(4).build().expect("a sampler");
    if replay.load_from(&mut file, &mut [&mut sampler]).is_err() {
        return;
    }
    let _sample = sampler.sample();
    let numbers: Vec<u64> = replay.frames().collect();
    let (_read, _trajectories) = (replay.read(&numbers), replay.trajectories());
    let collector = Collector::<CartPole>::builder().frames_per_batch(10).total_frames(40).build().expect("a collector");
    for batch in collector {
        if replay.extend(&batch.expect("frames")).is_ok() {
            sampler.sample().expect("frames");
        }
    }
}

/// A file that carries these bytes: `gleaner::replay` says how.
fn sealed(carried: &[u8]) -> Vec<u8> {
    let mut file = b"glnrplay".to_vec();
    file.extend_from_slice(&1_u32.to_le_bytes());
    file.extend_from_slice(&0x0102_0304_u32.to_ne_bytes());
    let mut sum = crc32fast::hash(&file);
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
