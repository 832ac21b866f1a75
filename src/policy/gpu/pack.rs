//! What one forward sends: uniforms, draws and masks in the layouts of the shaders.

use bytemuck::bytes_of;

use super::{
    head::{self, mask_words},
    stage::Stage,
};
use crate::policy::plan::{Forward, Head, Plan};

/// Key, episode and step of a row.
pub(super) type Draw = [u32; 4];
/// Place of a row's state, and whether its episode begins.
pub(super) type Remembering = [u32; 2];

/// Scratch memory; grows to what was needed and stays.
#[derive(Default)]
pub(super) struct Packed {
    /// A uniform a stage, the head's last, each `stride` bytes from the next.
    pub(super) uniforms: Vec<u8>,
    /// Observations, if some of their columns are sent as bytes.
    pub(super) inputs: Vec<u32>,
    pub(super) draws: Vec<Draw>,
    /// A byte an action, rows padded to whole words; empty if every action is legal.
    pub(super) masks: Vec<u8>,
    /// Empty for a network without memory.
    pub(super) memory: Vec<Remembering>,
    /// What the head reads besides.
    pub(super) words: Vec<u32>,
}

impl Packed {
    /// `free` holds what the head has of its own.
    pub(super) fn pack(&mut self, (plan, stages): (&Plan, &[Stage]), free: &[f32], input: &Forward<'_>, stride: usize) {
        let rows = input.keys.len();
        self.draws.clear();
        let counters = input.episodes.iter().zip(input.steps);
        let draw = |(key, (episode, step)): (&crate::seed::ActionKey, (&crate::components::Episode, _))| {
            let step: &crate::components::EpisodeStep = step;
            [key.0[0], key.0[1], episode.0, step.0]
        };
        let drawing = if head::on_host(&plan.head) { 0 } else { rows };
        self.draws.extend(input.keys.iter().zip(counters).map(draw).take(drawing));
        self.pack_masks(&plan.head, input, rows);
        self.memory.clear();
        if let Some(memory) = input.memory.filter(|_| plan.state() > 0) {
            let rows = memory.places.iter().zip(memory.fresh);
            self.memory.extend(rows.map(|(place, fresh)| [*place, u32::from(*fresh)]));
        }
        head::words(&plan.head, free, input, &mut self.words);
        self.pack_uniforms(&plan.head, stages, input, stride);
    }

    fn pack_masks(&mut self, head: &Head, input: &Forward<'_>, rows: usize) {
        self.masks.clear();
        let width = input.masks.width().min(head.mask());
        if width == 0 || head::on_host(head) {
            return;
        }
        let stride = mask_words(head) * 4;
        // What a mask does not cover is legal.
        self.masks.resize(rows * stride, 1);
        for (i, packed) in self.masks.chunks_exact_mut(stride).enumerate() {
            packed[..width].copy_from_slice(&input.masks.row(i)[..width]);
        }
    }

    fn pack_uniforms(&mut self, head: &Head, stages: &[Stage], input: &Forward<'_>, stride: usize) {
        let rows = input.keys.len() as u32;
        self.uniforms.clear();
        self.uniforms.resize(stride * (stages.len() + 1), 0);
        let mut blocks = self.uniforms.chunks_exact_mut(stride);
        let mut put = |bytes: &[u8]| {
            if let Some(block) = blocks.next() {
                block[..bytes.len()].copy_from_slice(bytes);
            }
        };
        for stage in stages {
            let mut uniform = stage.uniform;
            uniform[..4].copy_from_slice(bytes_of(&rows));
            put(&uniform);
        }
        head::uniform(head, input, !self.masks.is_empty(), put);
    }
}
