//! Every example runs as a reader runs it, as a program of its own with `--quick`, and says what it promises.

#![cfg(all(feature = "app", feature = "gpu"))]

#[path = "../examples/learner/mod.rs"]
mod learner;

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use gleaner::prelude::*;

/// The built example, to be run where the assets are.
fn example(name: &str) -> Command {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "--example", name]).current_dir(env!("CARGO_MANIFEST_DIR"));
    // As this test was built, so that nothing is built again.
    if cfg!(feature = "arrow") {
        build.args(["--features", "arrow"]);
    }
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success(), "{name} does not build");
    // Tests lie in `deps`, beside `examples`.
    let tests = std::env::current_exe().unwrap();
    let mut program = Command::new(tests.parent().unwrap().with_file_name("examples").join(name));
    program.current_dir(env!("CARGO_MANIFEST_DIR"));
    program
}

/// What the example prints. It must succeed.
fn run(name: &str, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    let Output { status, stdout, stderr } = example(name).args(args).output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{name}: {status}\n{stdout}{stderr}");
    stdout
}

/// The numbers of the lines that begin with `label`.
fn results(printed: &str, label: &str) -> Vec<f32> {
    let numbers = printed.lines().filter_map(|line| line.strip_prefix(label)?.strip_prefix(": "));
    numbers.map(|number| number.parse().unwrap()).collect()
}

