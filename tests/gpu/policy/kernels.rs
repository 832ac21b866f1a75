//! The shared functions of the shaders against their Rust twins.

use gleaner::{
    data::finite,
    gpu::{GROUP, Gpu, Kernel, Readback, Upload, grid},
    math,
    seed::threefry,
};
use wgpu::BufferUsages as Usage;

const HEAD: &str = "#import shared/grid
#import shared/math
@group(0) @binding(0) var<storage, read> from_: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> to_: array<vec4<u32>>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32) {
    let i = item(group, groups, local);
    if i >= arrayLength(&from_) { return; }
    let x = from_[i];
    let f = bitcast<f32>(x.x);
    to_[i] = EXPRESSION;
}
";

/// Applies a WGSL expression of `x` (words) or `f` (the first as a float) to each item.
pub fn map(expression: &str, items: &[[u32; 4]]) -> Vec<[u32; 4]> {
    let gpu = Gpu::shared().unwrap();
    let kernel = Kernel::from_text(&gpu, "map", &HEAD.replace("EXPRESSION", expression), &[]).unwrap();
    run(&gpu, &kernel, items, items.len(), items.len() as u64)
}

/// Runs `kernel` over `items` and brings `brought` items back, which were all ones before.
fn run(gpu: &Gpu, kernel: &Kernel, items: &[[u32; 4]], brought: usize, dispatched: u64) -> Vec<[u32; 4]> {
    let size = size_of_val(items) as u64;
    let back = (brought * 16) as u64;
    let (mut upload, mut readback) = (Upload::default(), Readback::default());
    let ones = vec![[u32::MAX; 4]; brought];
    let sent = upload.fill(gpu, "test", &[bytemuck::cast_slice(items), bytemuck::cast_slice(&ones)]).unwrap();
    let from = gpu.buffer("from", size, Usage::STORAGE | Usage::COPY_DST).unwrap();
    let to = gpu.buffer("to", back, Usage::STORAGE | Usage::COPY_DST | Usage::COPY_SRC).unwrap();
    let bindings = kernel.bind(gpu, &[from.as_entire_buffer_binding(), to.as_entire_buffer_binding()]).unwrap();
    let received = readback.reserve(gpu, "test", back).unwrap();
    let mut encoder = gpu.device().create_command_encoder(&Default::default());
    encoder.copy_buffer_to_buffer(&sent, 0, &from, 0, size);
    encoder.copy_buffer_to_buffer(&sent, size, &to, 0, back);
    let mut pass = encoder.begin_compute_pass(&Default::default());
    kernel.dispatch(&mut pass, &bindings, dispatched).unwrap();
    drop(pass);
    encoder.copy_buffer_to_buffer(&to, 0, &received, 0, back);
    gpu.run(encoder.finish(), 1, &mut [&mut upload], Some(&mut readback)).unwrap();
    readback.read(|bytes| bytemuck::cast_slice(&bytes[..back as usize]).to_vec()).unwrap()
}

pub fn threefry_gives_the_published_vectors() {
    // Random123's `kat_vectors`, threefry2x32 20: key, counter, answer.
    let vectors: [([u32; 4], [u32; 2]); 3] = [
        ([0; 4], [0x6b20_0159, 0x99ba_4efe]),
        ([u32::MAX; 4], [0x1cb9_96fc, 0xbb00_2be7]),
        ([0x1319_8a2e, 0x0370_7344, 0x243f_6a88, 0x85a3_08d3], [0xc492_3a9c, 0x483d_f7a0]),
    ];
    let mut items: Vec<[u32; 4]> = vectors.iter().map(|(item, _)| *item).collect();
    items.extend((0..5000_u32).map(|i| std::array::from_fn(|k| (i * 4 + k as u32).wrapping_mul(0x9e37_79b9))));
    let got = map("vec4<u32>(threefry(x.xy, x.zw), 0u, 0u)", &items);
    for (got, (_, want)) in got.iter().zip(&vectors) {
        assert_eq!(got[..2], want[..]);
    }
    for (got, [a, b, c, d]) in got.iter().zip(items) {
        assert_eq!(got[..2], threefry([a, b], [c, d]));
    }
}

fn floats(from: f32, to: f32) -> Vec<[u32; 4]> {
    (0..=20_000).map(|i| [(from + (to - from) * (i as f32 / 20_000.0)).to_bits(), 0, 0, 0]).collect()
}

