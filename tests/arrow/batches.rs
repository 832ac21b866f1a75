//! Batches of collectors go out.

use std::{collections::HashMap, fs, fs::File};

use arrow_array::{Array, cast::AsArray, types};
use gleaner::{
    arrow::Format,
    config::TrajFormat,
    env::{Env, Pendulum},
    policy::plan::Activation,
    prelude::*,
    replay::Replay,
    rollout::Batch,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::{car::Car, contents::contents, place, round::FORMATS};

fn collector<T: Env + Default>(network: bool, trajectories: Option<TrajFormat>) -> Collector<T> {
    let builder = Collector::<T>::builder().rows(5).frames_per_batch(300).max_frames_per_traj(23).seed(3);
    let builder = builder.init_random_frames(40).total_frames(900);
    let builder = match trajectories {
        Some(format) => builder.trajs_per_batch(4).traj_format(format),
        None => builder,
    };
    let network = network.then(|| Policy::network(NetworkSpec::mlp(&[8], Activation::Tanh)));
    builder.policy(network.unwrap_or_else(Policy::random)).build().expect("builds")
}

/// A batch by a file, and a batch as it is, are the same in a buffer.
fn check<T: Task>(batch: &Batch<T>) {
    let direct = Replay::<T>::new(10_000).expect("a buffer");
    direct.extend(batch).expect("room");
    let mut wanted = contents(&direct);
    wanted.sort_by_key(|own| own.stored.id);
    for format in FORMATS {
        let path = place(&format!("batch-{format:?}-{}", std::any::type_name::<T>().replace(':', "")));
        assert_eq!(batch.export(&path, format).expect("room"), batch.frames() as u64);
        let replay = Replay::<T>::new(10_000).expect("a buffer");
        replay.import(&path).expect("a file of ours");
        let mut found = contents(&replay);
        found.sort_by_key(|own| own.stored.id);
        assert!(found == wanted, "{format:?} of {batch:?}");
        if format == Format::Parquet {
            check_episodes(batch, &path);
        }
        fs::remove_file(path).expect("it was there");
    }
}

/// What a file says of episodes is what the batch says.
fn check_episodes<T: Task>(batch: &Batch<T>, path: &std::path::Path) {
    let known: HashMap<u64, _> = batch.trajectories().iter().map(|known| (known.id.0, known)).collect();
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).expect("a file")).expect("a Parquet file");
    let mut described = 0;
    for records in reader.build().expect("a Parquet file") {
        let records = records.expect("a Parquet file");
        let column = |name: &str| records.column_by_name(name).expect("a column").clone();
        let (ids, rows) = (column("trajectory"), column("episode_row"));
        let (returns, lengths) = (column("episode_return"), column("episode_length"));
        let (versions, texts) = (column("episode_first_version"), column("episode_end"));
        for i in (0..records.num_rows()).filter(|i| texts.is_valid(*i)) {
            let id = ids.as_primitive::<types::UInt64Type>().value(i);
            let Some(known) = known.get(&id) else {
                assert!(returns.is_null(i) && lengths.is_null(i) && texts.as_string::<i32>().value(i) == "running");
                assert!(rows.is_valid(i));
                continue;
            };
            described += 1;
            assert_eq!(rows.as_primitive::<types::UInt32Type>().value(i), known.row.0);
            assert_eq!(returns.as_primitive::<types::Float64Type>().value(i), f64::from(known.total_reward));
            assert_eq!(lengths.as_primitive::<types::UInt32Type>().value(i), known.length);
            assert_eq!(versions.as_primitive::<types::UInt64Type>().value(i), known.first_version);
            assert_eq!(texts.as_string::<i32>().value(i), format!("{:?}", known.end));
        }
    }
    assert_eq!(described, known.len());
}

fn all_layouts<T: Env + Default>(network: bool) {
    let mut ended = 0;
    for batch in collector::<T>(network, None) {
        let batch = batch.expect("no fault");
        check(&batch);
        ended += batch.trajectories().len();
    }
    assert!(ended > 5, "{ended} episodes");
    for format in [TrajFormat::Cat, TrajFormat::Padded] {
        for batch in collector::<T>(network, Some(format)) {
            check(&batch.expect("no fault"));
        }
    }
}

#[test]
fn cart_pole_with_a_network() {
    all_layouts::<CartPole>(true);
}

#[test]
fn pendulum() {
    all_layouts::<Pendulum>(false);
}

#[test]
fn a_masked_grid_world() {
    all_layouts::<gleaner::env::GridWorld>(false);
}

#[test]
fn actions_that_are_structs() {
    all_layouts::<Car>(false);
}
