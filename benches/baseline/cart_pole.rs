//! CartPole-v1 over columns.

use super::threefry::blocks;

/// Frames after which an episode is cut.
const LIMIT: u32 = 500;
const TERMINATED: u8 = 0x80;
const STEP_LIMIT: u8 = 2;

/// One frame of a run of rows. `state` is position, velocity, angle, angular velocity; all slices are equally long.
#[inline(always)]
pub fn step(actions: &[i32], steps: &[u32], state: [&mut [f32]; 4], next: &mut [[f32; 4]], ends: &mut [u8]) {
    let n = actions.len();
    let [x, x_dot, theta, theta_dot] = state.map(|column| &mut column[..n]);
    let (steps, next, ends) = (&steps[..n], &mut next[..n], &mut ends[..n]);
    for i in 0..n {
        let force = if actions[i] == 1 { 10.0 } else { -10.0 };
        let (sin, cos) = sin_cos(theta[i]);
        let push = (force + 0.1 * 0.5 * theta_dot[i] * theta_dot[i] * sin) * (1.0 / 1.1);
        let theta_acc = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0) - (0.5 * 0.1 / 1.1) * cos * cos);
        let x_acc = push - (0.1 * 0.5 / 1.1) * theta_acc * cos;
        x[i] += 0.02 * x_dot[i];
        x_dot[i] += 0.02 * x_acc;
        theta[i] += 0.02 * theta_dot[i];
        theta_dot[i] += 0.02 * theta_acc;
        next[i] = [x[i], x_dot[i], theta[i], theta_dot[i]];
        let fell = (x[i].abs() > 2.4) | (theta[i].abs() > 0.209_439_51);
        ends[i] = (fell as u8 * TERMINATED) | ((steps[i] >= LIMIT - 1) as u8 * STEP_LIMIT);
    }
}

/// The first state of an episode.
#[inline]
pub fn reset(key: [u32; 2], episode: u32) -> [f32; 4] {
    // Both draws side by side.
    let [[a, c], [b, d]] = blocks(key.map(|word| [word; 2]), [[0, 1], [episode; 2]]);
    [a, b, c, d].map(|word| -0.05 + (0.05 - -0.05) * ((word >> 8) as f32 * (1.0 / 16_777_216.0)))
}

/// Sine and cosine as Cephes has them, in plain multiplications and additions: `sinf.c`.
#[inline(always)]
fn sin_cos(x: f32) -> (f32, f32) {
    const ROUND: f32 = 12_582_912.0;
    let rounded = x * std::f32::consts::FRAC_2_PI + ROUND;
    let (quadrant, n) = (rounded.to_bits(), rounded - ROUND);
    let r = ((x - n * 1.570_312_5) - n * 4.837_513e-4) - n * 7.549_79e-8;
    let z = r * r;
    let sin = r + r * z * (-1.666_665_5e-1 + z * (8.332_161e-3 + z * -1.951_529_6e-4));
    let cos = 1.0 - 0.5 * z + z * z * (4.166_664_6e-2 + z * (-1.388_731_6e-3 + z * 2.443_315_7e-5));
    let (s, c) = if quadrant & 1 != 0 { (cos, sin) } else { (sin, cos) };
    let signed = |value: f32, quadrant: u32| f32::from_bits(value.to_bits() ^ (quadrant & 2) << 30);
    (signed(s, quadrant), signed(c, quadrant.wrapping_add(1)))
}
