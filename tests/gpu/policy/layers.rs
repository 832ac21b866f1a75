//! Layers against the CPU backend, whose numbers PyTorch confirmed: any number of rows, any columns, states by place.

use gleaner::{
    env::CartPole,
    policy::{
        Backend, CpuNetwork, Layer, NetworkSpec, Policy,
        gpu::GpuNetwork,
        plan::{
            Activation, Convolution, Exploration, Head, Kind, LogStd, Memory, Network, Operation, Place, Plan, States,
        },
    },
};

use super::{
    forms::forms,
    reference::{Got, POISON, Rows, close, forward_with, network, no_masks, on, weights},
};

const COUNTS: [usize; 12] = [1, 3, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 5];

fn operation(kind: Kind, (from, start, inputs): (Place, usize, usize), (to, outputs): (Place, usize)) -> Operation {
    Operation { name: format!("{to:?}{kind:?}"), kind, from, start, inputs, to, outputs }
}

fn linear(activation: Activation, from: (Place, usize, usize), to: (Place, usize)) -> Operation {
    operation(Kind::Linear { activation }, from, to)
}

/// Parts of matrices, side by side.
pub fn columns() -> Plan {
    use Place::{Hidden, Input, Params, Value};
    let norm = |activation| Kind::LayerNorm { activation };
    let layers = vec![
        operation(Kind::Embedding { entries: 3 }, (Input, 2, 1), (Hidden(0), 6)),
        linear(Activation::Silu, (Input, 3, 2), (Hidden(1), 70)),
        operation(Kind::Copy { at: 70 }, (Hidden(0), 1, 5), (Hidden(2), 5)),
        operation(Kind::Copy { at: 0 }, (Hidden(1), 0, 70), (Hidden(2), 70)),
        operation(Kind::Copy { at: 75 }, (Input, 0, 2), (Hidden(2), 2)),
        operation(norm(Activation::Gelu), (Hidden(2), 1, 75), (Hidden(3), 75)),
        operation(norm(Activation::Identity), (Hidden(3), 70, 3), (Hidden(4), 3)),
        linear(Activation::Identity, (Hidden(3), 2, 71), (Params, 5)),
        linear(Activation::Identity, (Hidden(4), 1, 2), (Value, 1)),
    ];
    Plan { inputs: 5, hidden: vec![6, 70, 77, 75, 3], layers, head: Head::Categorical { n: 5 }, value: true }
}

/// Images behind a number; sides and filters that no tile divides.
pub fn image() -> Plan {
    use Place::{Hidden, Input, Params, Value};
    let conv = |input, output, kernel, [stride, padding]: [usize; 2], scale, activation| {
        Kind::Conv2d(Convolution { input, output, kernel, stride, padding, scale, bytes: false, activation })
    };
    let first = conv([2, 9, 8], [5, 4, 3], 3, [2, 0], 0.25, Activation::Relu);
    let second = conv([5, 4, 3], [7, 3, 2], 2, [2, 1], 1.0, Activation::Tanh);
    let layers = vec![
        operation(first, (Input, 1, 144), (Hidden(0), 60)),
        operation(second, (Hidden(0), 0, 60), (Hidden(1), 42)),
        linear(Activation::Identity, (Hidden(1), 0, 42), (Params, 3)),
        linear(Activation::Identity, (Input, 0, 1), (Value, 1)),
    ];
    Plan {
        inputs: 145,
        hidden: vec![60, 42],
        layers,
        head: Head::Gaussian { n: 3, log_std: LogStd::Free(0.0) },
        value: true,
    }
}

/// Recurrent layers that fill a workgroup with several rows, in part, and not at all.
pub fn recurrent() -> Plan {
    use Place::{Hidden, Input, Params};
    let layers = vec![
        operation(Kind::Gru { state: 0 }, (Input, 1, 3), (Hidden(0), 5)),
        operation(Kind::Lstm { state: 5 }, (Hidden(0), 1, 4), (Hidden(1), 70)),
        operation(Kind::Gru { state: 145 }, (Hidden(1), 0, 70), (Hidden(2), 65)),
        operation(Kind::Lstm { state: 210 }, (Hidden(2), 0, 65), (Hidden(3), 16)),
        linear(Activation::Identity, (Hidden(3), 0, 16), (Params, 5)),
    ];
    Plan { inputs: 4, hidden: vec![5, 70, 65, 16], layers, head: Head::Categorical { n: 5 }, value: false }
}

