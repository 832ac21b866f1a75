//! What is collected is what loops written by hand make, bit for bit: those that the benches measure against.

#[path = "../../benches/baseline/mod.rs"]
#[expect(dead_code, reason = "others are only measured")]
mod baseline;
#[path = "../../benches/collect/collectors.rs"]
#[expect(dead_code, reason = "others are only measured")]
mod collectors;
#[path = "../../benches/collect/equal.rs"]
mod equal;

#[test]
fn sc31_a_rollout_is_that_of_a_loop_by_hand() {
    equal::check().unwrap();
}
