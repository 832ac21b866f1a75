//! The invariants, as functions on a log: each says what is wrong.

use std::collections::HashMap;

use gleaner::{
    components::{End, Trajectory, Truncation},
    config::Delivery,
    prelude::{Executor, Layout, Overlap, TrajectoryId},
};

use super::{Case, Ending, Frame, Log, Mode, Publish, balance, stamp};

macro_rules! ensure {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err(format!($($message)+));
        }
    };
}

type Check = Result<(), String>;

/// I1: inside a trajectory a frame's next observation is the following frame's; at its end it is the real last one.
pub fn check_links(log: &Log) -> Check {
    for (row, order) in log.by_row().into_iter().enumerate() {
        ensure!(order.is_sorted(), "row {row}: frames are out of order");
        for i in &order {
            check_frame(&log.frames[*i]).map_err(|problem| format!("row {row}, frame {i}: {problem}"))?;
        }
        let first = order.first().map(|i| &log.frames[*i]);
        if let Some(first) = first {
            ensure!(first.step == 0, "row {row}: begins at step {}", first.step);
            check_skipped(log, row, 0, first.observation.resets as u32)?;
        }
        for pair in order.windows(2) {
            let (a, b) = (&log.frames[pair[0]], &log.frames[pair[1]]);
            check_pair(log, row, a, b).map_err(|problem| format!("row {row}, frame {}: {problem}", pair[1]))?;
        }
        let open = order.last().filter(|i| !log.frames[**i].end.ends_episode());
        ensure!(open.is_none() || log.case.mode == Mode::Rollout, "row {row}: a trajectory without an end");
    }
    Ok(())
}

fn check_frame(frame: &Frame) -> Check {
    let (seen, next) = (frame.observation, frame.next);
    ensure!(seen.t == frame.step as f32, "step {} has t {}", frame.step, seen.t);
    ensure!(frame.is_init == (frame.step == 0), "is_init at step {}", frame.step);
    ensure!(next.place() == seen.place() && next.t == seen.t + 1.0, "{seen:?} is followed by {next:?}");
    ensure!(frame.reward == 1.0, "reward {}", frame.reward);
    let last = frame.end.ends_episode().then_some(next);
    ensure!(frame.last == last, "last observation {:?} at end {:?}", frame.last, frame.end);
    Ok(())
}

fn check_pair(log: &Log, row: usize, a: &Frame, b: &Frame) -> Check {
    let (before, after) = (a.observation.resets as u32, b.observation.resets as u32);
    if before == after {
        ensure!(b.step == a.step + 1, "step {} follows {}", b.step, a.step);
        ensure!(!a.end.ends_episode(), "an episode goes on after {:?}", a.end);
        ensure!(a.next == b.observation, "{:?} announced, {:?} seen", a.next, b.observation);
        ensure!(a.id == b.id, "id changes from {:?} to {:?} inside an episode", a.id, b.id);
        return Ok(());
    }
    ensure!(b.step == 0, "a new episode begins at step {}", b.step);
    // A fault in the first frame of a batch ends the episode in the batch before, which is out already.
    let fault = ends_next_nan(log, row as u32, before, a.step) && a.batch != b.batch;
    ensure!(a.end.ends_episode() || fault, "a new episode without an end before");
    check_skipped(log, row, before, after)
}

/// Episodes that left no frame: only those whose first frame was not finite.
fn check_skipped(log: &Log, row: usize, before: u32, after: u32) -> Check {
    for resets in before + 1..after {
        let scripted = log.case.script.episode(row as u32, resets - 1);
        ensure!(scripted == (1, Ending::Nan), "row {row}: episode {resets} is missing, script {scripted:?}");
    }
    Ok(())
}

/// Whether the script makes the frame after step `step` of the episode not finite.
fn ends_next_nan(log: &Log, row: u32, resets: u32, step: u32) -> bool {
    let (length, ending) = log.case.script.episode(row, resets - 1);
    ending == Ending::Nan && length == step + 2
}

