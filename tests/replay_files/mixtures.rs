//! Mixtures and hindsight go on from files as if nothing had happened.

use gleaner::replay::{
    Replay, Sample, Saved,
    sampler::{Goals, Hindsight, Mixture, Relabel},
};

use crate::{
    hostile::{Random, carried, sealed, spoil},
    made::{Block, Made, Source},
};

fn buffer(worker: u64) -> Replay<Made> {
    let replay = Replay::new(30).expect("a buffer");
    let slots = Source::new(3, worker).ticks(15, 60, &mut || 70);
    replay.extend(&Block::new(&slots, Some(3))).expect("room");
    replay
}

/// Two samplers of the first buffer, one of the second.
fn mixture(buffers: &[Replay<Made>; 2], seed: u64, fixed: bool) -> Mixture<Made> {
    let samplers = [(0, 1.0), (1, 2.0), (0, 0.5)].map(|(buffer, weight): (usize, f64)| {
        (buffers[buffer].sampler().seed(seed + buffer as u64).build().expect("a sampler"), weight)
    });
    if fixed { Mixture::fixed(samplers) } else { Mixture::weighted(samplers, seed) }.expect("a mixture")
}

fn hindsight(seed: u64, goals: Goals) -> Relabel<Made> {
    Hindsight { ratio: 0.5, goals, seed }.build().expect("a ratio")
}

/// Draws some samples, and relabels those of the first buffer; all that came out.
fn play(buffers: &[Replay<Made>; 2], mixture: &mut Mixture<Made>, relabel: &mut Relabel<Made>) -> Vec<String> {
    let draw = |_| {
        let sample = mixture.sample(7).expect("frames");
        let mixed = format!("{:?} {:?}", sample.buffers(), sample.frames());
        let mut own = Sample::default();
        buffers[0].sampler().build().expect("a sampler").sample_n(9, &mut own).expect("frames");
        let mut told = Vec::new();
        let chosen =
            relabel.relabel(&buffers[0], &mut own, |frame| told.push(*frame.achieved)).expect("frames").to_vec();
        format!("{mixed} {chosen:?} {told:?}")
    };
    (0..12).map(draw).collect()
}

fn saved(replay: &Replay<Made>, parts: &[&dyn Saved<Made>]) -> Vec<u8> {
    let mut file = Vec::new();
    replay.save_to(&mut file, parts).expect("memory");
    file
}

#[test]
fn cp_01_mixtures_and_hindsight_go_on_bit_for_bit() {
    for fixed in [false, true] {
        let buffers = [buffer(1), buffer(2)];
        let (mut mixed, mut relabel) = (mixture(&buffers, 3, fixed), hindsight(4, Goals::Future));
        play(&buffers, &mut mixed, &mut relabel);
        let files = [saved(&buffers[0], &[&mixed, &relabel]), saved(&buffers[1], &[&mixed])];
        let wanted = play(&buffers, &mut mixed, &mut relabel);

        let later = [Replay::new(30).expect("a buffer"), Replay::new(30).expect("a buffer")];
        let (mut mixed, mut relabel) = (mixture(&later, 8, fixed), hindsight(9, Goals::Future));
        later[0].load_from(&mut &files[0][..], &mut [&mut mixed, &mut relabel]).expect("loaded");
        later[1].load_from(&mut &files[1][..], &mut [&mut mixed]).expect("loaded");
        assert_eq!(play(&later, &mut mixed, &mut relabel), wanted);
    }
}

/// CP-02 for what is beside samplers.
#[test]
fn cp_02_another_mixture_is_an_error() {
    let buffers = [buffer(1), buffer(2)];
    let mut mixed = mixture(&buffers, 3, false);
    mixed.sample(4).expect("frames");
    let file = saved(&buffers[0], &[&mixed, &hindsight(1, Goals::Future)]);
    let error = |first: &mut dyn Fn(&[Replay<Made>; 2]) -> Box<dyn Saved<Made>>, goals: Goals| {
        let later = [Replay::new(30).expect("a buffer"), Replay::new(30).expect("a buffer")];
        let (mut first, mut second) = (first(&later), hindsight(1, goals));
        let loaded = later[0].load_from(&mut &file[..], &mut [&mut *first, &mut second]);
        assert!(later[0].is_empty());
        loaded.expect_err("another one").to_string()
    };
    let fixed = error(&mut |later| Box::new(mixture(later, 3, true)), Goals::Future);
    assert!(fixed.contains("a mixture in fixed parts") && fixed.contains("a mixture by weights"), "{fixed}");
    let plain = error(&mut |later| Box::new(later[0].sampler().build().expect("a sampler")), Goals::Future);
    assert!(plain.contains("sampler is a sampler; legal: that of the checkpoint, a mixture"), "{plain}");
    let swapped = |later: &[Replay<Made>; 2]| mixture(&[later[1].clone(), later[0].clone()], 3, false);
    let one = error(&mut |later| Box::new(swapped(later)), Goals::Future);
    assert!(one.contains("samplers of the buffer in a mixture is 1; legal: as saved, 2"), "{one}");
    let goals = error(&mut |later| Box::new(mixture(later, 3, false)), Goals::Final);
    assert!(goals.contains("Future") && goals.contains("Final"), "{goals}");
    let third = buffer(3);
    assert!(third.save_to(&mut Vec::new(), &[&mixed]).is_err(), "no sampler of this buffer");
}

/// Files with the right checksums whose contents are wrong: an error, or a mixture that can be drawn from.
#[test]
fn wrong_mixtures_in_files_are_errors_or_harmless() {
    let buffers = [buffer(1), buffer(2)];
    let (mut mixed, mut relabel) = (mixture(&buffers, 3, false), hindsight(4, Goals::Random));
    play(&buffers, &mut mixed, &mut relabel);
    let file = saved(&buffers[0], &[&mixed, &relabel]);
    let (bare, whole) = (carried(&saved(&buffers[0], &[])), carried(&file));
    let begin = bare.iter().zip(&whole).position(|(a, b)| a != b).expect("the number of samplers");
    let end = whole.len() - (bare.len() - begin - 1);
    let (mut random, mut taken) = (Random(11), 0);
    for _ in 0..4_000 {
        let mut part = whole[begin..end].to_vec();
        spoil(&mut part, &mut random);
        let spoiled = sealed(&file[..16], &[&whole[..begin], &part, &whole[end..]].concat());
        let later = [Replay::new(30).expect("a buffer"), buffer(2)];
        let (mut mixed, mut relabel) = (mixture(&later, 3, false), hindsight(4, Goals::Random));
        if later[0].load_from(&mut &spoiled[..], &mut [&mut mixed, &mut relabel]).is_ok() {
            play(&later, &mut mixed, &mut relabel);
            taken += 1;
        }
    }
    assert!(taken > 20 && taken < 3_900, "{taken} were taken");
}