/// Both backends with the same weights.
fn pair(plan: &Plan) -> (GpuNetwork, CpuNetwork) {
    let weights = weights(plan, 3);
    let mut cpu = CpuNetwork::new(plan.clone());
    cpu.load(&weights).unwrap();
    (network(plan, &weights), cpu)
}

fn equal(got: &Got, want: &Got, what: &str) {
    let pairs = [(&got.params, &want.params), (&got.values, &want.values)];
    for (i, (got, want)) in pairs.iter().flat_map(|(got, want)| got.iter().zip(*want)).enumerate() {
        close(*got, f64::from(*want), format_args!("{what}, element {i}"));
    }
    let floats = got.params.iter().chain(&got.log_probs).chain(&got.values);
    assert!(floats.map(|x| x.to_bits()).chain(got.actions.iter().copied()).all(|word| word != POISON), "{what}");
}

pub fn equal_the_cpu_at_any_number_of_rows() {
    for (name, plan) in [("columns", columns()), ("image", image())] {
        let (mut gpu, mut cpu) = pair(&plan);
        for n in COUNTS {
            let mut rows = Rows::new(&plan, n, n as u64);
            // What has no entry has the nearest.
            let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, 2.9, 1.0];
            rows.inputs.chunks_mut(plan.inputs).zip(special).for_each(|(row, x)| {
                if name == "columns" {
                    row[2] = x;
                }
            });
            let run = |network: &mut dyn Network| {
                forward_with(network, &plan, &rows, no_masks(), Exploration::Sample, None).unwrap()
            };
            equal(&run(&mut gpu), &run(&mut cpu), &format!("{name}, {n} rows"));
        }
    }
}

/// Two images of bytes, of sizes that are no whole words, between numbers; a third one that a linear layer reads too.
fn bytes() -> Plan {
    use Place::{Hidden, Input, Params, Value};
    let conv = |input, output, kernel, [stride, padding]: [usize; 2], activation| {
        let scale = 1.0 / 255.0;
        Kind::Conv2d(Convolution { input, output, kernel, stride, padding, scale, bytes: true, activation })
    };
    let layers = vec![
        operation(conv([1, 5, 3], [2, 3, 1], 3, [1, 0], Activation::Relu), (Input, 2, 15), (Hidden(0), 6)),
        operation(conv([3, 4, 5], [5, 2, 2], 4, [2, 1], Activation::Tanh), (Input, 18, 60), (Hidden(1), 20)),
        operation(conv([2, 3, 3], [1, 2, 2], 2, [2, 1], Activation::Identity), (Input, 79, 18), (Hidden(2), 4)),
        operation(Kind::Copy { at: 0 }, (Input, 17, 1), (Hidden(3), 1)),
        operation(Kind::Copy { at: 1 }, (Hidden(0), 0, 6), (Hidden(3), 6)),
        operation(Kind::Copy { at: 7 }, (Hidden(1), 0, 20), (Hidden(3), 20)),
        operation(Kind::Copy { at: 27 }, (Hidden(2), 0, 4), (Hidden(3), 4)),
        linear(Activation::Identity, (Hidden(3), 0, 31), (Params, 4)),
        linear(Activation::Identity, (Input, 78, 20), (Value, 1)),
    ];
    let hidden = vec![6, 20, 4, 31];
    Plan { inputs: 98, hidden, layers, head: Head::Categorical { n: 4 }, value: true }
}

