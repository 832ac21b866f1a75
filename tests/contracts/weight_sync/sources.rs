//! Where new weights come from, as data: whoever publishes, a file, the host's own source, nobody.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use super::{KINDS, of_kind, refusal};
use crate::support::{Tag, stamped_network, stamped_weights};
use gleaner::{BoxError, prelude::*};

/// A folder that goes with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("gleaner-sync-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Weights of the stamp `stamp` in `file`, changed at `second`.
fn write(file: &PathBuf, stamp: u64, second: u64) {
    stamped_weights(stamp).save(file).unwrap();
    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + second);
    fs::File::options().write(true).open(file).unwrap().set_modified(changed).unwrap();
}

/// The actions of the next batches, once those that were begun before are through: of each worker some may wait and one be
/// in the making, and which one is how fast is the machine's affair.
fn acts(collector: &mut Collector<Tag>, stamp: u64) {
    let (mut batches, deadline) = (vec![0; collector.rows()], Instant::now() + Duration::from_secs(60));
    while batches.iter().any(|own| *own < 5) {
        assert!(Instant::now() < deadline, "a row is not heard of: {batches:?}");
        let batch = collector.next().unwrap().unwrap();
        for row in batch.rows() {
            batches[row.0 as usize] += 1;
        }
        if batches[batch.rows()[0].0 as usize] >= 5 {
            let wrong = batch.actions().iter().any(|action| *action != stamp as f32);
            assert!(!wrong, "{:?} instead of {stamp}", batch.actions());
        }
    }
}

#[test]
fn a_file_is_looked_at_between_rollouts_and_its_error_is_told_once() {
    for (i, kind) in KINDS.into_iter().enumerate() {
        let folder = Folder::new(&format!("file-{i}"));
        let file = folder.file("policy.safetensors");
        write(&file, 3, 1);
        let builder = of_kind(kind, 4).policy(stamped_network()).weight_sync(WeightSync::file(&file));
        let mut collector = builder.build().unwrap();
        // Before the first frame, wherever it is stepped.
        let batch = collector.next().unwrap().unwrap();
        assert!(batch.actions().iter().all(|action| *action == 3.0), "{kind:?}");
        write(&file, 4, 2);
        acts(&mut collector, 4);
        assert_eq!(collector.weights().unwrap().version(), 2);
        // Half a file; one of another network; none. Iteration goes on.
        let whole = fs::read(&file).unwrap();
        let mut other = stamped_weights(5);
        other.0.remove("value.bias");
        let spoil: [&dyn Fn(); 3] =
            [&|| fs::write(&file, &whole[..whole.len() / 2]).unwrap(), &|| other.save(&file).unwrap(), &|| {
                fs::remove_file(&file).unwrap()
            }];
        for spoil in spoil {
            spoil();
            let error = collector.next().unwrap().unwrap_err();
            assert!(matches!(error, Error::WeightsSource(_)), "{error}");
            assert!(error.to_string().contains("policy.safetensors"), "{error}");
            acts(&mut collector, 4);
        }
        write(&file, 6, 3);
        acts(&mut collector, 6);
        // Who publishes by hand is heard too.
        collector.weights().unwrap().publish(stamped_weights(7)).unwrap();
        acts(&mut collector, 7);
    }
}

#[test]
fn of_a_folder_the_newest_file_counts() {
    let folder = Folder::new("folder");
    let builder = of_kind(KINDS[0], 4).policy(stamped_network()).weight_sync(WeightSync::file(&folder.0));
    let mut collector = builder.build().unwrap();
    // There is none yet.
    acts(&mut collector, 0);
    write(&folder.file("step-10.safetensors"), 10, 20);
    write(&folder.file("step-9.safetensors"), 9, 10);
    fs::write(folder.file("zzz.txt"), "nothing").unwrap();
    acts(&mut collector, 10);
    write(&folder.file("a.safetensors"), 11, 40);
    acts(&mut collector, 11);
    assert_eq!(collector.weights().unwrap().version(), 2);
    // An older one that comes late changes nothing.
    write(&folder.file("step-8.safetensors"), 8, 30);
    acts(&mut collector, 11);
    // One of the same age: by name.
    let changed = fs::metadata(folder.file("a.safetensors")).unwrap().modified().unwrap();
    let twin = folder.file("b.safetensors");
    stamped_weights(12).save(&twin).unwrap();
    fs::File::options().write(true).open(&twin).unwrap().set_modified(changed).unwrap();
    acts(&mut collector, 12);
    // What is gone is not replaced by what was before it.
    fs::remove_file(&twin).unwrap();
    assert!(matches!(collector.next().unwrap(), Err(Error::WeightsSource(_))));
    acts(&mut collector, 12);
    write(&folder.file("c.safetensors"), 13, 50);
    acts(&mut collector, 13);
}

