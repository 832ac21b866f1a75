//! Blocks whose frames have lists, which say whose they are.

use gleaner::{
    components::WithRagged,
    prelude::{Error, Replay},
    replay::{Sample, Written},
};

use crate::made::{Block, Frame, Made};

/// How many elements the frame of a serial number has.
pub type Length = fn(u32) -> u32;

/// Elements of a frame in the columns "tokens" and "mask".
fn elements(serial: u32, length: Length) -> (Vec<i32>, Vec<u8>) {
    (0..length(serial)).map(|i| ((serial * 64 + i) as i32, (serial + i) as u8)).unzip()
}

/// Writes a block with two ragged columns, of which the second has half as many elements.
pub fn extend(
    replay: &Replay<Made>,
    slots: &[Option<Frame>],
    rows: Option<usize>,
    length: Length,
) -> Result<Written, Error> {
    let (mut tokens, mut masks) = (Vec::<i32>::new(), Vec::<u8>::new());
    let mut offsets = [vec![0_u64], vec![0]];
    for slot in slots {
        let (own, mask) = slot.map_or_else(Default::default, |frame| elements(frame.serial, length));
        tokens.extend(&own);
        masks.extend(&mask[..mask.len() / 2]);
        offsets[0].push(tokens.len() as u64);
        offsets[1].push(masks.len() as u64);
    }
    let block = Block::new(slots, rows);
    let block = WithRagged::new(&block).column("tokens", &offsets[0], &tokens)?.column("mask", &offsets[1], &masks)?;
    replay.extend(&block)
}

/// Every slot of a sample has the lists of its frame, or none if it only pads.
pub fn check(sample: &Sample<Made>, length: Length) {
    let (tokens, masks) = (sample.ragged::<i32>("tokens").expect("there"), sample.ragged::<u8>("mask").expect("there"));
    assert_eq!((tokens.offsets.len(), masks.offsets.len()), (sample.len() + 1, sample.len() + 1));
    for i in 0..sample.len() {
        let (own, mask) = match sample.flags()[i].valid() {
            true => elements(sample.actions()[i] as u32, length),
            false => Default::default(),
        };
        assert_eq!((tokens.get(i), masks.get(i)), (&own[..], &mask[..mask.len() / 2]), "slot {i}");
    }
}
