//! Actions drawn uniformly from the space: warm-up and baselines.

use bytemuck::{bytes_of_mut, cast_slice_mut};
use pulp::{Arch, Simd, WithSimd};

use crate::{
    components::{EpisodeStep, Masks},
    data::{Dtype, Field},
    seed::{self, Stream, Streams},
    space::Space,
    task::Task,
};

/// Draws an action for each row of `actions`, from the row's own stream: uniform over the legal actions and over bounded
/// intervals, see [`Space::sample`]. `fields` are those of `T::Action`; all runs have the same length.
pub fn random_actions<T: Task>(
    space: &Space,
    fields: &[Field],
    masks: Masks<'_>,
    streams: &Streams<'_>,
    actions: &mut [T::Action],
) {
    debug_assert_eq!(streams.len(), actions.len());
    if let Space::Discrete { n } = space
        && masks.width() == 0
        && matches!(fields, [field] if field.dtype == Dtype::I32 && field.len() == 1)
        && size_of::<T::Action>() == size_of::<i32>()
    {
        let actions = cast_slice_mut(actions);
        return Arch::new().dispatch(Uniform { n: *n, streams, actions });
    }
    let elements: usize = fields.iter().map(Field::len).sum();
    for (row, action) in actions.iter_mut().enumerate() {
        let mut stream = streams.row(row);
        if elements > seed::DRAWS_PER_FRAME as usize {
            // A draw an element, and the frame has fewer: its first one is the key of a stream of its own.
            stream = Stream::from_key(stream.pair(), stream.episode(), 0);
        }
        space.sample(&mut stream, bytes_of_mut(action), fields, masks.row(row));
    }
}

/// Unmasked discrete actions: the first word of each row's stream, many rows at once.
struct Uniform<'a, 'b> {
    n: u32,
    streams: &'a Streams<'b>,
    actions: &'a mut [i32],
}

impl WithSimd for Uniform<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let n = self.n;
        if n.is_power_of_two() {
            // What the multiplication comes to: the upper bits. One action: none of them.
            let shift = 32 - n.trailing_zeros();
            self.draw(|word| word.checked_shr(shift).unwrap_or(0));
        } else {
            self.draw(|word| seed::below(word, n));
        }
    }
}

impl Uniform<'_, '_> {
    #[inline(always)]
    fn draw(self, below: impl Fn(u32) -> u32) {
        let (keys, episodes, steps) = self.streams.columns();
        let draw = |step: EpisodeStep| step.0.wrapping_mul(seed::DRAWS_PER_FRAME);
        let n = self.actions.len() / 4;
        let (first, rest) = self.actions.split_at_mut(n);
        let (second, rest) = rest.split_at_mut(n);
        let (third, rest) = rest.split_at_mut(n);
        let (fourth, rest) = rest.split_at_mut(n);
        let (keys_1, keys_2, keys_3, keys_4) = quarters(keys, n);
        let (episodes_1, episodes_2, episodes_3, episodes_4) = quarters(episodes, n);
        let (steps_1, steps_2, steps_3, steps_4) = quarters(steps, n);
        // Nothing but arithmetic on columns, so that the compiler takes as many rows at once as registers hold; four
        // quarters side by side, since one generator's operations wait for each other.
        for i in 0..n {
            let ([a, b], [c, d], [e, f], [g, h]) = (keys_1[i].0, keys_2[i].0, keys_3[i].0, keys_4[i].0);
            let steps = [draw(steps_1[i]), draw(steps_2[i]), draw(steps_3[i]), draw(steps_4[i])];
            let episodes = [episodes_1[i].0, episodes_2[i].0, episodes_3[i].0, episodes_4[i].0];
            let [words, _] = seed::threefry_lanes([[a, c, e, g], [b, d, f, h]], [steps, episodes]);
            first[i] = below(words[0]) as i32;
            second[i] = below(words[1]) as i32;
            third[i] = below(words[2]) as i32;
            fourth[i] = below(words[3]) as i32;
        }
        // What four do not divide.
        for (i, action) in (4 * n..).zip(rest) {
            let [word, _] = seed::threefry(keys[i].0, [draw(steps[i]), episodes[i].0]);
            *action = below(word) as i32;
        }
    }
}

