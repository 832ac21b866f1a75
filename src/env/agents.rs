//! Agents of one simulation, whose episodes end together.

use crate::components::{End, Truncation};

/// Lets the end of one agent's episode be that of all agents of its simulation, of which there are `simulations`: agent
/// `a` of simulation `s` is row `a · simulations + s`.
pub(super) fn end_together(ends: &mut [End], simulations: usize) {
    for first in 0..simulations {
        let agents = || (first..ends.len()).step_by(simulations);
        if agents().all(|i| !ends[i].done()) {
            continue;
        }
        let broken = agents().any(|i| ends[i] == End::QUARANTINED);
        for i in (first..ends.len()).step_by(simulations) {
            ends[i] = match ends[i] {
                _ if broken => End::QUARANTINED,
                // A limit and a forced reset end them all anyway.
                end if end.done() => end,
                _ => End::truncated_by(Truncation::Env),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_end_is_the_end_of_its_simulation_alone() {
        let cut = End::truncated_by(Truncation::Env);
        let mut ends = [End::RUNNING, End::TERMINATED, End::RUNNING, End::RUNNING, End::RUNNING, End::RUNNING];
        end_together(&mut ends, 3);
        assert_eq!(ends, [End::RUNNING, End::TERMINATED, End::RUNNING, End::RUNNING, cut, End::RUNNING]);
        let mut ends = [End::TERMINATED, End::QUARANTINED, End::RUNNING];
        end_together(&mut ends, 1);
        assert_eq!(ends, [End::QUARANTINED; 3]);
        let mut ends = [End::RUNNING, End::TERMINATED];
        end_together(&mut ends, 2);
        assert_eq!(ends, [End::RUNNING, End::TERMINATED]);
    }
}