#[test]
fn wf_a_file_is_looked_at_no_more_often_than_asked() {
    let folder = Folder::new("every");
    let file = folder.file("policy.safetensors");
    write(&file, 1, 1);
    let every = Duration::from_millis(500);
    let sync = WeightSync::File { path: file.clone(), names: None, every, policy: 0 };
    let mut collector = of_kind(KINDS[0], 4).policy(stamped_network()).weight_sync(sync).build().unwrap();
    let before = Instant::now();
    acts(&mut collector, 1);
    write(&file, 2, 2);
    collector.next().unwrap().unwrap();
    // A machine that is slow enough to be late may have looked.
    if before.elapsed() < every {
        assert_eq!(collector.weights().unwrap().version(), 1);
    }
    std::thread::sleep(every);
    acts(&mut collector, 2);
}

#[test]
fn off_takes_nothing() {
    for kind in KINDS {
        let builder = of_kind(kind, 4).policy(stamped_network()).weight_sync(WeightSync::Off);
        let mut collector = builder.build().unwrap();
        assert!(collector.weights().is_none() && collector.models().ids().len() == 0);
        assert_eq!(*collector.weight_sync(), WeightSync::Off);
        acts(&mut collector, 0);
        // It can be turned on, and off again under a handle that is in use.
        collector.set_weight_sync(WeightSync::Shared).unwrap();
        let (weights, models) = (collector.weights().unwrap(), collector.models());
        weights.publish(stamped_weights(2)).unwrap();
        acts(&mut collector, 2);
        collector.set_weight_sync(WeightSync::Off).unwrap();
        let refused = [
            weights.publish(stamped_weights(3)).unwrap_err(),
            weights.publish_as(9, stamped_weights(3)).unwrap_err(),
            weights.publish_copy(&stamped_weights(3)).unwrap_err(),
            weights.increment_version().unwrap_err(),
            models.publish([(0, stamped_weights(3))]).unwrap_err(),
        ];
        for error in refused {
            assert!(error.to_string().contains("weight_sync is Off"), "{error}");
        }
        assert_eq!(weights.version(), 1);
        acts(&mut collector, 2);
    }
}

/// A learner elsewhere: what it sent last, or its error.
#[derive(Clone, Default)]
struct Learner(Arc<Mutex<Option<Result<(u64, u64), String>>>>);

impl Learner {
    fn send(&self, sent: Result<(u64, u64), String>) {
        *self.0.lock().unwrap() = Some(sent);
    }
}

impl WeightsSource for Learner {
    fn poll(&mut self, models: &Models) -> Result<(), BoxError> {
        let Some(sent) = self.0.lock().unwrap().take() else { return Ok(()) };
        let (version, stamp) = sent?;
        Ok(models.get(0)?.publish_as(version, stamped_weights(stamp))?)
    }
}

#[test]
fn a_host_has_a_source_of_its_own() {
    for kind in KINDS {
        let learner = Learner::default();
        learner.send(Ok((70, 1)));
        let builder = of_kind(kind, 4).policy(stamped_network()).weights_source(learner.clone());
        let mut collector = builder.build().unwrap();
        let batch = collector.next().unwrap().unwrap();
        assert!(batch.versions().iter().all(|version| *version == 70), "{kind:?}");
        learner.send(Err("the line is cut".into()));
        let error = collector.next().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "no new weights: the line is cut");
        // It began anew.
        learner.send(Ok((1, 2)));
        collector.next().unwrap().unwrap();
        let error = collector.next().unwrap().unwrap_err().to_string();
        assert!(error.contains("version 1 comes after version 70"), "{error}");
        acts(&mut collector, 1);
        learner.send(Ok((71, 3)));
        collector.receive_weights().unwrap();
        acts(&mut collector, 3);
        collector.set_weight_sync(WeightSync::Shared).unwrap();
        learner.send(Ok((72, 4)));
        acts(&mut collector, 3);
        let error = collector.receive_weights().unwrap_err().to_string();
        assert!(error.contains("nothing to receive from"), "{error}");
        collector.set_weights_source(learner).unwrap();
        acts(&mut collector, 4);
    }
}

