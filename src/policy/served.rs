//! A network that an [`InferenceServer`] runs, together with others that act by the same weights.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use super::{
    backend::Site,
    call,
    packing::{PackedWeights, Packer},
    plan::{Exploration, Forward, Network, Outcome, Plan},
    server::InferenceServer,
};
use crate::{
    components::{ActionKey, Episode, EpisodeStep, Masks, Weights},
    error::{Error, panic_message},
};

/// Copies of what [`Forward`] and [`Outcome`] lend.
#[derive(Default)]
struct Call {
    inputs: Vec<f32>,
    masks: Vec<u8>,
    mask: usize,
    keys: Vec<ActionKey>,
    episodes: Vec<Episode>,
    steps: Vec<EpisodeStep>,
    exploration: Exploration,
    frames: u64,
    params: Vec<f32>,
    actions: Vec<u8>,
    log_probs: Vec<f32>,
    entropies: Vec<f32>,
    values: Vec<f32>,
}

macro_rules! columns {
    ($with:ident) => {
        $with!(in inputs, masks, keys, episodes, steps; out params, actions, log_probs, entropies, values)
    };
}

impl Call {
    fn set(&mut self, input: &Forward<'_>, out: &Outcome<'_>, frames: u64) {
        let (rows, mask) = (input.keys.len(), input.masks.width());
        self.masks.clear();
        (0..rows).for_each(|i| self.masks.extend(input.masks.row(i)));
        (self.mask, self.exploration, self.frames) = (mask, input.exploration, frames);
        macro_rules! copy {
            ($($in:ident),*; $($out:ident),*) => {
                $( self.$in.clear(); self.$in.extend_from_slice(input.$in); )*
                $( self.$out.clear(); self.$out.resize(out.$out.len(), Default::default()); )*
            };
        }
        copy!(inputs, keys, episodes, steps; params, actions, log_probs, entropies, values);
    }

    fn rows(&self) -> usize {
        self.keys.len()
    }

    /// Whether both may be one call.
    fn goes_with(&self, other: &Self) -> bool {
        let kind = |call: &Self| (call.exploration, call.frames, call.mask, call.entropies.is_empty());
        kind(self) == kind(other)
    }

    /// Puts another call's rows behind the own ones.
    fn append(&mut self, other: &Self) {
        macro_rules! append {
            (in $($in:ident),*; out $($out:ident),*) => {
                $( self.$in.extend_from_slice(&other.$in); )*
                $( self.$out.extend_from_slice(&other.$out); )*
            };
        }
        columns!(append);
    }

    /// Moves the last rows to the call that they came from.
    fn split_off(&mut self, other: &mut Self) {
        macro_rules! split {
            (in $($in:ident),*; out $($out:ident),*) => {
                $( self.$in.truncate(self.$in.len() - other.$in.len()); )*
                $(
                    let at = self.$out.len() - other.$out.len();
                    other.$out.copy_from_slice(&self.$out[at..]);
                    self.$out.truncate(at);
                )*
            };
        }
        columns!(split);
    }

    fn run(&mut self, network: &mut dyn Network) -> Result<(), Error> {
        let input = Forward {
            inputs: &self.inputs,
            masks: Masks::of_bytes(&self.masks, self.mask),
            keys: &self.keys,
            episodes: &self.episodes,
            steps: &self.steps,
            exploration: self.exploration,
            frames: self.frames,
            memory: None,
        };
        let mut out = Outcome {
            params: &mut self.params,
            actions: &mut self.actions,
            log_probs: &mut self.log_probs,
            entropies: &mut self.entropies,
            values: &mut self.values,
        };
        network.forward(&input, &mut out)
    }
}

type Answer = Result<Box<Call>, Error>;

/// A call on its way.
struct Request {
    since: Instant,
    call: Box<Call>,
    answer: Arc<Mutex<Option<Answer>>>,
}

struct Queue {
    /// Taken by who runs a batch.
    network: Option<Box<dyn Network>>,
    waiting: Vec<Request>,
    /// Room for a batch.
    batch: Vec<Request>,
    /// Whether a batch went wrong: who comes anew finds another group.
    failed: bool,
}

