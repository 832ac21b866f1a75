//! Lists in checkpoints.

use gleaner::replay::{Capacity, Replay, ReplayConfig, Sampler};

use crate::{
    hostile::{Random, carried, sealed, spoil},
    lists::{Length, check, extend},
    made::{Made, Source},
};

const LENGTH: Length = |serial| serial * 7 % 5;

fn buffer(elements: u64) -> (Replay<Made>, Sampler<Made>) {
    let config =
        ReplayConfig { capacity: Capacity::Frames(30), ragged_elements: Some(elements), ..ReplayConfig::default() };
    let replay = Replay::with_config(config).expect("a buffer");
    let sampler = replay.sampler().batch_size(12).build().expect("a sampler");
    (replay, sampler)
}

fn write(replay: &Replay<Made>, source: &mut Source, times: usize) {
    for _ in 0..times {
        extend(replay, &source.ticks(3, 60, &mut || 70), Some(2), LENGTH).expect("room");
    }
}

fn saved(replay: &Replay<Made>, sampler: &Sampler<Made>) -> Vec<u8> {
    let mut file = Vec::new();
    replay.save_to(&mut file, &[sampler]).expect("memory");
    file
}

/// What is loaded has the lists, and goes on as if nothing had happened.
#[test]
fn cp_01_lists_are_part_of_a_checkpoint() {
    for times in [1, 4, 9] {
        for emptied in [false, true] {
            let ((replay, mut sampler), mut source) = (buffer(40), Source::new(2, 1));
            write(&replay, &mut source, times);
            sampler.sample().expect("frames");
            if emptied {
                replay.empty(true).expect("writable");
            }
            let file = saved(&replay, &sampler);
            let (loaded, mut again) = buffer(40);
            loaded.load_from(&mut &file[..], &mut [&mut again]).expect("loaded");
            assert_eq!(saved(&loaded, &again), file);
            let mut others = Source::new(2, 1);
            others.ticks(3 * times, 60, &mut || 70);
            for _ in 0..8 {
                write(&replay, &mut source, 1);
                write(&loaded, &mut others, 1);
                assert_eq!(loaded.frames(), replay.frames());
                let sample = again.sample().expect("frames");
                assert_eq!(sample.frames(), sampler.sample().expect("frames").frames());
                check(&sample, LENGTH);
            }
        }
    }
}

#[test]
fn cp_02_another_room_is_an_error() {
    let (replay, sampler) = buffer(40);
    write(&replay, &mut Source::new(2, 1), 3);
    let file = saved(&replay, &sampler);
    let (other, mut sampler) = buffer(41);
    let error = other.load_from(&mut &file[..], &mut [&mut sampler]).expect_err("another room").to_string();
    assert_eq!(error, "ragged_elements is 41; legal: that of the checkpoint, 40");
}

/// Files with the right checksums whose contents are wrong: an error, or a buffer that can be used.
#[test]
fn wrong_lists_in_files_are_errors_or_harmless() {
    let (replay, mut sampler) = buffer(40);
    write(&replay, &mut Source::new(2, 1), 8);
    sampler.sample().expect("frames");
    let ahead = sampler.prefetch(1).expect("a thread");
    while ahead.ready() == 0 {
        std::thread::yield_now();
    }
    let mut file = Vec::new();
    replay.save_to(&mut file, &[&ahead]).expect("memory");
    let (whole, mut random, mut taken) = (carried(&file), Random(12), 0);
    for _ in 0..20_000 {
        let mut spoiled = whole.clone();
        (0..1 + random.below(2)).for_each(|_| spoil(&mut spoiled, &mut random));
        let (loaded, sampler) = buffer(40);
        let mut ahead = sampler.prefetch(1).expect("a thread");
        if loaded.load_from(&mut &sealed(&file[..16], &spoiled)[..], &mut [&mut ahead]).is_err() {
            continue;
        }
        taken += 1;
        let mut source = Source::new(2, 9);
        for _ in 0..4 {
            let all = loaded.read(&loaded.frames().collect::<Vec<_>>()).expect("frames that are there");
            for sample in [Some(all), ahead.next().expect("endless").ok()].into_iter().flatten() {
                let (tokens, mask) = (sample.ragged::<i32>("tokens"), sample.ragged::<u8>("mask"));
                // Names may be any by now.
                let _read = (tokens.map(|lists| lists.get(0).len()), mask.map(|lists| lists.get(0).len()));
            }
            let slots = source.ticks(3, 60, &mut || 70);
            let _written = extend(&loaded, &slots, Some(2), LENGTH);
        }
    }
    assert!(taken > 300 && taken < 15_000, "{taken} were taken");
}
