//! A grid world with action masks.

use bevy_ecs::prelude::Component;

use super::{Env, StateCodec, Transition};
use crate::{seed::Stream, space::Space, task::Task};

/// A walk over a grid of 5 × 5 cells with walls, to a goal; moves into walls and off the grid are masked.
///
/// ```text
/// . . . # G      # wall
/// . # . # .      G goal
/// . # . . .      . free: an episode starts on one of these 17
/// . # # # .
/// . . . . .
/// ```
///
/// - **Observation** `[f32; 25]`: 1 at the position's cell, 0 elsewhere; row by row from the top left.
/// - **Action** `i32`: 0 left, 1 down, 2 right, 3 up. **Mask** `[u8; 4]`: 1 for a move onto a cell without wall. A
///   masked move, if made all the same, stays where it is.
/// - **Reward**: -0.01 a frame, 1 for the frame that reaches the goal.
/// - **Terminated** at the goal. Truncated after 100 frames.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq)]
pub struct GridWorld {
    /// Column of the position, from the left, in 0 … 4.
    pub x: u8,
    /// Line of the position, from the top, in 0 … 4.
    pub y: u8,
}

/// Options of [`GridWorld`]'s reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GridWorldOptions {
    /// Column and line of a free cell where each episode starts; default none: uniform over the free cells.
    pub start: Option<[u8; 2]>,
}

const SIDE: usize = 5;
const CELLS: usize = SIDE * SIDE;
const MAP: [&[u8; SIDE]; SIDE] = [
    b"...#G", //
    b".#.#.", b".#...", b".###.", b".....",
];
/// Steps of actions 0 to 3 in x and y.
const MOVES: [[i32; 2]; 4] = [[-1, 0], [0, 1], [1, 0], [0, -1]];

/// The free cells, in reading order.
const STARTS: [GridWorld; 17] = {
    let mut starts = [GridWorld { x: 0, y: 0 }; 17];
    let (mut cell, mut found) = (0, 0);
    while cell < CELLS {
        let (x, y) = (cell % SIDE, cell / SIDE);
        if MAP[y][x] == b'.' {
            starts[found] = GridWorld { x: x as u8, y: y as u8 };
            found += 1;
        }
        cell += 1;
    }
    assert!(found == starts.len());
    starts
};

impl GridWorld {
    /// Where `action` leads, or nothing where the grid or a wall is in the way.
    fn neighbour(self, action: usize) -> Option<Self> {
        let [dx, dy] = MOVES.get(action)?;
        let x = usize::try_from(i32::from(self.x) + dx).ok()?;
        let y = usize::try_from(i32::from(self.y) + dy).ok()?;
        let cell = *MAP.get(y)?.get(x)?;
        (cell != b'#').then_some(Self { x: x as u8, y: y as u8 })
    }

    fn observe(self) -> [f32; CELLS] {
        let mut observation = [0.0; CELLS];
        observation[usize::from(self.y) * SIDE + usize::from(self.x)] = 1.0;
        observation
    }
}

impl Task for GridWorld {
    type Observation = [f32; CELLS];
    type Action = i32;
    type Mask = [u8; 4];

    fn observation_space() -> Space {
        Space::uniform(0.0, 1.0, CELLS)
    }

    fn action_space() -> Space {
        Space::discrete(4)
    }
}

impl Env for GridWorld {
    type Options = GridWorldOptions;

    const TIME_LIMIT: Option<u32> = Some(100);
    const STATE: Option<StateCodec<Self>> = Some(StateCodec::new(
        |cell, to| to.extend([cell.x, cell.y]),
        |cell, from| {
            let read = STARTS.iter().find(|start| from == [start.x, start.y]);
            *cell = *read.ok_or_else(|| format!("its cell is {from:?}; legal: [x, y] of a free cell"))?;
            Ok(())
        },
    ));

    /// Panics if the options' start is not a free cell.
    fn reset(&mut self, options: &GridWorldOptions, stream: &mut Stream) -> [f32; CELLS] {
        *self = match options.start {
            None => STARTS[stream.below(STARTS.len() as u32) as usize],
            Some([x, y]) => {
                let start = Self { x, y };
                assert!(
                    STARTS.contains(&start),
                    "start is [{x}, {y}]; legal: [x, y] of a free cell of GridWorld's map"
                );
                start
            }
        };
        self.observe()
    }

    fn step(&mut self, action: &i32, _: &mut Stream) -> Transition<[f32; CELLS]> {
        let target = usize::try_from(*action).ok().and_then(|action| self.neighbour(action));
        *self = target.unwrap_or(*self);
        let terminated = MAP[usize::from(self.y)][usize::from(self.x)] == b'G';
        let reward = if terminated { 1.0 } else { -0.01 };
        Transition { observation: self.observe(), reward, terminated, truncated: false }
    }

    fn action_mask(&self, mask: &mut [u8; 4]) {
        *mask = std::array::from_fn(|action| u8::from(self.neighbour(action).is_some()));
    }
}