/// Those that act by the same weights: of them one at a time runs a batch for all that wait.
pub(super) struct Group {
    site: Site,
    plan: Plan,
    weights: Weights,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Networks that act by it.
    members: AtomicUsize,
}

fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    // Whole values only are put there.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same error for another caller: what callers tell apart as it is, else its words.
fn copied(error: &Error) -> Error {
    match error {
        Error::DeviceLost { dispatch, reason } => Error::DeviceLost { dispatch: *dispatch, reason: reason.clone() },
        Error::Timeout { what, deadline } => Error::Timeout { what, deadline: *deadline },
        other => Error::State { call: "forward", problem: other.to_string() },
    }
}

impl Group {
    pub(super) fn new(site: Site, plan: Plan, weights: Weights, network: Box<dyn Network>) -> Self {
        let queue = Queue { network: Some(network), waiting: Vec::new(), batch: Vec::new(), failed: false };
        let (queue, members) = (Mutex::new(queue), AtomicUsize::new(0));
        Self { site, plan, weights, queue, changed: Condvar::new(), members }
    }

    pub(super) fn is_of(&self, site: &Site, plan: &Plan, weights: &Weights) -> bool {
        self.site.is(site) && self.plan == *plan && !lock(&self.queue).failed && self.weights == *weights
    }

    /// Has the call answered, by whoever runs its batch. After a time-out nobody looks at `answer` any more.
    fn serve(&self, server: &InferenceServer, call: Box<Call>, answer: &Arc<Mutex<Option<Answer>>>) -> Answer {
        let config = server.config();
        let since = Instant::now();
        let mut queue = lock(&self.queue);
        queue.waiting.push(Request { since, call, answer: answer.clone() });
        // It may be the one that another waits for.
        self.changed.notify_all();
        loop {
            if let Some(answer) = lock(answer).take() {
                return answer;
            }
            let rows: usize = queue.waiting.iter().map(|request| request.call.rows()).sum();
            let oldest = queue.waiting.iter().map(|request| request.since.elapsed()).max().unwrap_or_default();
            let enough =
                rows >= config.min_rows || queue.waiting.len() >= self.members.load(Relaxed) || oldest >= config.window;
            if enough && let Some(network) = queue.network.take() {
                queue = self.run_batch(server, queue, network);
                continue;
            }
            let Some(left) = config.deadline.checked_sub(since.elapsed()) else {
                queue.waiting.retain(|request| !Arc::ptr_eq(&request.answer, answer));
                return Err(Error::Timeout { what: "an inference server's answer", deadline: config.deadline });
            };
            let patience = if queue.network.is_none() { left } else { left.min(config.window - oldest) };
            queue = self.changed.wait_timeout(queue, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Runs what waits and goes with the oldest call, without the lock.
    fn run_batch<'a>(
        &'a self,
        server: &InferenceServer,
        mut queue: MutexGuard<'a, Queue>,
        mut network: Box<dyn Network>,
    ) -> MutexGuard<'a, Queue> {
        let mut batch = std::mem::take(&mut queue.batch);
        let (mut rows, mut i) = (0, 0);
        while let Some(request) = queue.waiting.get(i) {
            let all = rows + request.call.rows();
            let fits = |first: &Request| first.call.goes_with(&request.call) && all <= server.config().max_rows;
            if batch.first().is_none_or(fits) {
                rows = all;
                batch.push(queue.waiting.remove(i));
            } else {
                i += 1;
            }
        }
        drop(queue);
        let begin = Instant::now();
        // It panics in no case of ours; if it did, nobody shall wait for it.
        let caught = catch_unwind(AssertUnwindSafe(|| run(&mut *network, &mut batch)));
        let panicked = |payload| Err(Error::State { call: "forward", problem: panic_message(payload) });
        let done = caught.unwrap_or_else(panicked);
        let waited = batch.iter().map(|request| begin.duration_since(request.since));
        server.note(waited, rows, begin.elapsed());
        let mut queue = lock(&self.queue);
        queue.network = Some(network);
        queue.failed |= done.is_err();
        for Request { call, answer, .. } in batch.drain(..) {
            let answered = done.as_ref().map_err(copied).map(|()| call);
            *lock(&answer) = Some(answered);
        }
        queue.batch = batch;
        self.changed.notify_all();
        queue
    }
}

/// Runs a batch through the network.
fn run(network: &mut dyn Network, batch: &mut [Request]) -> Result<(), Error> {
    let Some((first, others)) = batch.split_first_mut() else { return Ok(()) };
    others.iter().for_each(|other| first.call.append(&other.call));
    let done = first.call.run(network);
    others.iter_mut().rev().for_each(|other| first.call.split_off(&mut other.call));
    done
}

/// A seat in a group.
struct Member(Arc<Group>);

impl Member {
    fn of(group: Arc<Group>) -> Self {
        group.members.fetch_add(1, Relaxed);
        Self(group)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.0.members.fetch_sub(1, Relaxed);
        // The others need not wait for it.
        drop(lock(&self.0.queue));
        self.0.changed.notify_all();
    }
}

/// Asks a server in place of running by itself.
pub(super) struct ServedNetwork {
    packer: ServedPacker,
    group: Option<Arc<Group>>,
    /// From its first call on: who never asks is not waited for.
    member: Option<Member>,
    /// Room for a call, between two of them.
    call: Option<Box<Call>>,
    answer: Arc<Mutex<Option<Answer>>>,
}

impl ServedNetwork {
    /// Errors: the network remembers.
    pub(super) fn new(server: InferenceServer, site: Site, plan: Plan) -> Result<Self, Error> {
        if plan.state() > 0 {
            let reason = "what a row remembers stays with its collector; serve networks without memory".into();
            return Err(Error::Conflict { first: "served_by", second: "network", reason });
        }
        let packer = ServedPacker { server, site, plan };
        Ok(Self { packer, group: None, member: None, call: None, answer: Arc::default() })
    }
}

/// Finds the group of a set of weights, or makes it.
#[derive(Clone)]
struct ServedPacker {
    server: InferenceServer,
    site: Site,
    plan: Plan,
}

impl Packer for ServedPacker {
    fn pack(&self, weights: &Weights) -> Result<PackedWeights, Error> {
        Ok(self.server.group(&self.site, &self.plan, weights)?)
    }
}

impl Network for ServedNetwork {
    fn packer(&self) -> Arc<dyn Packer> {
        Arc::new(self.packer.clone())
    }

