//! Where the frames of a window lie in the ring.

/// Slots by frame number, without the division of `number % slots` for each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lap {
    /// The frame in slot 0 at or before the oldest one.
    begin: u64,
    slots: u64,
}

impl Lap {
    /// For frames from number `oldest` on, as many as there are slots.
    pub(super) fn new(oldest: u64, slots: u64) -> Self {
        Self { begin: oldest - oldest % slots, slots }
    }

    /// Where a frame lies.
    #[inline]
    pub(super) fn slot(self, frame: u64) -> usize {
        let at = frame - self.begin;
        (if at < self.slots { at } else { at - self.slots }) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_a_division() {
        for slots in [1, 2, 7, 64] {
            for oldest in 0..3 * slots {
                let lap = Lap::new(oldest, slots);
                for frame in oldest..oldest + slots {
                    assert_eq!(lap.slot(frame) as u64, frame % slots, "frame {frame} of {slots} slots");
                }
            }
        }
    }
}