#[inline(always)]
fn quarters<V>(column: &[V], n: usize) -> (&[V], &[V], &[V], &[V]) {
    (&column[..n], &column[n..2 * n], &column[2 * n..3 * n], &column[3 * n..4 * n])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::components::{ActionKey, Episode};
    use crate::data::Data;

    struct Coin;
    impl Task for Coin {
        type Observation = f32;
        type Action = i32;
        type Mask = ();
        fn observation_space() -> Space {
            Space::unbounded(1)
        }
        fn action_space() -> Space {
            Space::discrete(5)
        }
    }

    struct Arm;
    impl Task for Arm {
        type Observation = f32;
        type Action = [f32; 3];
        type Mask = ();
        fn observation_space() -> Space {
            Space::unbounded(1)
        }
        fn action_space() -> Space {
            Space::uniform(-2.0, 3.0, 3)
        }
    }

    struct Wide;
    impl Task for Wide {
        type Observation = f32;
        type Action = [f32; 100];
        type Mask = ();
        fn observation_space() -> Space {
            Space::unbounded(1)
        }
        fn action_space() -> Space {
            Space::uniform(0.0, 1.0, 100)
        }
    }

    fn columns(rows: usize) -> (Vec<ActionKey>, Vec<Episode>, Vec<EpisodeStep>) {
        let key = |row: usize| ActionKey(seed::Seed(9).row_key(row as u32, seed::Purpose::Action));
        let steps = (0..rows).map(|row| EpisodeStep((row as u32).wrapping_mul(0x0123_4567)));
        ((0..rows).map(key).collect(), (0..rows).map(|row| Episode(row as u32 % 7)).collect(), steps.collect())
    }

    #[test]
    fn the_fast_path_gives_the_bits_of_the_general_one() {
        for rows in [0, 1, 15, 16, 17, 100] {
            let (keys, episodes, steps) = columns(rows);
            let streams = Streams::new(&keys, &episodes, &steps);
            let fields = i32::fields();
            for n in [1, 2, 3, 4, 5, 1 << 30] {
                let space = Space::discrete(n);
                let mut actions = vec![-1; rows];
                random_actions::<Coin>(&space, &fields, Masks::new::<()>(&[]), &streams, &mut actions);
                for (row, action) in actions.iter().enumerate() {
                    let mut one = [0; 4];
                    space.sample(&mut streams.row(row), &mut one, &fields, &[]);
                    assert_eq!(*action, i32::from_ne_bytes(one), "row {row} of {rows}, {n} actions");
                }
            }
        }
    }

    #[test]
    fn masked_actions_are_legal_and_all_of_them_come() {
        let (keys, episodes, steps) = columns(500);
        let masks = vec![[0_u8, 1, 0, 1, 1]; 500];
        let mut actions = vec![-1; 500];
        let streams = Streams::new(&keys, &episodes, &steps);
        random_actions::<Coin>(&Coin::action_space(), &i32::fields(), Masks::new(&masks), &streams, &mut actions);
        for n in 0..5 {
            let count = actions.iter().filter(|action| **action == n).count();
            assert_eq!(count > 100, masks[0][n as usize] != 0, "action {n} came {count} times");
        }
    }

    #[test]
    fn boxes_are_filled_within_their_bounds() {
        let (keys, episodes, steps) = columns(200);
        let mut actions = vec![[9.0; 3]; 200];
        let streams = Streams::new(&keys, &episodes, &steps);
        let fields = <[f32; 3]>::fields();
        random_actions::<Arm>(&Arm::action_space(), &fields, Masks::new::<()>(&[]), &streams, &mut actions);
        assert!(actions.iter().flatten().all(|x| (-2.0..3.0).contains(x)));
        assert!(actions.iter().flatten().any(|x| *x < -1.5) && actions.iter().flatten().any(|x| *x > 2.5));
    }

    #[test]
    fn no_draw_serves_two_frames_however_wide_their_actions_are() {
        let (keys, episodes) = (vec![ActionKey([3, 4]); 4], vec![Episode(7); 4]);
        let steps: Vec<_> = (0..4).map(EpisodeStep).collect();
        let streams = Streams::new(&keys, &episodes, &steps);
        let mut actions = vec![[0.0; 100]; 4];
        random_actions::<Wide>(
            &Wide::action_space(),
            &<[f32; 100]>::fields(),
            Masks::new::<()>(&[]),
            &streams,
            &mut actions,
        );
        let mut all: Vec<_> = actions.iter().flatten().map(|x| x.to_bits()).collect();
        all.sort_unstable();
        all.dedup();
        // A few of 24 bits may be equal by chance.
        assert!(all.len() > 395, "{} of 400 differ", all.len());
    }
}
