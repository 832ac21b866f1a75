//! I1 to I5, I13 and I16: the invariants of the other kinds hold for rows that a pool steps.

use crate::support::{
    check_blanks, check_flags, check_ids, check_ledger, check_links, check_versions, pooled_case, pooled_mixed,
};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn i16_every_invariant_holds(case in pooled_case()) {
        let log = case.run();
        for check in [check_links, check_flags, check_ledger, check_ids, check_versions, check_blanks] {
            check(&log).map_err(TestCaseError::fail)?;
        }
        let random = log.frames.iter().filter(|frame| frame.random).count() as u64;
        let lost = log.finished.as_ref().map_or(0, |stats| stats.discarded.total());
        let wanted = case.random.min(case.total);
        prop_assert!((wanted.saturating_sub(lost)..=wanted).contains(&random), "{random} random frames of {wanted}");
    }

    #[test]
    fn i16_ledger_and_ids_hold_over_resets_seeds_and_reloads((case, acts) in pooled_mixed()) {
        let log = case.act(&acts).map_err(TestCaseError::fail)?;
        check_ids(&log).map_err(TestCaseError::fail)?;
    }
}
