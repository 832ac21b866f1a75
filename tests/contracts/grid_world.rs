//! The grid world's mask forbids exactly the moves into walls and off the grid; its rewards, end and starts are as
//! documented; a walk under the mask reaches every free cell.

use std::collections::{BTreeMap, BTreeSet};

use gleaner::{
    env::{Env, GridWorld, GridWorldOptions, Transition},
    seed::{Purpose, Seed, Stream},
    task::check_spaces,
};

const MAP: [&str; 5] = ["...#G", ".#.#.", ".#...", ".###.", "....."];

fn cell(x: i32, y: i32) -> Option<char> {
    MAP.get(usize::try_from(y).ok()?)?.chars().nth(usize::try_from(x).ok()?)
}

fn stream(row: u32) -> Stream {
    Stream::new(Seed(5), row, Purpose::Env, 0)
}

/// Every cell without wall, the goal included.
fn cells() -> impl Iterator<Item = (i32, i32)> {
    (0..25).map(|i| (i % 5, i / 5)).filter(|(x, y)| cell(*x, *y) != Some('#'))
}

#[test]
fn masks_moves_and_rewards_follow_the_map() {
    check_spaces::<GridWorld>().unwrap();
    let (mut legal, mut forbidden) = (0, 0);
    for (x, y) in cells() {
        let env = GridWorld { x: x as u8, y: y as u8 };
        let mut mask = [9; 4];
        env.action_mask(&mut mask);
        for (action, (dx, dy)) in [(-1, 0), (0, 1), (1, 0), (0, -1)].into_iter().enumerate() {
            let target = cell(x + dx, y + dy).filter(|kind| *kind != '#');
            assert_eq!(mask[action], u8::from(target.is_some()), "action {action} at {x}, {y}");
            let mut moved = env;
            let Transition { observation, reward, terminated, truncated } =
                moved.step(&(action as i32), &mut stream(0));
            let (to_x, to_y) = if target.is_some() { (x + dx, y + dy) } else { (x, y) };
            assert_eq!(moved, GridWorld { x: to_x as u8, y: to_y as u8 }, "action {action} at {x}, {y}");
            let hot: Vec<_> = (0..25).filter(|i| observation[*i] != 0.0).collect();
            assert_eq!((hot[..].to_vec(), observation[hot[0]]), (vec![(to_y * 5 + to_x) as usize], 1.0));
            let goal = cell(to_x, to_y) == Some('G');
            assert_eq!((reward, terminated, truncated), (if goal { 1.0 } else { -0.01 }, goal, false));
            *if target.is_some() { &mut legal } else { &mut forbidden } += 1;
        }
        assert!(mask.contains(&1), "no way out of {x}, {y}");
    }
    assert!(legal > 20 && forbidden > 20, "{legal} legal and {forbidden} forbidden moves tested");
}

#[test]
fn a_move_that_is_no_action_stays() {
    let mut env = GridWorld { x: 2, y: 2 };
    for action in [-1, 4, i32::MAX, i32::MIN] {
        env.step(&action, &mut stream(0));
        assert_eq!(env, GridWorld { x: 2, y: 2 }, "action {action}");
    }
}

#[test]
fn the_goal_is_reached_from_every_start() {
    let mut seen = BTreeSet::from([(4, 0)]);
    let mut frontier = vec![(4, 0)];
    // Moves are symmetric, so the search may start at the goal.
    while let Some((x, y)) = frontier.pop() {
        let mut mask = [0; 4];
        GridWorld { x, y }.action_mask(&mut mask);
        for action in (0..4).filter(|action| mask[*action as usize] == 1) {
            let mut env = GridWorld { x, y };
            env.step(&action, &mut stream(0));
            if seen.insert((env.x, env.y)) {
                frontier.push((env.x, env.y));
            }
        }
    }
    assert_eq!(seen.len(), cells().count());
}

#[test]
fn starts_are_uniform_over_the_free_cells_or_fixed() {
    let mut counts = BTreeMap::new();
    let mut env = GridWorld::default();
    for row in 0..17_000 {
        env.reset(&GridWorldOptions::default(), &mut stream(row));
        *counts.entry((i32::from(env.x), i32::from(env.y))).or_insert(0) += 1;
    }
    let free: Vec<_> = cells().filter(|(x, y)| cell(*x, *y) == Some('.')).collect();
    assert_eq!(counts.keys().copied().collect::<BTreeSet<_>>(), free.into_iter().collect());
    // 1,000 expected, standard deviation 31.
    assert!(counts.values().all(|n| (850..1150).contains(n)), "{counts:?}");

    env.reset(&GridWorldOptions { start: Some([4, 3]) }, &mut stream(0));
    assert_eq!(env, GridWorld { x: 4, y: 3 });
}

#[test]
#[should_panic = "start is [1, 1]; legal: [x, y] of a free cell"]
fn a_start_in_a_wall_is_named() {
    GridWorld::default().reset(&GridWorldOptions { start: Some([1, 1]) }, &mut stream(0));
}
