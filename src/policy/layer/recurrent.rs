//! What recurrent layers share: gates padded to whole panels, and the rows' states.

use super::{
    Block, Tensors,
    linear::{PANEL, Packed},
};
use crate::policy::plan::Operation;

/// Input and recurrent weights of a recurrent layer, each gate padded to whole panels.
pub(super) fn pack_gates(operation: &Operation, tensors: &Tensors<'_>) -> (Packed, Packed) {
    let (hidden, padded) = (operation.outputs, operation.outputs.next_multiple_of(PANEL));
    let pad = |values: &[f32], width: usize| -> Vec<f32> {
        let gates = values.chunks_exact(hidden * width);
        gates.flat_map(|gate| gate.iter().copied().chain(std::iter::repeat_n(0.0, (padded - hidden) * width))).collect()
    };
    let pack = |inputs: usize, weight: &str, bias: &str| {
        Packed::new(inputs, &pad(tensors.get(weight), inputs), &pad(tensors.get(bias), 1))
    };
    (pack(operation.inputs, "weight_ih_l0", "bias_ih_l0"), pack(hidden, "weight_hh_l0", "bias_hh_l0"))
}

/// Loads columns `first..first + width` of the rows' states, zeros where an episode begins, with rows `padded` apart.
pub(super) fn load_states(block: &Block<'_>, first: usize, width: usize, padded: usize, to: &mut [f32]) {
    let Some(memory) = &block.memory else { return };
    for ((to, place), fresh) in to.chunks_exact_mut(padded).zip(memory.places).zip(memory.fresh) {
        match fresh {
            0 => memory.states.read(*place as usize, first, &mut to[..width]),
            _ => to.fill(0.0),
        }
    }
}

/// Stores what [`load_states`] loads.
pub(super) fn store_states(block: &Block<'_>, first: usize, width: usize, padded: usize, from: &[f32]) {
    let Some(memory) = &block.memory else { return };
    for (from, place) in from.chunks_exact(padded).zip(memory.places) {
        memory.states.write(*place as usize, first, &from[..width]);
    }
}

/// Writes hidden states, `padded` apart, as the layer's result.
pub(super) fn give(block: Block<'_>, hidden: usize, padded: usize, from: &[f32]) {
    let rows = block.to.chunks_exact_mut(block.to_stride).zip(from.chunks_exact(padded)).take(block.rows);
    rows.for_each(|(to, from)| to[..hidden].copy_from_slice(&from[..hidden]));
}
