//! Random writes, played into a buffer and its model.

use gleaner::replay::Replay;
use proptest::{collection::vec, prelude::*};

use crate::made::{Block, Made, Model, Source};

/// A block to be written.
#[derive(Clone, Debug)]
pub enum Write {
    /// So many ticks of the rows of one of two sources; bytes below the number end episodes.
    Ticks { source: usize, ticks: usize, ends: u8, gaps: bool },
    /// Whole episodes.
    Episodes(Vec<usize>),
}

pub fn writes() -> impl Strategy<Value = Vec<Write>> {
    let ticks = (0..2_usize, 1..9_usize, 0..120_u8, any::<bool>());
    let write = prop_oneof![
        3 => ticks.prop_map(|(source, ticks, ends, gaps)| Write::Ticks { source, ticks, ends, gaps }),
        1 => vec(1..9_usize, 1..5).prop_map(Write::Episodes),
    ];
    vec(write, 1..12)
}

/// A buffer and what it should hold.
pub struct Player {
    pub replay: Replay<Made>,
    pub model: Model,
    /// Version of a frame, by serial number.
    pub version: fn(u32) -> u64,
    rows: [usize; 2],
    sources: [Source; 3],
    serial: u32,
    script: Vec<u8>,
    at: usize,
}

impl Player {
    pub fn new(capacity: usize, rows: [usize; 2], script: Vec<u8>) -> Self {
        Self {
            replay: Replay::new(capacity as u64).expect("a buffer"),
            model: Model::new(capacity),
            version: |serial| u64::from(!serial),
            sources: [Source::new(rows[0], 1), Source::new(rows[1], 2), Source::new(1, 3)],
            rows,
            serial: 0,
            script,
            at: 0,
        }
    }

    pub fn play(&mut self, write: &Write) {
        let (source, shape) = match write {
            Write::Ticks { source, .. } => (*source, Some(self.rows[*source])),
            Write::Episodes(_) => (2, None),
        };
        let Self { sources, script, at, .. } = self;
        let source = &mut sources[source];
        source.set_serial(self.serial);
        let slots = match write {
            Write::Episodes(lengths) => source.episodes(lengths),
            Write::Ticks { ticks, ends, gaps, .. } => source.ticks(*ticks, *ends, &mut || {
                *at += 1;
                let byte = script[*at % script.len()];
                match gaps {
                    true if byte > 230 => 255,
                    _ => byte.min(254),
                }
            }),
        };
        self.serial = source.serial();
        self.replay.extend(&Block::new(&slots, shape).versions(self.version)).expect("room");
        self.model.extend(&slots, shape);
    }
}

/// Whether counts agree with chances: a chi-square test that a right sampler fails once in a million times.
pub fn agree(counts: &[u64], chances: &[f64]) -> Result<(), String> {
    let (drawn, total) = (counts.iter().sum::<u64>() as f64, chances.iter().sum::<f64>());
    let (mut statistic, mut cells, mut rest) = (0.0, 0_u32, (0.0, 0.0));
    let mut add = |count: f64, expected: f64| {
        statistic += (count - expected).powi(2) / expected;
        cells += 1;
    };
    for (i, (count, chance)) in counts.iter().zip(chances).enumerate() {
        let (count, expected) = (*count as f64, drawn * chance / total);
        if *chance == 0.0 && count > 0.0 {
            return Err(format!("{i} has no chance and was drawn {count} times"));
        }
        // Rare ones go together: the test wants some of each.
        if expected < 8.0 { rest = (rest.0 + count, rest.1 + expected) } else { add(count, expected) }
    }
    if rest.1 >= 8.0 {
        add(rest.0, rest.1);
    }
    // Wilson and Hilferty 1931: the quantile at 1e-6.
    let free = f64::from(cells.saturating_sub(1).max(1));
    let bound = free * (1.0 - 2.0 / (9.0 * free) + 4.76 * (2.0 / (9.0 * free)).sqrt()).powi(3);
    if statistic <= bound { Ok(()) } else { Err(format!("{statistic} is above {bound}: {counts:?} of {chances:?}")) }
}