/// A folder for files of a run, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("gleaner-{name}-{}", std::process::id())))
    }

    fn picture(&self, path: &str) -> bool {
        std::fs::read(self.0.join(path)).is_ok_and(|picture| picture.starts_with(b"\x89PNG"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Trains quickly on the CPU, which must leave a policy, and returns the result.
fn trains(name: &str) -> f32 {
    let out = Folder::new(name);
    let printed = run(name, ["--quick", "--backend", "cpu", "--out", out.0.to_str().unwrap()]);
    Weights::load(out.0.join("policy.safetensors")).unwrap();
    assert!(out.picture("learning_curve.png"), "{name} draws its learning curve");
    results(&printed, "evaluation mean return")[0]
}

#[test]
fn cart_pole() {
    let mean = trains("cart_pole");
    assert!(mean > 50.0, "{mean}; random actions give 20 to 25");
}

#[test]
fn cart_pole_over_workers() {
    // On their own, workers bring other data each time, in whichever way the machine lets them.
    for (more, runs) in [(&["--workers", "2"][..], 1), (&["--workers", "2", "--async"], 2)] {
        let out = Folder::new("workers");
        let args = ["--quick", "--backend", "cpu", "--out", out.0.to_str().unwrap()];
        let mut means = Vec::new();
        while means.len() < runs && means.last().is_none_or(|mean| *mean <= 50.0) {
            let printed = run("cart_pole", args.iter().chain(more));
            means.push(results(&printed, "evaluation mean return")[0]);
        }
        assert!(means.last().is_some_and(|mean| *mean > 50.0), "{means:?} with {more:?}; random actions give 20 to 25");
    }
}

#[test]
fn dqn_cart_pole() {
    let mean = trains("dqn_cart_pole");
    assert!(mean > 50.0, "{mean}; random actions give 20 to 25");
}

#[test]
fn a_seed_of_dqn_is_one_run() {
    let weights = ["dqn_first", "dqn_second"].map(|name| {
        let out = Folder::new(name);
        run("dqn_cart_pole", ["--frames", "1500", "--backend", "cpu", "--out", out.0.to_str().unwrap()]);
        Weights::load(out.0.join("policy.safetensors")).unwrap()
    });
    assert_eq!(weights[0], weights[1]);
}

#[test]
fn pendulum() {
    let mean = trains("pendulum");
    assert!(mean > -900.0, "{mean}; random actions give about -1,200");
}

#[test]
fn sac_pendulum() {
    let mean = trains("sac_pendulum");
    assert!(mean > -1_000.0, "{mean}; random actions give about -1,200");
}

#[test]
fn pixels() {
    let mean = trains("pixels");
    assert!((-1.0..=1.0).contains(&mean), "{mean}");
}

#[test]
fn memory() {
    let out = Folder::new("memory");
    let printed = run("memory", ["--quick", "--backend", "cpu", "--out", out.0.to_str().unwrap()]);
    let plain = results(&printed, "recall of the same network without memory")[0];
    assert!((0.4..=0.6).contains(&plain), "{plain}: without memory there is only guessing");
    assert_eq!(results(&printed, "recall").len(), 1);
    assert!(out.picture("recurrent/learning_curve.png") && out.picture("plain/learning_curve.png"));
}

#[test]
fn offline() {
    let out = Folder::new("offline");
    let printed = run("offline", ["--quick", "--out", out.0.to_str().unwrap()]);
    let mean = results(&printed, "evaluation mean return")[0];
    assert!(mean > 100.0, "{mean}; random actions give 20 to 25");
}

#[test]
fn from_pytorch() {
    let printed = run("from_pytorch", ["--backend", "cpu"]);
    let [cart_pole, pendulum] = results(&printed, "evaluation mean return")[..] else { panic!("{printed}") };
    // Their returns in Gymnasium.
    assert_eq!(cart_pole, 500.0);
    assert!((-221.0..=-141.0).contains(&pendulum), "{pendulum}");
}

#[test]
fn from_ron() {
    let folder = Folder::new("from_ron");
    std::fs::create_dir_all(&folder.0).unwrap();
    let own = folder.0.join("drift.ron");
    std::fs::write(&own, r#"(env: "drift", collector: (rows: 4), policy: Network())"#).unwrap();
    let assets = ["cart_pole.ron", "pendulum.ron", "grid_world.ron"].map(|name| PathBuf::from("assets").join(name));
    for file in assets.iter().chain([&own]) {
        let printed = run("from_ron", [file.as_os_str(), OsStr::new("--quick")]);
        let stats = printed.contains("stepped_frames: 5000,") && printed.contains("completed: true");
        assert!(stats, "{}: {printed}", file.display());
    }
    let any = folder.0.join("any.ron");
    let names = ["acrobot", "cart_pole", "grid_world", "mountain_car", "mountain_car_continuous", "pendulum"];
    for name in names {
        std::fs::write(&any, format!("(env: \"{name}\", collector: (rows: 3, total_frames: 30))")).unwrap();
        let printed = run("from_ron", [&any]);
        assert!(printed.contains("stepped_frames: 30,") && printed.contains("completed: true"), "{name}: {printed}");
    }
    std::fs::write(&any, "(env: \"cartpole\")").unwrap();
    let output = example("from_ron").arg(&any).output().unwrap();
    let legal = "legal: acrobot, cart_pole, drift, grid_world, mountain_car, mountain_car_continuous, pendulum";
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains(legal), "{output:?}");
    let output = example("from_ron").arg("assets/none.ron").output().unwrap();
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("assets/none.ron"));
}

#[test]
fn host_world() {
    let printed = run("host_world", [""; 0]);
    let frames = printed.lines().find_map(|line| line.strip_suffix(" frames collected")).expect(&printed);
    assert!((4_000..=400 * 17).contains(&frames.parse::<usize>().unwrap()), "{frames} frames");
}

#[test]
fn quickstart_and_custom_env() {
    let printed = run("quickstart", [""; 0]);
    assert!(printed.contains("stepped_frames: 20000,") && printed.contains("completed: true"), "{printed}");
    let printed = run("custom_env", [""; 0]);
    assert!(printed.lines().count() > 1, "{printed}");
    for (name, most) in [("quickstart", 40), ("custom_env", 80)] {
        let lines = std::fs::read_to_string(format!("examples/{name}.rs")).unwrap().lines().count();
        assert!(lines <= most, "{name} has {lines} lines");
    }
}

#[test]
fn help_names_every_option() {
    let training = ["--quick", "--seed", "--backend", "--out"];
    for name in ["cart_pole", "dqn_cart_pole", "memory", "pendulum", "pixels", "sac_pendulum"] {
        let printed = run(name, ["--help"]);
        assert!(training.iter().all(|option| printed.contains(option)), "{name}: {printed}");
    }
    let printed = run("cart_pole", ["--help"]);
    assert!(["--rows", "--workers", "--async"].iter().all(|option| printed.contains(option)), "{printed}");
    for name in ["from_pytorch", "from_ron", "offline"] {
        assert!(run(name, ["--help"]).contains("--quick"), "{name}");
    }
}

#[cfg(unix)]
fn interrupt(program: &Child) {
    assert!(Command::new("kill").args(["-s", "INT", &program.id().to_string()]).status().unwrap().success());
}

#[test]
#[cfg(unix)]
fn ctrl_c_ends_what_does_not_train_in_order() {
    let endless = Folder::new("endless");
    std::fs::create_dir_all(&endless.0).unwrap();
    let file = endless.0.join("run.ron");
    std::fs::write(&file, r#"(env: "cart_pole", collector: (rows: 8, frames_per_batch: 64))"#).unwrap();
    let any = [
        ("quickstart", None, "completed: "),
        ("custom_env", None, "completed: "),
        ("host_world", None, " frames collected"),
        ("from_pytorch", None, "evaluation mean return: "),
        ("from_ron", Some(file), "stopped by Ctrl-C"),
    ];
    for (name, argument, last) in any {
        let mut program = example(name).args(argument).stdout(Stdio::piped()).spawn().unwrap();
        let mut printed = String::new();
        let mut output = BufReader::new(program.stdout.take().unwrap());
        output.read_line(&mut printed).unwrap();
        interrupt(&program);
        output.read_to_string(&mut printed).unwrap();
        // Quick ones may have ended before; without a handler the signal is how they end.
        let status = program.wait().unwrap();
        assert!(status.success() && printed.contains(last), "{name}: {status}\n{printed}");
    }
}

#[test]
#[cfg(unix)]
fn a_stopped_training_keeps_what_there_is() {
    let out = Folder::new("stopped");
    let mut training = example("cart_pole");
    training.args(["--backend", "cpu", "--frames", "1000000000", "--out"]).arg(&out.0);
    let training = training.stdout(Stdio::piped()).spawn().unwrap();
    // The handler is there before the folder is.
    let deadline = Instant::now() + Duration::from_secs(30);
    while !out.0.exists() {
        assert!(Instant::now() < deadline, "the training did not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    interrupt(&training);
    let output = training.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && printed.contains("stopped by Ctrl-C"), "{printed}");
    Weights::load(out.0.join("policy.safetensors")).unwrap();
    assert!(out.picture("learning_curve.png"));
}