/// I2: flags are those of the environment with the engine's truncations added, each with its reason.
pub fn check_flags(log: &Log) -> Check {
    let (edges, cuts) = last_frames(log);
    for (i, frame) in log.frames.iter().enumerate() {
        let end = frame.end;
        ensure!(end.done() == (end.terminated() || end.truncated()), "frame {i}: done without a cause");
        ensure!(end.truncated() == end.truncation().is_some(), "frame {i}: truncated without a reason");
        let (row, resets) = frame.observation.place();
        let mut wanted = own_end(log, row, resets, frame.step);
        if log.case.limit.is_some_and(|limit| frame.step + 1 >= limit) {
            wanted = wanted.or_truncated(Truncation::StepLimit);
        }
        // Whole trajectories do not say which tick was a rollout's last.
        if log.case.reset_each && (cuts[i] || frame.tick.is_none() && end.truncation() == Some(Truncation::ForcedReset))
        {
            wanted = wanted.or_truncated(Truncation::ForcedReset);
        }
        // A batch that takes frames as they come may be out before the fault.
        let fault = ends_next_nan(log, row, resets, frame.step) && !wanted.done();
        if log.case.pooled.is_some() && log.case.mode == Mode::Rollout && fault {
            let reasons = [None, Some(Truncation::Fault)];
            ensure!(reasons.contains(&end.truncation()), "frame {i}: {end:?} before a fault");
            continue;
        }
        let within = frame.tick.is_none() || frame.tick.is_some_and(|tick| tick + 1 < ticks(log, frame.batch));
        if ends_next_nan(log, row, resets, frame.step) && !wanted.done() && within && stepped(log, frame) {
            wanted = wanted.or_truncated(Truncation::Fault);
        }
        if log.case.edge && edges[i] {
            wanted = wanted.or_truncated(Truncation::BatchEdge);
        }
        ensure!(end == wanted, "frame {i}: {end:?}, should be {wanted:?}");
    }
    Ok(())
}

fn own_end(log: &Log, row: u32, resets: u32, step: u32) -> End {
    let (length, ending) = log.case.script.episode(row, resets - 1);
    if step + 1 == length { ending.end() } else { End::RUNNING }
}

fn ticks(log: &Log, batch: usize) -> usize {
    match log.notes[batch].layout {
        Layout::TimeMajor { ticks, .. } => ticks,
        _ => usize::MAX,
    }
}

/// Whether the frame after this one of a time-major batch was stepped: the budget's last tick leaves rows out.
fn stepped(log: &Log, frame: &Frame) -> bool {
    let Some(tick) = frame.tick else { return true };
    if log.case.delivery == Delivery::Async {
        // Which rows a worker's last tick leaves out is not known from outside.
        let next = |other: &Frame| {
            (other.batch, other.tick) == (frame.batch, Some(tick + 1))
                && other.observation.place().0 == frame.observation.place().0
        };
        let last = tick + 2 == ticks(log, frame.batch);
        // Behind an end that nobody forced the next episode may have lost its only frame.
        let (row, resets) = frame.observation.place();
        let lost = frame.end.done()
            && frame.end.truncation() != Some(Truncation::ForcedReset)
            && log.case.script.episode(row, resets) == (1, Ending::Nan);
        return !last || lost || frame.end.truncation() == Some(Truncation::Fault) || log.frames.iter().any(next);
    }
    let (row, _) = frame.observation.place();
    (slots_before(log, frame.batch) + (tick + 1) * log.case.rows + row as usize) < log.case.total as usize
}

fn slots_before(log: &Log, batch: usize) -> usize {
    log.notes[..batch].iter().map(|note| note.layout.slots()).sum()
}

/// By frame: whether it is its row's last in the batch, and whether it stands at the last tick that steps the row.
fn last_frames(log: &Log) -> (Vec<bool>, Vec<bool>) {
    let mut last = HashMap::new();
    for (i, frame) in log.frames.iter().enumerate() {
        last.insert((frame.batch, frame.observation.place().0), i);
    }
    let edges = log.frames.iter().enumerate();
    let edges = edges.map(|(i, frame)| last[&(frame.batch, frame.observation.place().0)] == i).collect();
    let at_edge = |frame: &Frame| frame.tick.is_some_and(|tick| tick + 1 == ticks(log, frame.batch));
    let cut = |frame: &Frame| at_edge(frame) || !stepped(log, frame);
    (edges, log.frames.iter().map(cut).collect())
}

/// The policy acted on what is recorded as its observation: outside of the tick it says the same of it.
fn check_values(log: &Log) -> Check {
    ensure!(log.evaluated.len() == log.frames.len(), "{} values of {} frames", log.evaluated.len(), log.frames.len());
    for (i, (frame, value)) in log.frames.iter().zip(&log.evaluated).enumerate().filter(|(_, (frame, _))| !frame.random)
    {
        let recorded = frame.value.unwrap_or(f32::NAN);
        let is_close = (recorded - value).abs() <= 1e-4 * value.abs().max(1.0);
        ensure!(
            is_close,
            "frame {i}: {recorded} recorded for {:?}, of which the policy says {value}",
            frame.observation
        );
    }
    Ok(())
}