pub fn images_of_bytes_equal_the_cpu() {
    let plan = bytes();
    let (mut gpu, mut cpu) = pair(&plan);
    for n in COUNTS {
        let mut rows = Rows::new(&plan, n, n as u64);
        for row in rows.inputs.chunks_mut(plan.inputs) {
            for column in (2..17).chain(18..78).chain(79..97) {
                row[column] = (row[column] * 1e4).rem_euclid(256.0).floor();
            }
        }
        let run = |network: &mut dyn Network| {
            forward_with(network, &plan, &rows, no_masks(), Exploration::Sample, None).unwrap()
        };
        equal(&run(&mut gpu), &run(&mut cpu), &format!("{n} rows"));
    }
}

/// All numbers of all places.
fn numbers(states: &States) -> Vec<f32> {
    let mut all = vec![0.0; states.len() * states.width()];
    all.chunks_mut(states.width()).enumerate().for_each(|(place, to)| states.read(place, 0, to));
    all
}

/// A few ticks in which episodes begin, rows are skipped and places come up that were not seen.
pub fn states_are_the_cpus() {
    let plan = recurrent();
    let (mut gpu, mut cpu) = pair(&plan);
    for n in COUNTS {
        let states = States::new(n + 7, plan.state());
        let theirs = States::new(n + 7, plan.state());
        gpu.push_states(&theirs).unwrap();
        for tick in 0..4 {
            let taken = |row: &usize| tick != 1 || !row.is_multiple_of(3) || *row == 0;
            let places: Vec<_> = (0..n).filter(taken).map(|row| (n - 1 - row + 5) as u32).collect();
            let fresh: Vec<_> = (0..places.len()).map(|row| u8::from(tick == 2 && row % 5 == 0)).collect();
            let rows = Rows::new(&plan, places.len(), (n + tick) as u64);
            let run = |network: &mut dyn Network, states: &States| {
                let memory = Some(Memory { states, places: &places, fresh: &fresh });
                forward_with(network, &plan, &rows, no_masks(), Exploration::Sample, memory).unwrap()
            };
            let (got, want) = (run(&mut gpu, &theirs), run(&mut cpu, &states));
            equal(&got, &want, &format!("{n} rows at {tick}"));
        }
        assert!(numbers(&theirs).iter().all(|x| *x == 0.0), "a forward brings no states");
        gpu.pull_states(&theirs).unwrap();
        for (i, (got, want)) in numbers(&theirs).iter().zip(numbers(&states)).enumerate() {
            close(*got, f64::from(want), format_args!("{n} rows, state {i}"));
        }
    }
}

/// Places that come up later need a larger store; what the old one held goes on.
pub fn the_store_grows_and_keeps_its_states() {
    let plan = recurrent();
    let (mut gpu, mut cpu) = pair(&plan);
    let (states, theirs) = (States::new(600, plan.state()), States::new(0, plan.state()));
    for (tick, places) in [vec![0, 1, 2], vec![2, 500, 0, 1], vec![599, 1, 2, 0, 500]].iter().enumerate() {
        let places: Vec<_> = places.clone();
        let fresh = vec![0; places.len()];
        let rows = Rows::new(&plan, places.len(), tick as u64);
        let run = |network: &mut dyn Network, states: &States| {
            let memory = Some(Memory { states, places: &places, fresh: &fresh });
            forward_with(network, &plan, &rows, no_masks(), Exploration::Sample, memory).unwrap()
        };
        equal(&run(&mut gpu, &theirs), &run(&mut cpu, &states), &format!("tick {tick}"));
    }
}

