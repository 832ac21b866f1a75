//! Samples in the memory of an old one allocate nothing, with every sampler of this crate.

#![expect(unsafe_code, reason = "a global allocator is unsafe to implement")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use gleaner::replay::{
    Replay, Sample,
    sampler::{
        Boundary, Consuming, Groups, Mixture, Prioritized, Sampling, Sequences, Share, Short, Slices,
        SlicesWithoutReplacement, Uniform, Weighting, WithoutReplacement,
    },
};

use crate::made::{Block, Made, Source};

/// The system's allocator, counting those of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is the system allocator's own, with the caller's arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` or `realloc`, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(f: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    f();
    ALLOCATIONS.get() - before
}

#[test]
fn a_sample_in_old_memory_allocates_nothing() {
    let replay = Replay::<Made>::new(300).expect("a buffer");
    let mut source = Source::new(4, 0);
    let mut write = || {
        let mut script = (0..).map(|i: u32| (i * 37 % 251) as u8);
        let slots = source.ticks(50, 20, &mut || script.next().unwrap_or(0));
        replay.extend(&Block::new(&slots, Some(4))).expect("room");
    };
    (0..4).for_each(|_| write());
    replay.extend(&Block::new(&Source::new(1, 1).episodes(&[40]), None)).expect("room");
    let samplings: [Sampling; 11] = [
        Uniform.into(),
        Slices::of(3).into(),
        Slices { short: Short::Pad, span: (2, 1), weighting: Weighting::Frames, ..Slices::of(6) }.into(),
        // One trajectory is that long: it is drawn from the list of those that are.
        Slices::of(30).into(),
        WithoutReplacement::default().into(),
        Consuming { uses: 200 }.into(),
        SlicesWithoutReplacement::of(2).into(),
        Sequences { burn_in: 3, bootstrap: 2, boundary: Boundary::Stop, ..Sequences::of(4) }.into(),
        Sequences { bootstrap: 2, boundary: Boundary::Reset, ..Sequences::of(9) }.into(),
        Sequences { anchors: Some(Prioritized::default()), ..Sequences::of(4) }.into(),
        Groups { column: "version".into(), share: Share::Frames(1), best: Default::default() }.into(),
    ];
    for sampling in samplings {
        let mut sampler = replay.sampler().sampling(sampling.clone()).batch_size(20).build().expect("a sampler");
        let mut sample = Sample::default();
        let mut draw = |n: u32| (0..n).for_each(|_| sampler.sample_into(&mut sample).expect("a sample"));
        // Episodes that begin in a sequence vary in number: more than ever before take memory.
        let joins = matches!(&sampling, Sampling::Sequences(options) if options.boundary == Boundary::Reset);
        draw(if joins { 2_000 } else { 20 });
        assert_eq!(allocations(|| draw(20)), 0, "{sampling:?}");
    }
    let samplers = [1, 2].map(|seed| (replay.sampler().seed(seed).build().expect("a sampler"), 1.0));
    let mut mixture = Mixture::weighted(samplers, 0).expect("a mixture");
    let mut sample = Sample::default();
    let mut draw = |n: u32| (0..n).for_each(|_| mixture.sample_into(20, &mut sample).expect("a sample"));
    // Parts vary in size: one beyond all before it takes memory.
    draw(2_000);
    assert_eq!(allocations(|| draw(200)), 0);
}

#[test]
fn rb12_transforms_allocate_nothing() {
    let replay = Replay::<Made>::new(300).expect("a buffer");
    replay
        .transform_writes(|block| {
            block.each_observation(|observation| observation[0] += 1);
            Ok(())
        })
        .expect("a handle that writes");
    let mut source = Source::new(4, 0);
    let slots = source.ticks(50, 20, &mut || 77);
    let block = Block::new(&slots, Some(4));
    (0..4).for_each(|_| _ = replay.extend(&block).expect("room"));
    assert_eq!(allocations(|| _ = replay.extend(&block).expect("room")), 0);
    let halve = |sample: &mut Sample<Made>| {
        sample.rewards_mut().iter_mut().for_each(|reward| *reward *= 0.5);
        Ok(())
    };
    let shift = |sample: &mut Sample<Made>| {
        sample.each_observation(|observation| observation[1] -= 1);
        Ok(())
    };
    for builder in [replay.sampler().n_step(3, 0.9), replay.sampler().sampling(Slices::of(6))] {
        let builder = builder.batch_size(20);
        let mut sampler = builder.transform(halve).transform(shift).build().expect("a sampler");
        let mut sample = Sample::default();
        let mut draw = |n: u32| (0..n).for_each(|_| sampler.sample_into(&mut sample).expect("a sample"));
        draw(20);
        assert_eq!(allocations(|| draw(20)), 0);
    }
}