/// I3: every frame that was stepped has one fate, at every batch and at the end.
pub fn check_ledger(log: &Log) -> Check {
    let rollouts = log.case.mode == Mode::Rollout;
    let (mut frames, mut slots) = (0, 0);
    for (i, note) in log.notes.iter().enumerate() {
        let (stats, case) = (&note.stats, &log.case);
        balance(stats)?;
        let read = log.frames.iter().filter(|frame| frame.batch == i).count();
        ensure!(read == note.frames, "batch {i} says {} frames and holds {read}", note.frames);
        frames += note.frames as u64;
        slots += note.layout.slots() as u64;
        ensure!(stats.frames == frames && stats.batches == i as u64 + 1, "batch {i}: {frames} frames, {stats:?}");
        let (done, open) = (stats.trajectory_completed_frames, stats.trajectory_pending_frames);
        ensure!(done + open == stats.stepped_frames - stats.discarded.fault, "batch {i}: episodes, {stats:?}");
        if rollouts && case.delivery == Delivery::Sync {
            let stepped = if case.pooled.is_some() { frames + stats.discarded.fault } else { slots.min(case.total) };
            ensure!(stats.stepped_frames == stepped, "batch {i}: {slots} slots, {stats:?}");
            let asked = (case.rows * case.horizon - case.short) as u64;
            let whole = case.pooled.is_none() || note.frames as u64 == asked || stats.stepped_frames == case.total;
            ensure!(whole, "batch {i}: {} frames of {asked}, {stats:?}", note.frames);
            ensure!(stats.in_flight_frames == 0, "batch {i}: in flight, {stats:?}");
            ensure!(stats.discarded.fault == stats.stepped_frames - frames, "batch {i}: faults, {stats:?}");
        }
    }
    if rollouts && log.case.delivery == Delivery::Sync && log.case.pooled.is_none() && log.announced.is_some() {
        ensure!(
            log.announced == Some(log.notes.len() as u64),
            "{:?} batches announced, {}",
            log.announced,
            log.notes.len()
        );
    }
    if let Some(stats) = &log.finished {
        balance(stats)?;
        ensure!(stats.stepped_frames == log.case.total && stats.completed, "budget: {stats:?}");
        ensure!(stats.in_flight_frames == 0, "in flight at the end: {stats:?}");
        ensure!(stats.frames + stats.discarded.total() == stats.stepped_frames, "fates: {stats:?}");
        ensure!(stats.completed_trajectories == log.trajectories.len() as u64, "trajectories: {stats:?}");
    }
    check_trajectories(log)
}

/// Every trajectory that is listed is whole, and says what its frames say.
fn check_trajectories(log: &Log) -> Check {
    let mut frames: HashMap<TrajectoryId, Vec<&Frame>> = HashMap::new();
    for frame in &log.frames {
        frames.entry(frame.id).or_default().push(frame);
    }
    for trajectory in &log.trajectories {
        let Some(own) = frames.remove(&trajectory.id) else {
            return Err(format!("{trajectory:?} has no frames"));
        };
        check_trajectory(trajectory, &own)?;
    }
    let open = frames.values().find(|own| own.iter().any(|frame| frame.end.ends_episode()));
    ensure!(open.is_none(), "an episode ended but is not listed: {:?}", open.map(|own| own[0]));
    Ok(())
}

fn check_trajectory(trajectory: &Trajectory, own: &[&Frame]) -> Check {
    let (first, last) = (own[0], own[own.len() - 1]);
    ensure!(trajectory.length as usize == own.len(), "{} frames of {trajectory:?}", own.len());
    ensure!(trajectory.total_reward == own.len() as f32, "return of {trajectory:?}");
    ensure!(trajectory.row.0 == first.observation.place().0, "row of {trajectory:?}");
    let versions = (trajectory.first_version, trajectory.last_version);
    ensure!(versions == (first.version, last.version), "{} to {}: {trajectory:?}", first.version, last.version);
    if last.end.ends_episode() {
        ensure!(
            last.end == trajectory.end || last.end == trajectory.end.or_truncated(Truncation::BatchEdge),
            "{:?} ends {trajectory:?}",
            last.end
        );
    } else {
        let reasons = [Some(Truncation::Fault), Some(Truncation::ForcedReset)];
        ensure!(reasons.contains(&trajectory.end.truncation()), "a running frame ends {trajectory:?}");
    }
    Ok(())
}

