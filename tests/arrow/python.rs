//! Writes what `read_back.py` reads: files, and what is in them by another way, with checksums of the bytes.

use std::{fs, path::Path};

use gleaner::{
    arrow::Format,
    components::ColumnSpec,
    policy::plan::Activation,
    prelude::*,
    replay::{Replay, Stored},
};
use serde_json::{Value, json};

use crate::{
    car::Car,
    contents::{Contents, contents},
};

#[test]
fn files_for_read_back_py() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("arrow-python");
    fs::create_dir_all(&folder).expect("room");
    let network = Policy::network(NetworkSpec::mlp(&[8], Activation::Tanh));
    write::<CartPole>(&folder, "cart_pole", network);
    write::<Car>(&folder, "car", Policy::random());
}

#[test]
#[ignore = "needs the files that read_back.py leaves"]
fn files_of_pandas_are_taken() {
    check::<CartPole>("cart_pole");
    check::<Car>("car");
}

/// A file of pandas' and the one that it read are the same in a buffer.
fn check<T: Task>(name: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("arrow-python");
    let [own, pandas] = ["parquet", "pandas"].map(|ending| {
        let replay = Replay::<T>::new(1_000).expect("a buffer");
        replay.import(folder.join(format!("{name}.{ending}"))).expect("a file of trajectories");
        contents(&replay)
            .into_iter()
            .map(|own| (own.stored, own.followed, own.columns[..8].to_vec()))
            .collect::<Vec<_>>()
    });
    assert!(own.len() > 10 && own == pandas, "{name}");
}

fn write<T: gleaner::env::Env + Default>(folder: &Path, name: &str, policy: Policy<T>) {
    let replay = Replay::<T>::new(700).expect("a buffer");
    let builder = Collector::<T>::builder().rows(6).frames_per_batch(300).total_frames(900).policy(policy).seed(2);
    let mut specs = Vec::new();
    for batch in builder.build().expect("builds") {
        let batch = batch.expect("no fault");
        replay.extend(&batch).expect("room");
        specs = batch.columns().to_vec();
    }
    for (format, ending) in [(Format::Ipc, "arrow"), (Format::Parquet, "parquet")] {
        replay.export(folder.join(format!("{name}.{ending}")), format).expect("room");
    }
    let trajectories = contents(&replay);
    let columns: Vec<Value> = specs.iter().enumerate().flat_map(|(i, spec)| fields(i, spec, &trajectories)).collect();
    let episodes: Vec<Value> = trajectories.iter().map(episode).collect();
    let wanted = json!({ "frames": replay.len(), "columns": columns, "episodes": episodes });
    fs::write(folder.join(format!("{name}.json")), wanted.to_string()).expect("room");
}

/// Name, type, shape and bytes of each field.
fn fields(column: usize, spec: &ColumnSpec, trajectories: &[Contents]) -> Vec<Value> {
    let mut offset = 0;
    let describe = |field: &gleaner::data::Field| {
        let name = if field.name.is_empty() { spec.name.to_string() } else { format!("{}.{}", spec.name, field.name) };
        let (mut hasher, bytes) = (crc32fast::Hasher::new(), field.len() * field.dtype.size());
        for trajectory in trajectories {
            let values = trajectory.columns[column].1.chunks_exact(spec.stride);
            values.for_each(|value| hasher.update(&value[offset..][..bytes]));
        }
        offset += bytes;
        json!({ "name": name, "dtype": field.dtype.to_string(), "shape": field.shape, "crc": hasher.finalize() })
    };
    spec.fields.iter().map(describe).collect()
}

fn episode(trajectory: &Contents) -> Value {
    let Stored { id, frames, end, complete, beheaded, .. } = trajectory.stored;
    let rewards: Vec<f32> = bytemuck::pod_collect_to_vec(&trajectory.columns[2].1);
    let sum: f64 = rewards.iter().map(|reward| f64::from(*reward)).sum();
    json!({
        "id": id.0, "frames": frames, "end": format!("{end:?}"), "complete": complete, "beheaded": beheaded,
        "sum": sum, "followed": crc32fast::hash(&trajectory.followed),
    })
}
