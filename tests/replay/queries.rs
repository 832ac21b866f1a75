//! Queries find what a search through all frames finds.

use std::rc::Rc;

use gleaner::{
    prelude::*,
    replay::query::{Predicate, column, length, total_reward},
};
use proptest::{collection::vec, prelude::*};

use crate::made::{Block, Frame, Made, Model, Source};

/// A predicate, and the same on a list of frames.
type Pair = (Predicate, Rc<dyn Fn(&[Frame]) -> bool>);

fn number(frame: &Frame) -> f64 {
    f64::from(frame.serial)
}

/// The leaf that two numbers choose.
fn leaf(kind: u32, bound: u32) -> Pair {
    let x = f64::from(bound);
    let step = |frame: &Frame| f64::from(frame.step);
    match kind {
        0 => (length().at_least(x / 8.0), Rc::new(move |all| all.len() as f64 >= x / 8.0)),
        1 => (total_reward().below(x * 4.0), Rc::new(move |all| all.iter().map(number).sum::<f64>() < x * 4.0)),
        2 => {
            let mean = move |all: &[Frame]| all.iter().map(number).sum::<f64>() / all.len() as f64;
            (column("reward").mean().above(x), Rc::new(move |all| mean(all) > x))
        }
        3 => (column("action").max().at_most(x), Rc::new(move |all| all.iter().all(|f| number(f) <= x))),
        4 => (column("action").min().at_least(x), Rc::new(move |all| all.iter().all(|f| number(f) >= x))),
        5 => (column("step").first().equals(0.0), Rc::new(move |all| all[0].step == 0)),
        6 => {
            let last = move |all: &[Frame]| step(&all[all.len() - 1]);
            let observed = column("observation").element(1).last();
            (observed.below(x / 8.0), Rc::new(move |all| last(all) < x / 8.0))
        }
        7 => (column("reward").equals(x).any(), Rc::new(move |all| all.iter().any(|f| number(f) == x))),
        8 => (column("end").equals(0.0).all(), Rc::new(move |all| all.iter().all(|f| !f.end.done()))),
        _ => {
            (column("trajectory").sum().above(x), Rc::new(move |all| all.iter().map(|f| f.id as f64).sum::<f64>() > x))
        }
    }
}

/// Joins leaves by the operators that the bytes say.
fn joined(leaves: Vec<Pair>, operators: &[u8]) -> Pair {
    let mut leaves = leaves.into_iter();
    let first = leaves.next().expect("one leaf");
    leaves.zip(operators).fold(first, |(a, f), ((b, g), operator)| match operator % 3 {
        0 => (a.and(b), Rc::new(move |all: &[Frame]| f(all) && g(all))),
        1 => (a.or(b), Rc::new(move |all: &[Frame]| f(all) || g(all))),
        _ => (a.and(b.not()), Rc::new(move |all: &[Frame]| f(all) && !g(all))),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn rb22_queries_find_what_a_search_finds(
        capacity in 1..60_usize,
        rows in 1..5_usize,
        blocks in vec((1..8_usize, 0..120_u8), 1..8),
        leaves in vec((0..10_u32, 0..60_u32), 1..5),
        operators in vec(any::<u8>(), 4),
        script in vec(0..=254_u8, 31),
    ) {
        let replay = Replay::<Made>::new(capacity as u64).expect("a buffer");
        let (mut model, mut source, mut at) = (Model::new(capacity), Source::new(rows, 0), 0);
        for (ticks, ends) in blocks {
            let slots = source.ticks(ticks, ends, &mut || { at += 1; script[at % script.len()] });
            replay.extend(&Block::new(&slots, Some(rows))).expect("room");
            model.extend(&slots, Some(rows));
        }
        let leaves = leaves.into_iter().map(|(kind, bound)| leaf(kind, bound)).collect();
        let (predicate, holds) = joined(leaves, &operators);
        let frames = |id: u64| model.trajectory(id).iter().map(|number| model.frame(*number)).collect::<Vec<_>>();
        let mut wanted: Vec<_> = model.ids().into_iter().filter(|id| holds(&frames(*id))).collect();
        wanted.sort_by_key(|id| model.trajectory(*id)[0]);
        let found: Vec<u64> = replay.query(&predicate).expect("legal").iter().map(|stored| stored.id.0).collect();
        prop_assert_eq!(found, wanted);
    }
}

#[test]
fn wrong_columns_are_named_also_in_what_is_not_looked_at() {
    let replay = Replay::<Made>::new(10).unwrap();
    replay.extend(&Block::new(&Source::new(1, 0).episodes(&[3]), None)).unwrap();
    for (predicate, wanted) in [
        (length().below(0.0).and(column("rewards").sum().above(0.0)), "column is rewards; legal: observation, action"),
        (column("observation").max().above(0.0).not(), "element is not given; legal: 0 to 1 of \"observation\""),
        (length().above(0.0).or(column("observation").element(2).equals(0.0).any()), "element is 2; legal: 0 to 1"),
    ] {
        let error = replay.query(&predicate).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}