/// I4: one id an episode and one episode an id, over resets, seeds and reloads.
pub fn check_ids(log: &Log) -> Check {
    let (mut episodes, mut ids) = (HashMap::new(), HashMap::new());
    for (i, frame) in log.frames.iter().enumerate() {
        let episode = (frame.run, frame.observation.place());
        ensure!(frame.id.serial() > 0, "frame {i} has no id");
        let owner = *episodes.entry(frame.id).or_insert(episode);
        ensure!(owner == episode, "id {:?} is of {owner:?} and of {episode:?}", frame.id);
        let id = *ids.entry(episode).or_insert(frame.id);
        ensure!(id == frame.id, "{episode:?} has ids {id:?} and {:?}", frame.id);
    }
    let mut listed: Vec<_> = log.trajectories.iter().map(|trajectory| trajectory.id).collect();
    listed.sort_unstable();
    ensure!(listed.windows(2).all(|pair| pair[0] != pair[1]), "a trajectory is listed twice");
    Ok(())
}

/// I5: each frame's version is that of the weights that acted, which the stamped network tells by action and value.
pub fn check_versions(log: &Log) -> Check {
    for (i, frame) in log.frames.iter().enumerate() {
        // Of several workers that deliver on their own only the number is known.
        if let Some(tick) = frame.tick.filter(|_| log.case.delivery == Delivery::Sync) {
            let (row, _) = frame.observation.place();
            let place = slots_before(log, frame.batch) + tick * log.case.rows + row as usize;
            ensure!(
                frame.random == (place < log.case.random as usize),
                "frame {i} at {place}: random {}",
                frame.random
            );
        }
        let outputs = (frame.log_prob, frame.value);
        if frame.random {
            ensure!(outputs == (Some(0.0), Some(0.0)), "frame {i}: the policy ran in the warm-up: {outputs:?}");
            continue;
        }
        let version = stamp(frame.version);
        ensure!(frame.action == version, "frame {i}: action {} under version {version}", frame.action);
        ensure!(frame.value == Some(version), "frame {i}: value {:?} under version {version}", frame.value);
    }
    for order in log.by_row() {
        let versions = order.iter().map(|i| log.frames[*i].version);
        ensure!(versions.is_sorted(), "a row goes back to older weights");
    }
    Ok(())
}

/// I13: slots without a frame are zeros, and nothing that reads a batch takes them for frames.
pub fn check_blanks(log: &Log) -> Check {
    for (i, note) in log.notes.iter().enumerate() {
        ensure!(note.dirty.is_empty(), "batch {i}: slots {:?} hold no frame but something", note.dirty);
        ensure!(note.drawn == note.valid, "batch {i}: minibatches are not the frames");
        ensure!(note.valid.len() == note.frames, "batch {i}: {} valid slots", note.valid.len());
    }
    Ok(())
}

/// I6: the frames of a case do not depend on how batches are cut, threads, executor, or who steps the rows.
pub fn check_streams(case: &Case, horizon: usize) -> Check {
    // What depends on batches by its meaning is left out.
    let case = Case { publish: Publish::Nobody, sample: true, edge: false, reset_each: false, ..case.clone() };
    let executor = match case.executor {
        Executor::SingleThreaded => Executor::MultiThreaded,
        Executor::MultiThreaded => Executor::SingleThreaded,
    };
    // A simulator has no lanes.
    let overlap = if case.simulator { Overlap::Two } else { Overlap::None };
    let other = Case { horizon, short: 0, threads: 8, executor, overlap, simulator: !case.simulator, ..case.clone() };
    let (log, other) = (case.run(), endless_essence(&other.run()));
    check_values(&log)?;
    let whole = endless_essence(&log);
    ensure!(whole == other, "{} frames are not the {} of another cut", whole.len(), other.len());
    Ok(())
}

/// The frames without the mark of a fault, which a batch that is out already cannot carry.
fn endless_essence(log: &Log) -> Vec<impl PartialEq + std::fmt::Debug + use<>> {
    let mut log = log.clone();
    for frame in &mut log.frames {
        if frame.end.truncation() == Some(Truncation::Fault) {
            frame.end = End::RUNNING;
        }
    }
    log.essence()
}
