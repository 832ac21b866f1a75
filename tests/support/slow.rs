//! An environment whose steps take as long as a test says, and what it shares with the test.

use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use bevy_ecs::prelude::Component;
use gleaner::{
    config::CollectorBuilder,
    env::{Env, RowStepper, Transition},
    prelude::{Collector, Space, Stream, Task},
};

/// What happens in a step, by row, episode and step.
pub type Act = Arc<dyn Fn(u32, u32, u32) + Send + Sync>;

/// Observes `[row, episode, t, noise, sum of actions]`; the action changes what follows.
#[derive(Component)]
pub struct Slow {
    row: u32,
    episode: u32,
    t: u32,
    sum: f32,
    length: u32,
    act: Act,
}

/// A builder whose rows have episodes of `length` frames, more by row and episode, and call `act` in each step.
pub fn slow(
    length: u32,
    act: impl Fn(u32, u32, u32) + Send + Sync + 'static,
) -> CollectorBuilder<Slow, RowStepper<Slow>> {
    let act: Act = Arc::new(act);
    Collector::with_factory(move |context| {
        Ok(Slow { row: context.row, episode: 0, t: 0, sum: 0.0, length, act: act.clone() })
    })
}

/// Sleeps 0 to 3 ms, another time for each frame.
pub fn uneven(row: u32, episode: u32, t: u32) {
    let hash = (row ^ episode.rotate_left(9) ^ t.rotate_left(17)).wrapping_mul(0x9E37_79B9) >> 16;
    sleep(Duration::from_micros(u64::from(hash % 3_000)));
}

impl Slow {
    fn see(&self, noise: f32) -> [f32; 5] {
        [self.row as f32, self.episode as f32, self.t as f32, noise, self.sum]
    }
}

impl Task for Slow {
    type Observation = [f32; 5];
    type Action = f32;
    type Mask = ();
    fn observation_space() -> Space {
        Space::unbounded(5)
    }
    fn action_space() -> Space {
        Space::uniform(-1.0, 1.0, 1)
    }
}

impl Env for Slow {
    type Options = ();
    fn reset(&mut self, _: &(), stream: &mut Stream) -> [f32; 5] {
        (self.episode, self.t, self.sum) = (stream.episode(), 0, 0.0);
        self.see(stream.unit())
    }
    fn step(&mut self, action: &f32, stream: &mut Stream) -> Transition<[f32; 5]> {
        (self.act)(self.row, self.episode, self.t);
        self.t += 1;
        self.sum += action;
        let done = self.t == self.length + (self.row + self.episode) % 3;
        Transition { observation: self.see(stream.unit()), reward: self.sum, terminated: done, truncated: false }
    }
}

/// A gate that holds threads until it is opened.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>, Arc<AtomicU64>);

impl Gate {
    /// Waits, however long.
    pub fn wait(&self) {
        self.1.fetch_add(1, Relaxed);
        let mut open = self.0.0.lock().expect("nobody panics here");
        while !*open {
            open = self.0.1.wait(open).expect("nobody panics here");
        }
    }

    pub fn open(&self) {
        *self.0.0.lock().expect("nobody panics here") = true;
        self.0.1.notify_all();
    }

    /// Threads that came to the gate.
    pub fn came(&self) -> u64 {
        self.1.load(Relaxed)
    }

    /// Waits until `threads` have come. Panics after a minute without them.
    pub fn wait_for(&self, threads: u64) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.came() < threads {
            assert!(Instant::now() < deadline, "{} of {threads} came to the gate", self.came());
            sleep(Duration::from_millis(1));
        }
    }
}
