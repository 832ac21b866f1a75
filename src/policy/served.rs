//! A network that an [`InferenceServer`] runs, together with others that act by the same weights.

use std::{
    collections::HashMap,
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
    error::Error,
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

/// A call on its way.
struct Request {
    ticket: u64,
    since: Instant,
    call: Box<Call>,
    /// What went wrong with its batch.
    failed: Option<String>,
}

#[derive(Default)]
struct Queue {
    tickets: u64,
    waiting: Vec<Request>,
    /// Whether one of those that asked runs a batch.
    busy: bool,
    answered: HashMap<u64, Request>,
    /// Room for a batch.
    batch: Vec<Request>,
}

/// Those that act by the same weights: of them one at a time runs a batch for all that wait.
pub(super) struct Group {
    site: Site,
    plan: Plan,
    weights: Weights,
    network: Mutex<Box<dyn Network>>,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Networks that act by it.
    members: AtomicUsize,
}

impl Group {
    pub(super) fn new(site: Site, plan: Plan, weights: Weights, network: Box<dyn Network>) -> Self {
        let (network, queue) = (Mutex::new(network), Mutex::default());
        Self { site, plan, weights, network, queue, changed: Condvar::new(), members: AtomicUsize::new(0) }
    }

    pub(super) fn is_of(&self, site: &Site, plan: &Plan, weights: &Weights) -> bool {
        self.site.is(site) && self.plan == *plan && self.weights == *weights
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the call answered, by whoever runs its batch.
    fn serve(&self, server: &InferenceServer, call: Box<Call>) -> Result<Box<Call>, Error> {
        let config = server.config();
        let since = Instant::now();
        let mut queue = self.lock();
        queue.tickets += 1;
        let ticket = queue.tickets;
        queue.waiting.push(Request { ticket, since, call, failed: None });
        // It may be the one that another waits for.
        self.changed.notify_all();
        loop {
            if let Some(request) = queue.answered.remove(&ticket) {
                let failed = request.failed.map(|problem| Error::State { call: "forward", problem });
                return failed.map_or(Ok(request.call), Err);
            }
            let rows: usize = queue.waiting.iter().map(|request| request.call.rows()).sum();
            let oldest = queue.waiting.iter().map(|request| request.since.elapsed()).max().unwrap_or_default();
            let enough =
                rows >= config.min_rows || queue.waiting.len() >= self.members.load(Relaxed) || oldest >= config.window;
            if !queue.busy && enough {
                queue = self.run_batch(server, queue);
                continue;
            }
            let Some(left) = config.deadline.checked_sub(since.elapsed()) else {
                queue.waiting.retain(|request| request.ticket != ticket);
                return Err(Error::Timeout { what: "an inference server's answer", deadline: config.deadline });
            };
            let patience = if queue.busy { left } else { left.min(config.window - oldest) };
            queue = self.changed.wait_timeout(queue, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Runs what waits and goes with the oldest call, without the lock.
    fn run_batch<'a>(&'a self, server: &InferenceServer, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        queue.busy = true;
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
        let done = self.run(&mut batch);
        let waited = batch.iter().map(|request| begin.duration_since(request.since));
        server.note(waited, rows, begin.elapsed());
        let failed = done.err().map(|error| error.to_string());
        let mut queue = self.lock();
        queue.busy = false;
        for request in batch.drain(..) {
            queue.answered.insert(request.ticket, Request { failed: failed.clone(), ..request });
        }
        queue.batch = batch;
        self.changed.notify_all();
        queue
    }

    fn run(&self, batch: &mut [Request]) -> Result<(), Error> {
        let Some((first, others)) = batch.split_first_mut() else { return Ok(()) };
        others.iter().for_each(|other| first.call.append(&other.call));
        let mut network = self.network.lock().unwrap_or_else(PoisonError::into_inner);
        let done = first.call.run(&mut **network);
        drop(network);
        others.iter_mut().rev().for_each(|other| first.call.split_off(&mut other.call));
        done
    }
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
        drop(self.0.lock());
        self.0.changed.notify_all();
    }
}

/// Asks a server in place of running by itself.
pub(super) struct ServedNetwork {
    packer: ServedPacker,
    member: Option<Member>,
    /// Room for a call, between two of them.
    call: Option<Box<Call>>,
}

impl ServedNetwork {
    /// Errors: the network remembers.
    pub(super) fn new(server: InferenceServer, site: Site, plan: Plan) -> Result<Self, Error> {
        if plan.state() > 0 {
            let reason = "what a row remembers stays with its collector; serve networks without memory".into();
            return Err(Error::Conflict { first: "served_by", second: "network", reason });
        }
        Ok(Self { packer: ServedPacker { server, site, plan }, member: None, call: None })
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
        self.member = Some(Member::of(group));
        Ok(())
    }

    fn forward(&mut self, input: &Forward<'_>, out: &mut Outcome<'_>) -> Result<(), Error> {
        call::check(&self.packer.plan, input, out)?;
        let Some(Member(group)) = &self.member else {
            return Err(Error::State { call: "forward", problem: "no weights; legal: after load".into() });
        };
        // Others' calls go with this one whatever frames it counts, unless an epsilon depends on them.
        let frames = if self.packer.plan.head.anneals() { input.frames } else { 0 };
        let mut call = self.call.take().unwrap_or_default();
        call.set(input, out, frames);
        let call = group.serve(&self.packer.server, call)?;
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
