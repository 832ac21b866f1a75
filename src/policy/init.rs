//! Weights that a network starts from.

use super::plan::{Head, Kind, Operation, Plan};
use crate::{
    components::Weights,
    seed::{Purpose, Seed, Stream},
};

/// Multiplications, twice, that a matrix is made orthogonal with at most, the square of its shorter side times the
/// longer one: about a second.
pub(super) const MAX_ORTHOGONAL: usize = 1 << 30;

/// See [`NetworkSpec::initial_weights`](super::network::NetworkSpec::initial_weights).
pub(super) fn weights(plan: &Plan, seed: Seed) -> Weights {
    let mut weights = Weights::new();
    for (i, layer) in plan.layers.iter().enumerate() {
        let mut stream = Stream::new(seed, i as u32, Purpose::Init, 0);
        for (part, shape) in layer.tensors() {
            let data = tensor(&plan.head, layer, part, &shape, &mut stream);
            weights.insert(format!("{}.{part}", layer.name), shape, data);
        }
    }
    for (tensor, start) in plan.head.free_tensors() {
        let data = vec![start; tensor.shape[0]];
        weights.insert(tensor.name, tensor.shape, data);
    }
    weights
}

fn tensor(head: &Head, layer: &Operation, part: &str, shape: &[usize], stream: &mut Stream) -> Vec<f32> {
    let elements = shape.iter().product();
    match layer.kind {
        Kind::Gru { .. } | Kind::Lstm { .. } => {
            let bound = 1.0 / (layer.outputs as f32).sqrt();
            (0..elements).map(|_| stream.uniform(-bound, bound)).collect()
        }
        Kind::Embedding { .. } => (0..elements).map(|_| stream.normal()).collect(),
        Kind::LayerNorm { .. } if part == "weight" => vec![1.0; elements],
        _ if part == "bias" => vec![0.0; elements],
        _ => {
            let (rows, columns) = (shape[0], elements / shape[0]);
            let gain = match layer.name.as_str() {
                "action" if matches!(head, Head::Q { .. }) => 1.0,
                "action" => 0.01,
                "value" => 1.0,
                _ => std::f64::consts::SQRT_2,
            };
            let cost = rows.min(columns).pow(2).saturating_mul(rows.max(columns));
            let fill = if cost <= MAX_ORTHOGONAL { orthogonal } else { normal };
            fill(rows, columns, gain, stream)
        }
    }
}

/// Independent normal elements whose rows have the expected length `gain`.
fn normal(rows: usize, columns: usize, gain: f64, stream: &mut Stream) -> Vec<f32> {
    let scale = (gain / (columns as f64).sqrt()) as f32;
    (0..rows * columns).map(|_| scale * stream.normal()).collect()
}

/// A `[rows, columns]` matrix whose shorter side's vectors are orthogonal and have the length `gain`: the Q of a normal
/// matrix whose R has a positive diagonal, which is uniform over such matrices. By Gram and Schmidt's modified process,
/// run twice for each vector, which makes it as exact as Householder's in f64 ("twice is enough", Parlett 1980).
fn orthogonal(rows: usize, columns: usize, gain: f64, stream: &mut Stream) -> Vec<f32> {
    let (count, length) = (rows.min(columns), rows.max(columns));
    let mut vectors: Vec<Vec<f64>> = Vec::with_capacity(count);
    while vectors.len() < count {
        let mut vector: Vec<f64> = (0..length).map(|_| f64::from(stream.normal())).collect();
        for _ in 0..2 {
            for other in &vectors {
                let along = dot(&vector, other);
                vector.iter_mut().zip(other).for_each(|(a, b)| *a -= along * b);
            }
        }
        let norm = dot(&vector, &vector).sqrt();
        // A vector that lies in the others' span is drawn again.
        if norm > 1e-6 {
            vector.iter_mut().for_each(|x| *x /= norm);
            vectors.push(vector);
        }
    }
    let element = |row: usize, column: usize| {
        let x = if rows <= columns { vectors[row][column] } else { vectors[column][row] };
        (gain * x) as f32
    };
    (0..rows * columns).map(|i| element(i / columns, i % columns)).collect()
}

/// In eight sums, since the additions of one would wait for each other; the order is fixed, so are the bits.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    for (a, b) in a.chunks(8).zip(b.chunks(8)) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_sides_vectors_are_orthogonal() {
        for (rows, columns) in [(64, 4), (3, 17), (8, 8), (1, 1), (1, 64)] {
            let mut stream = Stream::new(Seed(3), 0, Purpose::Init, 0);
            let data = orthogonal(rows, columns, 2.0, &mut stream);
            let vector =
                |i: usize, k: usize| if rows <= columns { data[i * columns + k] } else { data[k * columns + i] };
            for i in 0..rows.min(columns) {
                for j in 0..rows.min(columns) {
                    let dot: f32 = (0..rows.max(columns)).map(|k| vector(i, k) * vector(j, k)).sum();
                    let want = if i == j { 4.0 } else { 0.0 };
                    assert!((dot - want).abs() < 1e-5, "{rows}×{columns}: {i}·{j} is {dot}");
                }
            }
        }
    }
}
