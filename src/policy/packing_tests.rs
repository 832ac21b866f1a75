use std::sync::{
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    mpsc,
};

use super::*;

/// Packs when it is let; the packed form is the number of the call.
struct Gated {
    gate: Mutex<mpsc::Receiver<()>>,
    packed: AtomicU64,
    broken: AtomicBool,
}

impl Packer for Gated {
    fn pack(&self, _: &Weights) -> Result<PackedWeights, Error> {
        self.gate.lock().unwrap().recv_timeout(Duration::from_secs(60)).expect("it is let");
        if self.broken.load(SeqCst) {
            return Err(Error::Tensor { name: "x".into(), problem: "broken".into() });
        }
        Ok(Arc::new(self.packed.fetch_add(1, SeqCst)))
    }
}

/// A set that the thread packs.
fn large() -> Arc<Weights> {
    let mut weights = Weights::new();
    weights.insert("x", [SMALL + 1], vec![0.0; SMALL + 1]);
    Arc::new(weights)
}

fn gated() -> (mpsc::Sender<()>, Arc<Gated>, Packing) {
    let (open, gate) = mpsc::channel();
    let packer = Arc::new(Gated { gate: Mutex::new(gate), packed: AtomicU64::new(0), broken: AtomicBool::new(false) });
    (open, packer.clone(), Packing::new(packer))
}

impl Packing {
    fn poll(&mut self, version: u64, weights: &Arc<Weights>) -> Result<Option<Ready>, Error> {
        self.ask(version, weights);
        self.take()
    }
}

fn poll_until(packing: &mut Packing, version: u64, weights: &Arc<Weights>) -> Result<Ready, Error> {
    for _ in 0..60_000 {
        if let Some(ready) = packing.poll(version, weights).transpose() {
            return ready;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("never packed");
}

#[test]
fn a_tick_does_not_wait() {
    let (open, packer, mut packing) = gated();
    let weights = large();
    assert!(!packing.is_busy());
    for _ in 0..10 {
        assert!(packing.poll(1, &weights).unwrap().is_none(), "nobody let it pack");
    }
    // Those that come meanwhile are packed next, but for the last one in vain.
    for version in 2..10 {
        assert!(packing.poll(version, &weights).unwrap().is_none());
    }
    open.send(()).unwrap();
    let first = poll_until(&mut packing, 9, &weights).unwrap();
    open.send(()).unwrap();
    let last = if first.version == 9 { first } else { poll_until(&mut packing, 9, &weights).unwrap() };
    assert_eq!(last.version, 9);
    assert!(!packing.is_busy());
    assert!(packer.packed.load(SeqCst) <= 2, "one that was at hand, and the newest");
    assert!(packing.poll(9, &weights).unwrap().is_none(), "taken once");
}

#[test]
fn a_small_set_is_packed_in_the_tick() {
    let (open, _, mut packing) = gated();
    open.send(()).unwrap();
    assert_eq!(packing.poll(1, &Arc::new(Weights::new())).unwrap().unwrap().version, 1);
    assert!(packing.thread.is_none());
}

#[test]
fn between_rollouts_the_newest_is_waited_for() {
    let (open, packer, mut packing) = gated();
    let weights = large();
    open.send(()).unwrap();
    assert_eq!(packing.now(1, &weights).unwrap().version, 1);
    assert!(packing.thread.is_none(), "nothing was published within a rollout");
    // The thread is at it: nobody packs twice.
    assert!(packing.poll(2, &weights).unwrap().is_none());
    let opener = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        open.send(()).unwrap();
        open
    });
    assert_eq!(packing.now(2, &weights).unwrap().version, 2);
    assert_eq!(packer.packed.load(SeqCst), 2);
    // The thread is at an older one: that is of no use any more.
    let open = opener.join().unwrap();
    assert!(packing.poll(3, &weights).unwrap().is_none());
    open.send(()).unwrap();
    open.send(()).unwrap();
    assert_eq!(packing.now(4, &weights).unwrap().version, 4);
    while packer.packed.load(SeqCst) < 4 && packing.shared.lock().wanted.is_some() {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(packing.poll(4, &weights).unwrap().is_none(), "the older one came late");
}

#[test]
fn an_error_is_told_and_old_sets_are_freed() {
    let (open, packer, mut packing) = gated();
    let weights = large();
    packer.broken.store(true, SeqCst);
    open.send(()).unwrap();
    assert!(poll_until(&mut packing, 1, &weights).err().unwrap().to_string().contains("broken"));
    let (old, gone) = (Arc::new(Weights::new()), Arc::downgrade(&weights));
    packing.retire([old.clone() as PackedWeights, weights]);
    drop(old);
    for _ in 0..60_000 {
        if gone.upgrade().is_none() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("never freed");
}