/// Fails whenever it is asked, by a panic too.
struct Broken(u32);

impl WeightsSource for Broken {
    fn poll(&mut self, _: &Models) -> Result<(), BoxError> {
        self.0 += 1;
        assert!(self.0.is_multiple_of(2), "look {}", self.0);
        Err("always".into())
    }
}

#[test]
fn x10_a_source_that_always_fails_holds_nothing_up() {
    for kind in KINDS {
        let builder = of_kind(kind, 4).policy(stamped_network()).weights_source(Broken(0)).total_frames(200);
        let (mut frames, mut errors) = (0, Vec::new());
        for item in builder.build().unwrap() {
            match item {
                Ok(batch) => frames += batch.frames(),
                Err(error) => errors.push(error.to_string()),
            }
        }
        assert_eq!(frames, 200, "{kind:?}");
        assert!(
            errors.len() >= 2 && errors[0].contains("panicked: look 1") && errors[1].contains("always"),
            "{errors:?}"
        );
    }
}

#[test]
fn a_running_collector_tells_the_error_and_goes_on() {
    const SOON: Duration = Duration::from_secs(60);
    for kind in KINDS {
        let replay = Replay::new(1_000).unwrap();
        let learner = Learner::default();
        let builder = of_kind(kind, 4).policy(stamped_network()).weights_source(learner.clone()).replay(&replay);
        let mut running = builder.build().unwrap().start().unwrap();
        running.wait_written(100, SOON).unwrap();
        learner.send(Err("the line is cut".into()));
        let deadline = Instant::now() + SOON;
        let error = loop {
            match running.check() {
                Err(error) => break error,
                Ok(()) => assert!(Instant::now() < deadline, "{kind:?}: no error"),
            }
            std::thread::yield_now();
        };
        assert!(matches!(error, Error::WeightsSource(_)), "{error}");
        running.check().unwrap();
        assert!(running.is_running());
        learner.send(Ok((5, 5)));
        running.weights().unwrap().wait_adopted(5, SOON).unwrap();
        // An error that nobody asked for keeps nobody from the collector.
        learner.send(Err("again".into()));
        let written = replay.write_count();
        running.wait_written(written + 400, SOON).ok();
        running.shutdown(SOON).unwrap();
    }
}

#[test]
fn wu02_what_takes_no_weights_or_takes_them_twice_is_not_built() {
    let refused = |sync: WeightSync, policy: Policy<Tag>| {
        of_kind(KINDS[1], 4).policy(policy).weight_sync(sync).build().unwrap_err().to_string()
    };
    for sync in [WeightSync::Off, WeightSync::file("x.safetensors")] {
        let error = refused(sync, Policy::random());
        assert!(error.contains("weight_sync and policy"), "{error}");
    }
    let other = WeightSync::File { path: "x".into(), names: None, every: Duration::ZERO, policy: 1 };
    let error = refused(other.clone(), stamped_network());
    assert_eq!(error, "weight_sync is policy 1; legal: a network, [0]");
    let names = WeightSync::File { path: "x".into(), names: Some("none.ron".into()), every: Duration::ZERO, policy: 0 };
    assert!(refused(names, stamped_network()).contains("none.ron"));
    let both = of_kind(KINDS[0], 4).policy(stamped_network()).weight_sync(WeightSync::Off);
    let error = both.weights_source(Learner::default()).build().unwrap_err().to_string();
    assert!(error.contains("weights_source and weight_sync"), "{error}");
    let none = of_kind(KINDS[0], 4).weights_source(Learner::default()).build().unwrap_err().to_string();
    assert!(none.contains("weights_source and policy"), "{none}");
    // One that is refused later leaves what there is.
    let mut collector = of_kind(KINDS[0], 4).policy(stamped_network()).build().unwrap();
    assert!(collector.set_weight_sync(other).is_err());
    assert_eq!(*collector.weight_sync(), WeightSync::Shared);
    collector.weights().unwrap().publish(stamped_weights(1)).unwrap();
    acts(&mut collector, 1);
}

