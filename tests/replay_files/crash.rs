//! A process that is killed while it saves.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use gleaner::replay::Replay;

use crate::{
    cursor, fresh,
    made::{Block, Made, Source},
};

const FOLDER: &str = "GLEANER_TEST_CRASH_FOLDER";
const NAME: &str = "crash::g11_a_killed_save_leaves_the_old_file_or_the_new_one";
const CAPACITY: u64 = 30_000;
const KILLS: usize = 100;

fn buffer() -> Replay<Made> {
    Replay::new(CAPACITY).expect("a buffer")
}

/// Writes and saves until somebody kills the process.
fn save_for_ever(path: &Path) {
    let replay = buffer();
    let mut sampler = replay.sampler().batch_size(9).build().expect("a sampler");
    replay.load(path, &mut [&mut sampler]).expect("the last checkpoint");
    let mut source = Source::new(4, 1 + replay.write_count());
    loop {
        replay.extend(&Block::new(&source.ticks(50, 9, &mut || 100), Some(4))).expect("room");
        sampler.sample().expect("frames");
        println!("saving");
        replay.save(path, &[&sampler]).expect("room");
    }
}

/// G11: kill -9 at 100 moments, or more until enough of them fall into a save. The tests' binary runs itself as the
/// process that is killed.
#[test]
fn g11_a_killed_save_leaves_the_old_file_or_the_new_one() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return save_for_ever(&Path::new(&folder).join("checkpoint"));
    }
    let folder = fresh("crash");
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("checkpoint");
    let replay = buffer();
    let sampler = replay.sampler().batch_size(9).build().expect("a sampler");
    replay.extend(&Block::new(&Source::new(1, 0).ticks(CAPACITY as usize, 0, &mut || 9), Some(1))).expect("room");
    replay.save(&path, &[&sampler]).expect("room");
    let (mut cut, mut counts) = (0, vec![replay.write_count()]);
    let enough = |cut: usize, counts: &[u64]| cut > KILLS / 4 && counts.len() > 2;
    for kill in 0..4 * KILLS {
        if kill >= KILLS && enough(cut, &counts) {
            break;
        }
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.args(["--exact", NAME, "--nocapture"]).env(FOLDER, &folder).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        // The first save, or one after it.
        let mut saving = lines.filter(|line| line.as_ref().is_ok_and(|line| line.contains("saving")));
        assert!(saving.nth(kill % 3).is_some(), "the process saves");
        // A save takes some milliseconds: moments in all of it, and of the next.
        std::thread::sleep(Duration::from_micros(kill as u64 * 137 % 9_000));
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let left = fs::read_dir(&folder).expect("a folder").count() - 1;
        cut += usize::from(left > 0);
        assert!(left <= 1, "what the process before left behind is gone");
        let loaded = buffer();
        let mut sampler = loaded.sampler().batch_size(9).build().expect("a sampler");
        loaded.load(&path, &mut [&mut sampler]).unwrap_or_else(|error| panic!("kill {kill}: {error}"));
        cursor::check(&loaded);
        counts.push(loaded.write_count());
        assert!(counts.is_sorted(), "no older file came back: {counts:?}");
        counts.dedup();
    }
    assert!(enough(cut, &counts), "{cut} kills fell into a save, {} files", counts.len());
    fs::remove_dir_all(folder).expect("done");
}
