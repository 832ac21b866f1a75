//! Convolutions with padding, against loops in f64.

use super::*;
use crate::policy::Layer;

/// Kernel, step, padding.
const FORMS: [[usize; 3]; 5] = [[3, 1, 1], [2, 2, 1], [5, 3, 4], [7, 1, 2], [1, 2, 0]];
const FILTERS: usize = 3;
const IMAGE: [usize; 3] = [2, 5, 4];

#[test]
fn padding_is_zeros_beyond_the_edges() {
    for form in FORMS {
        let [kernel, stride, padding] = form;
        let layer = Layer::Conv2d { filters: FILTERS, kernel, stride, padding };
        let trunk = vec![layer, Layer::Flatten];
        let spec = NetworkSpec { trunk, actor: vec![], critic: None, ..NetworkSpec::default() };
        for dtype in [Dtype::F32, Dtype::U8] {
            let observation = Field { name: "".into(), dtype, shape: IMAGE.to_vec() };
            let space = Space::uniform(0.0, 255.0, 40);
            let mut network = network_on(&spec, (&space, observation), &Space::discrete(5));
            let weights = spec.initial_weights(network.plan(), Seed(11));
            let inputs: Vec<f32> = (0..40 * 9).map(|i| ((i * 7_919) % 256) as f32).collect();
            let scale = if dtype == Dtype::U8 { 1.0 / 255.0 } else { 1.0 };
            for arch in instruction_sets() {
                network.arch = arch;
                let rows = Rows::new(network.plan(), inputs.clone(), 0).run(&mut network, Exploration::Mode, false);
                for (row, image) in inputs.chunks(40).enumerate() {
                    let map = reference(form, image, &weights.get("trunk.0.weight").unwrap().data);
                    let last = &weights.get("action.weight").unwrap().data;
                    for (i, got) in rows.params[row * 5..][..5].iter().enumerate() {
                        let own = &last[i * map.len()..][..map.len()];
                        // As `network_on` scales them.
                        let want = own.iter().zip(&map).map(|(w, x)| 200.0 * f64::from(*w) * scale * x).sum::<f64>();
                        let bound = 1e-5 * want.abs().max(own.len() as f64 * 100.0 * scale);
                        assert!((f64::from(*got) - want).abs() <= bound, "{form:?}, {row}, {i}: {got} is not {want}");
                    }
                }
            }
        }
    }
}

/// `[filters, rows, columns]`, without a bias.
fn reference([kernel, stride, padding]: [usize; 3], image: &[f32], weight: &[f32]) -> Vec<f64> {
    let [channels, height, width] = IMAGE;
    let side = |side: usize| (side + 2 * padding - kernel) / stride + 1;
    let pixel = |channel: usize, y: i64, x: i64| {
        let inside = (0..height as i64).contains(&y) && (0..width as i64).contains(&x);
        if inside { f64::from(image[(channel * height + y as usize) * width + x as usize]) } else { 0.0 }
    };
    let mut map = Vec::new();
    for filter in 0..FILTERS {
        for (top, left) in (0..side(height)).flat_map(|y| (0..side(width)).map(move |x| (y, x))) {
            let mut sum = 0.0;
            for (i, w) in weight[filter * channels * kernel * kernel..][..channels * kernel * kernel].iter().enumerate()
            {
                let [channel, y, x] = [i / kernel / kernel, i / kernel % kernel, i % kernel];
                let at = |place: usize, offset: usize| (place * stride + offset) as i64 - padding as i64;
                sum += f64::from(*w) * pixel(channel, at(top, y), at(left, x));
            }
            map.push(sum);
        }
    }
    map
}