#[test]
fn a_run_file_names_a_file_beside_it() {
    let folder = Folder::new("run");
    let run = folder.file("run.ron");
    let text = r#"(env: "cart_pole", collector: (rows: 4, weight_sync: File(path: "weights", every: (secs: 0, nanos: 0))),
        policy: Network(backend: Cpu))"#;
    fs::write(&run, text).unwrap();
    let mut registry = Registry::empty();
    registry.add::<CartPole>("cart_pole");
    let mut collector = registry.open(&run).unwrap();
    let weights = collector.weights().unwrap();
    assert!(matches!(collector.next().unwrap(), Err(Error::WeightsSource(_))), "no such folder");
    collector.next().unwrap().unwrap();
    fs::create_dir(folder.file("weights")).unwrap();
    weights.latest().1.save(folder.file("weights/1.safetensors")).unwrap();
    collector.next().unwrap().unwrap();
    weights.wait_adopted(1, Duration::ZERO).unwrap();
    let wrong = text.replace("Network(backend: Cpu)", "Random");
    fs::write(&run, wrong).unwrap();
    let error = registry.open(&run).unwrap_err().to_string();
    assert!(error.contains("run.ron:1:") && error.contains("weight_sync"), "{error}");
}

/// Counts the looks, fails at as many, and publishes at each behind them.
#[derive(Clone, Default)]
struct Looks(Arc<Mutex<u64>>, u64);

impl WeightsSource for Looks {
    fn poll(&mut self, models: &Models) -> Result<(), BoxError> {
        let mut looks = self.0.lock().unwrap();
        *looks += 1;
        if *looks <= self.1 {
            return Err("half a file".into());
        }
        let handle = models.get(0)?;
        handle.publish(stamped_weights(handle.version() + 1))?;
        Ok(())
    }
}

#[test]
fn wf04_the_source_is_looked_at_every_so_many_batches() {
    for kind in KINDS {
        for interval in [1, 3, 7] {
            let looks = Looks::default();
            let builder = of_kind(kind, 4).policy(stamped_network()).weights_source(looks.clone());
            let mut collector = builder.weight_sync_interval(interval).build().unwrap();
            for batch in 1..=21 {
                collector.next().unwrap().unwrap();
                assert_eq!(*looks.0.lock().unwrap(), u64::div_ceil(batch, interval), "{kind:?}, every {interval}");
            }
            // By hand at any time.
            collector.receive_weights().unwrap();
            assert_eq!(*looks.0.lock().unwrap(), 21 / interval + 1);
        }
    }
    // One that fails is made again behind one batch, however long the interval.
    for (kind, interval, wanted) in KINDS
        .into_iter()
        .flat_map(|kind| [(3, [1, 2, 2, 2, 3]), (u64::MAX, [1, 2, 2, 2, 2])].map(|(i, w)| (kind, i, w)))
    {
        let looks = Looks(Arc::default(), 1);
        let builder = of_kind(kind, 4).policy(stamped_network()).weights_source(looks.clone());
        let mut collector = builder.weight_sync_interval(interval).build().unwrap();
        assert!(matches!(collector.next().unwrap(), Err(Error::WeightsSource(_))));
        let seen = wanted.map(|_| {
            collector.next().unwrap().unwrap();
            *looks.0.lock().unwrap()
        });
        assert_eq!(seen, wanted, "{kind:?}, every {interval}");
    }
    let builder = || of_kind(KINDS[0], 4).policy(stamped_network());
    assert_eq!(refusal(builder().weight_sync_interval(2)), ("weight_sync_interval", "weight_sync"));
    let never = builder().weights_source(Looks::default()).weight_sync_interval(0).build().unwrap_err().to_string();
    assert!(never.starts_with("weight_sync_interval is 0; legal: 1 or more"), "{never}");
}