pub fn functions_equal_their_cpu_twins() {
    type Twin = fn(f32) -> f32;
    let cases: [(&str, Twin, Vec<[u32; 4]>, f32); 10] = [
        ("exp32(f)", math::exp, floats(-90.0, 90.0), 1e-6),
        ("exp32(f)", math::exp, floats(-1.0, 1.0), 1e-6),
        ("ln32(f)", math::ln, floats(1e-7, 3.0), 1e-6),
        ("ln32(f)", math::ln, floats(1.0, 1e6), 1e-6),
        ("tanh32(f)", math::tanh, floats(-12.0, 12.0), 1e-6),
        ("tanh32(f)", math::tanh, floats(-0.01, 0.01), 1e-6),
        ("sigmoid32(f)", math::sigmoid, floats(-80.0, 80.0), 2e-6),
        ("softplus32(f)", math::softplus, floats(-5.0, 80.0), 2e-5),
        ("sin_cos32(f).x", |x| math::sin_cos(x).0, floats(-10.0, 10.0), 1e-6),
        ("sin_cos32(f).y", |x| math::sin_cos(x).1, floats(-4000.0, 4000.0), 1e-6),
    ];
    for (expression, twin, items, bound) in cases {
        let got = map(&format!("vec4<u32>(bitcast<u32>({expression}), 0u, 0u, 0u)"), &items);
        let (mut worst, mut same) = (0.0_f32, 0);
        for (got, item) in got.iter().zip(&items) {
            let (got, want) = (f32::from_bits(got[0]), twin(f32::from_bits(item[0])));
            same += usize::from(got.to_bits() == want.to_bits());
            // Of sines near their zeros the absolute error counts.
            let scale = if expression.starts_with("sin") { 1.0 } else { want.abs().max(1e-3) };
            worst = worst.max(if got == want { 0.0 } else { (got - want).abs() / scale });
        }
        println!("{expression}: worst error {worst:e}, {same} of {} have the same bits", items.len());
        assert!(worst <= bound, "{expression}: {worst:e}");
    }
    let words: Vec<[u32; 4]> = (0..20_000_u32).map(|i| threefry([1, 2], [i, 0])).map(|[a, b]| [a, b, 0, 0]).collect();
    for (got, words) in map("vec4<u32>(bitcast<vec2<u32>>(box_muller(x.xy)), 0u, 0u)", &words).iter().zip(&words) {
        let want = math::box_muller(words[0], words[1]);
        for k in 0..2 {
            assert!((f32::from_bits(got[k]) - want[k]).abs() <= 1e-5, "{words:?}: {got:?} is not {want:?}");
        }
    }
}

pub fn l12_nan_and_infinity_are_told_by_bits() {
    let special = [0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0xffc0_0000, 0x7f80_0001, 0x7fff_ffff, 0, 0x8000_0000, 1];
    let ordinary = [1.0_f32, -1.0, f32::MAX, f32::MIN, f32::MIN_POSITIVE].map(f32::to_bits);
    let items: Vec<[u32; 4]> = special.into_iter().chain(ordinary).map(|bits| [bits, 0, 0, 0]).collect();
    let told = map("vec4<u32>(u32(is_nan(f)), u32(is_finite(f)), u32(f != f), bitcast<u32>(max(f, 0.0)))", &items);
    for (told, item) in told.iter().zip(&items) {
        let x = f32::from_bits(item[0]);
        assert_eq!((told[0] == 1, told[1] == 1), (x.is_nan(), finite(x)), "{x} ({:#x})", item[0]);
        // These two may differ between adapters, so nothing builds on them.
        println!("{x}: x != x gives {}, max(x, 0) gives {}", told[2], f32::from_bits(told[3]));
    }
    // The functions keep NaN and the limits as their twins do.
    let got = map("vec4<u32>(bitcast<u32>(exp32(f)), bitcast<u32>(tanh32(f)), 0u, 0u)", &items);
    for (got, item) in got.iter().zip(&items) {
        let x = f32::from_bits(item[0]);
        for (got, want) in [(got[0], math::exp(x)), (got[1], math::tanh(x))] {
            let got = f32::from_bits(got);
            let same = got == want || (got.is_nan() && want.is_nan()) || (got - want).abs() < 1e-6;
            assert!(same, "of {x}: {got} is not {want}");
        }
    }
}

pub fn l9_a_folded_dispatch_reaches_the_last_item() {
    // 65,535 groups of 64, and one item.
    let n: u32 = 4_194_241;
    assert!(grid(u64::from(n)).unwrap()[1] == 2);
    let gpu = Gpu::shared().unwrap();
    let text = HEAD.replace("arrayLength(&from_)", &format!("{n}u")).replace("EXPRESSION", "vec4<u32>(i, x.y, 0u, 0u)");
    let kernel = Kernel::from_text(&gpu, "folded", &text, &[]).unwrap();
    // A shared input item: reads are clamped by wgpu, writes are what is tested.
    let got = run(&gpu, &kernel, &[[1, 7, 0, 0]], n as usize + 4 * GROUP as usize, u64::from(n));
    for (i, got) in got.iter().enumerate() {
        let want = if i < n as usize { i as u32 } else { u32::MAX };
        assert_eq!(got[0], want, "item {i}");
    }
}