pub fn a_row_does_not_depend_on_the_others() {
    for (plan, gpu) in
        [columns(), image(), recurrent()].into_iter().flat_map(|plan| forms().map(|gpu| (plan.clone(), gpu)))
    {
        let mut gpu = on(&gpu, &plan, &weights(&plan, 3));
        let n = 300;
        let rows = Rows::new(&plan, n, 4);
        let mut run = |from: usize, to: usize| {
            let part = Rows {
                inputs: rows.inputs[from * plan.inputs..to * plan.inputs].to_vec(),
                keys: rows.keys[from..to].to_vec(),
                episodes: rows.episodes[from..to].to_vec(),
                steps: rows.steps[from..to].to_vec(),
            };
            let states = States::new(n, plan.state());
            for place in 0..n {
                let state: Vec<f32> = (0..plan.state()).map(|i| ((place * 7 + i) % 13) as f32 / 13.0 - 0.5).collect();
                states.write(place, 0, &state);
            }
            gpu.push_states(&states).unwrap();
            let places: Vec<_> = (from..to).map(|row| row as u32).collect();
            let fresh: Vec<_> = (from..to).map(|row| u8::from(row % 4 == 0)).collect();
            let memory = Some(Memory { states: &states, places: &places, fresh: &fresh });
            let got = forward_with(&mut gpu, &plan, &part, no_masks(), Exploration::Sample, memory).unwrap();
            gpu.pull_states(&states).unwrap();
            let mut kept = vec![0.0; (to - from) * plan.state()];
            let width = plan.state().max(1);
            kept.chunks_mut(width).zip(from..).for_each(|(kept, place)| states.read(place, 0, kept));
            let bits = |floats: &[f32]| floats.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            [bits(&got.params), got.actions, bits(&got.log_probs), bits(&got.values), bits(&kept)]
        };
        let whole = run(0, n);
        for (from, to) in [(0, 1), (63, 66), (97, 257), (299, 300), (1, 300)] {
            for (alone, whole) in run(from, to).iter().zip(&whole) {
                let width = whole.len() / n;
                assert!(*alone == whole[from * width..to * width], "rows {from} to {to} of {:?}", plan.hidden);
            }
        }
    }
}

pub fn an_evaluator_hands_states_in_and_out() {
    let spec = NetworkSpec { trunk: vec![Layer::Gru(6), Layer::Lstm(4)], actor: vec![], ..NetworkSpec::default() };
    let open = |backend| Policy::<CartPole>::network(spec.clone()).backend(backend).evaluator().unwrap();
    let (gpu, cpu) = (open(Backend::Gpu), open(Backend::Cpu));
    let observations: Vec<[f32; 4]> = (0..9).map(|row| [0.1 * row as f32, 0.2, -0.3, 0.4]).collect();
    let mut states = vec![vec![0.3; 9 * cpu.state_width()]; 2];
    for tick in 0..3 {
        let got = gpu.evaluate_from(&observations, &mut states[0]).unwrap();
        let want = cpu.evaluate_from(&observations, &mut states[1]).unwrap();
        let pairs = got.values.iter().zip(&want.values).chain(states[0].iter().zip(&states[1]));
        pairs.for_each(|(got, want)| close(*got, f64::from(*want), format_args!("tick {tick}")));
    }
    // Without states each observation is an episode's first, whatever was remembered before.
    let (got, want) = (gpu.evaluate(&observations).unwrap(), cpu.evaluate(&observations).unwrap());
    got.values.iter().zip(&want.values).for_each(|(got, want)| close(*got, f64::from(*want), "without states"));
}

pub fn a_wrong_memory_is_refused() {
    let plan = recurrent();
    let (mut gpu, _) = pair(&plan);
    let rows = Rows::new(&plan, 2, 1);
    let states = States::new(2, plan.state());
    let mut call = |memory| forward_with(&mut gpu, &plan, &rows, no_masks(), Exploration::Sample, memory);
    let error = call(None).unwrap_err().to_string();
    assert!(error.contains("no memory"), "{error}");
    let error = call(Some(Memory { states: &states, places: &[0], fresh: &[0, 0] })).unwrap_err().to_string();
    assert!(error.contains("1 places"), "{error}");
    let huge = [0, u32::MAX];
    let error = call(Some(Memory { states: &states, places: &huge, fresh: &[0, 0] })).unwrap_err().to_string();
    assert!(error.contains("states") && error.contains("bytes"), "{error}");
    assert!(call(Some(Memory { states: &states, places: &[1, 0], fresh: &[0, 0] })).is_ok());
    let error = gpu.push_states(&States::new(2, 3)).unwrap_err().to_string();
    assert!(error.contains("3 wide"), "{error}");
}
