//! Spaces: what is drawn is legal.

use proptest::prelude::*;

use crate::{
    data::{Dtype, Field},
    seed::{Purpose, Seed, Stream},
    space::Space,
};

fn field(dtype: Dtype, elements: usize) -> [Field; 1] {
    [Field { name: "".into(), dtype, shape: vec![elements] }]
}

/// A space with what stores it, and its mask's entries.
fn spaces() -> impl Strategy<Value = (Space, Dtype)> {
    let bounds = (-300..=300_i32, 0..=600_i32);
    let whole = prop::collection::vec(bounds, 1..5);
    let open = (any::<bool>(), any::<bool>());
    let boxes = (whole, open, prop::sample::select(vec![Dtype::F32, Dtype::I32, Dtype::U8]));
    let boxes = boxes.prop_map(|(bounds, (below, above), dtype)| {
        let within = |x: i32| if dtype == Dtype::U8 { x.clamp(0, 255) } else { x } as f32;
        let low = bounds.iter().map(|(low, _)| if below { f32::NEG_INFINITY } else { within(*low) });
        let high = bounds.iter().map(|(low, span)| if above { f32::INFINITY } else { within(low + span) });
        (Space::bounded(low.collect::<Vec<_>>(), high.collect::<Vec<_>>()), dtype)
    });
    prop_oneof![
        (1..9_u32).prop_map(|n| (Space::discrete(n), Dtype::I32)),
        prop::collection::vec(1..9_u32, 1..4).prop_map(|n| (Space::MultiDiscrete { n }, Dtype::I32)),
        (1..9_usize).prop_map(|n| (Space::MultiBinary { n }, Dtype::U8)),
        boxes,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_drawn_is_legal((space, dtype) in spaces(), seed: u64, entries in any::<[u8; 32]>()) {
        let fields = field(dtype, space.len());
        prop_assert_eq!(space.check(&fields), Ok(()));
        // One value of each part stays legal.
        let mut mask: Vec<u8> = entries[..space.mask_len()].iter().map(|entry| entry & 1).collect();
        let parts = match &space {
            Space::Discrete { n } => vec![*n],
            Space::MultiDiscrete { n } => n.clone(),
            _ => vec![],
        };
        parts.iter().fold(0, |first, n| { mask[first] = 1; first + *n as usize });
        let mut stream = Stream::new(Seed(seed), 0, Purpose::Action, 0);
        let mut bytes = vec![0; space.len() * dtype.size()];
        for _ in 0..20 {
            space.sample(&mut stream, &mut bytes, &fields, &mask);
            prop_assert_eq!(space.contains(&bytes, &fields, &mask), Ok(()));
        }
    }
}

#[test]
fn bounds_of_whole_numbers_are_whole_and_within_their_type() {
    let problem = |low: f32, high: f32, dtype| Space::uniform(low, high, 2).check(&field(dtype, 2)).unwrap_err();
    assert!(
        problem(0.5, 1.5, Dtype::U8).contains("element 0 are 0.5 and 1.5; legal for u8: whole numbers from 0 to 255")
    );
    assert!(problem(0.0, 300.0, Dtype::U8).contains("0 and 300"));
    assert!(problem(-1.0, 9.0, Dtype::U8).contains("-1 and 9"));
    assert!(problem(0.0, 2_147_483_648.0, Dtype::I32).contains("to 2147483647"));
    for (low, high) in [(1.0, 0.0), (f32::NAN, 1.0), (f32::INFINITY, f32::INFINITY)] {
        assert!(problem(low, high, Dtype::F32).contains("low ≤ high"));
    }
    let (unbounded, fields) = (Space::unbounded(1), field(Dtype::I32, 1));
    unbounded.check(&fields).unwrap();
    let mut stream = Stream::new(Seed(1), 0, Purpose::Action, 0);
    let mut bytes = [0; 4];
    let drawn: Vec<i32> = std::iter::repeat_with(|| {
        unbounded.sample(&mut stream, &mut bytes, &fields, &[]);
        i32::from_ne_bytes(bytes)
    })
    .take(64)
    .collect();
    assert!(drawn.iter().any(|x| *x < -(1 << 30)) && drawn.iter().any(|x| *x > 1 << 30));
    // Above 2²⁴ not every whole number is an f32: none is taken for its neighbour.
    let space = Space::uniform(0.0, 16_777_216.0, 1);
    assert!(space.contains(&16_777_217_i32.to_ne_bytes(), &fields, &[]).is_err());
}