    fn adopt(&mut self, packed: &PackedWeights) -> Result<(), Error> {
        let Ok(group) = packed.clone().downcast::<Group>() else {
            let problem = "the weights are packed for another network; legal: the same server's".into();
            return Err(Error::State { call: "adopt", problem });
        };
        (self.group, self.member) = (Some(group), None);
        Ok(())
    }

    fn forward(&mut self, input: &Forward<'_>, out: &mut Outcome<'_>) -> Result<(), Error> {
        call::check(&self.packer.plan, input, out)?;
        let Some(group) = &self.group else {
            return Err(Error::State { call: "forward", problem: "no weights; legal: after load".into() });
        };
        if input.keys.is_empty() {
            return Ok(());
        }
        self.member.get_or_insert_with(|| Member::of(group.clone()));
        let mut call = self.call.take().unwrap_or_default();
        call.set(input, out, self.packer.plan.head.counted(input.frames));
        let answered = group.serve(&self.packer.server, call, &self.answer);
        // What comes after a time-out is for nobody.
        let call = answered.inspect_err(|_| self.answer = Arc::default())?;
        out.params.copy_from_slice(&call.params);
        out.actions.copy_from_slice(&call.actions);
        out.log_probs.copy_from_slice(&call.log_probs);
        out.entropies.copy_from_slice(&call.entropies);
        out.values.copy_from_slice(&call.values);
        self.call = Some(call);
        Ok(())
    }
}

#[cfg(test)]
#[path = "served_tests.rs"]
mod tests;
