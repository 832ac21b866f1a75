//! Waiting for other threads.

use std::{
    thread::yield_now,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};

/// Time after which one that waits looks around.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// Time for which one that waits stays awake: to be woken takes tens of microseconds, as long as a short rollout.
const AWAKE: Duration = Duration::from_micros(100);

/// How long others may take. A look that took longer than it may did so because nothing ran on the machine: those who are
/// waited for stood still as well, so that it counts as one look.
#[derive(Debug)]
pub(crate) struct Patience(Duration);

impl Patience {
    pub(crate) fn new(time: Duration) -> Self {
        Self(time)
    }

    /// What comes next.
    pub(crate) fn wait<V>(&mut self, channel: &Receiver<V>) -> Result<V, RecvTimeoutError> {
        if let Ok(value) = watch(channel, self.0.min(AWAKE)) {
            return Ok(value);
        }
        loop {
            let (look, begin) = (self.0.min(LOOK), Instant::now());
            let came = channel.recv_timeout(look);
            self.0 -= begin.elapsed().min(look);
            if !matches!(came, Err(RecvTimeoutError::Timeout)) || self.0.is_zero() {
                return came;
            }
        }
    }
}

/// What comes before one that waits goes to sleep.
pub(super) fn awake<V>(channel: &Receiver<V>) -> Result<V, TryRecvError> {
    watch(channel, AWAKE)
}

fn watch<V>(channel: &Receiver<V>, time: Duration) -> Result<V, TryRecvError> {
    let begin = Instant::now();
    loop {
        match channel.try_recv() {
            Err(TryRecvError::Empty) if begin.elapsed() < time => yield_now(),
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_once_for_all_and_not_before() {
        let (send, channel) = crossbeam_channel::bounded(1);
        let (mut patience, begin) = (Patience::new(Duration::from_millis(250)), Instant::now());
        assert!(patience.wait(&channel).is_err() && begin.elapsed() >= Duration::from_millis(250));
        let begin = Instant::now();
        assert!(patience.wait(&channel).is_err());
        send.send(7).unwrap();
        assert_eq!(patience.wait(&channel), Ok(7), "what is there needs none");
        drop(send);
        assert_eq!(Patience::new(Duration::MAX).wait(&channel), Err(RecvTimeoutError::Disconnected));
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
}
