//! What a measurement says on a machine that does other things too.

/// The least that up to `windows` windows measure; the first within `bound` is enough. What a program always does shows
/// in each of them, what the machine or the test runner did meanwhile hardly does.
pub fn least_of<N: Copy + PartialOrd>(windows: u32, bound: N, mut window: impl FnMut() -> N) -> N {
    let mut least = window();
    for _ in 1..windows {
        if least <= bound {
            break;
        }
        let next = window();
        least = if next < least { next } else { least };
    }
    least
}
