//! Files of other programs: what is wrong with them is said of the column, what may differ is taken.

use std::{fs, fs::File, sync::Arc};

use arrow_array::{
    Array, ArrayRef, Float64Array, Int32Array, ListArray, RecordBatch, UInt8Array, cast::AsArray, new_null_array,
};
use arrow_buffer::OffsetBuffer;
use arrow_ipc::{reader::FileReader, writer::FileWriter};
use arrow_schema::{DataType, Field, Schema};
use gleaner::{arrow::Format, prelude::*, replay::Replay};

use crate::{contents::contents, place};

type Columns = Vec<(Field, ArrayRef)>;

fn replay() -> Replay<CartPole> {
    let replay = Replay::<CartPole>::new(1_000).expect("a buffer");
    let mut collector = Collector::<CartPole>::builder().rows(4).frames_per_batch(200).build().expect("builds");
    replay.extend(&collector.rollout().expect("no fault")).expect("room");
    replay
}

/// A file like that of `replay` with other columns.
fn changed(name: &str, replay: &Replay<CartPole>, change: impl FnOnce(&mut Columns)) -> std::path::PathBuf {
    let path = place(name);
    replay.export(&path, Format::Ipc).expect("room");
    let mut reader = FileReader::try_new(File::open(&path).expect("a file"), None).expect("an IPC file");
    let batch = reader.next().expect("one batch").expect("whole");
    let fields = batch.schema().fields().iter().map(|field| Field::clone(field)).collect::<Vec<_>>();
    let mut columns: Columns = fields.into_iter().zip(batch.columns().iter().cloned()).collect();
    change(&mut columns);
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let schema = Arc::new(Schema::new(fields));
    let mut writer = FileWriter::try_new(File::create(&path).expect("room"), &schema).expect("room");
    writer.write(&RecordBatch::try_new(schema, arrays).expect("columns")).expect("room");
    writer.finish().expect("room");
    path
}

fn at<'c>(columns: &'c mut Columns, name: &str) -> &'c mut (Field, ArrayRef) {
    columns.iter_mut().find(|(field, _)| field.name() == name).expect("a column")
}

fn set(columns: &mut Columns, name: &str, array: ArrayRef) {
    let column = (Field::new(name, array.data_type().clone(), true), array);
    match columns.iter_mut().find(|(field, _)| field.name() == name) {
        Some(old) => *old = column,
        None => columns.push(column),
    }
}

/// A codes column with another value in record 3.
fn with_code(columns: &mut Columns, name: &str, code: u8) {
    let mut codes = at(columns, name).1.as_primitive::<arrow_array::types::UInt8Type>().values().to_vec();
    codes[3] = code;
    set(columns, name, Arc::new(UInt8Array::from(codes)));
}

#[test]
fn errors_name_the_column() {
    let replay = replay();
    let cases: Vec<(&str, Box<dyn FnOnce(&mut Columns)>, &[&str])> = vec![
        ("missing", Box::new(|c| c.retain(|(f, _)| f.name() != "reward")), &["\"reward\" is missing"]),
        ("twice", Box::new(|c| c.extend_from_within(4..5)), &["\"step\" is missing, or there twice"]),
        (
            "dtype",
            Box::new(|c| set(c, "reward", Arc::new(Float64Array::from(vec![1.0; 200])))),
            &["\"reward\" is Float64", "Float32"],
        ),
        (
            "scalar",
            Box::new(|c| set(c, "observation", Arc::new(Int32Array::from(vec![1; 200])))),
            &["\"observation\" is Int32", "FixedSizeList"],
        ),
        (
            "null",
            Box::new(|c| set(c, "action", new_null_array(&DataType::Int32, 200))),
            &["\"action\" is null in record 0"],
        ),
        ("end", Box::new(|c| with_code(c, "end", 0x7f)), &["\"end\" is 127 in record 3"]),
        ("flags", Box::new(|c| with_code(c, "flags", 0)), &["\"flags\" is 0 in record 3"]),
        (
            "silent",
            Box::new(|c| {
                let (field, array) = at(c, "last_observation");
                *array = new_null_array(field.data_type(), 200);
            }),
            &["\"last_observation\" is null in record", "trajectory"],
        ),
        (
            "shape",
            Box::new(|c| {
                let (field, _) = at(c, "observation");
                let mut metadata = field.metadata().clone();
                metadata.insert("ARROW:extension:metadata", r#"{"shape":[2,2]}"#);
                *field = field.clone().with_metadata(metadata);
            }),
            &["\"observation\" has shape [2, 2]; legal: [4]"],
        ),
        (
            "text",
            Box::new(|c| {
                let texts = Arc::new(arrow_array::StringArray::from(vec!["?"; 200]));
                c.push((Field::new("note", DataType::Utf8, false), texts));
            }),
            &["\"note\" is Utf8"],
        ),
    ];
    for (name, change, wanted) in cases {
        let path = changed(&format!("wrong-{name}"), &replay, change);
        let fresh = Replay::<CartPole>::new(1_000).expect("a buffer");
        let error = fresh.import(&path).expect_err(name).to_string();
        assert!(wanted.iter().all(|wanted| error.contains(wanted)), "{name}: {error}");
        assert!(fresh.is_empty(), "{name}");
        fs::remove_file(path).expect("it was there");
    }
}

/// Without extension types and metadata, with plain lists, in another order, without what is derived, and with a column
/// more: what other programs make of a file.
#[test]
fn a_file_from_elsewhere_is_taken() {
    let replay = replay();
    let path = changed("elsewhere", &replay, |columns| {
        columns.retain(|(field, _)| !field.name().starts_with("episode_") && field.name() != "terminated");
        let elements = at(columns, "observation").1.as_fixed_size_list().values().clone();
        let item = Arc::new(Field::new("element", DataType::Float32, true));
        let list = ListArray::try_new(item, OffsetBuffer::from_lengths([4; 200]), elements, None).expect("lists");
        set(columns, "observation", Arc::new(list));
        set(columns, "weight", Arc::new(Int32Array::from_iter_values(0..200)));
        columns.reverse();
    });
    let fresh = Replay::<CartPole>::new(1_000).expect("a buffer");
    assert_eq!(fresh.import(&path).expect("what is needed is there").frames, 200);
    let all: Vec<u64> = fresh.frames().collect();
    let sample = fresh.read(&all).expect("frames that are there");
    assert_eq!(sample.column::<i32>("weight").expect("a column"), (0..200).collect::<Vec<_>>());
    let (mut found, wanted) = (contents(&fresh), contents(&replay));
    found.iter_mut().for_each(|own| own.columns.truncate(8));
    assert_eq!(found, wanted);

    // A buffer that has columns takes no others.
    let error = replay.import(&path).expect_err("a column more").to_string();
    assert!(error.contains("\"weight\" is unknown"), "{error}");
    fs::remove_file(path).expect("it was there");
}

#[test]
fn names_that_files_need_are_taken_by_them() {
    let mut specs = crate::made::many_columns();
    specs[10].name = "truncated".into();
    let block = crate::made::Source::new(1, 1, 3).block(&specs, 4, 1, &mut crate::made::Random(1));
    let replay = Replay::<crate::made::Made>::new(10).expect("a buffer");
    replay.extend(&block).expect("room");
    let path = place("name");
    let error = replay.export(&path, Format::Parquet).expect_err("a name").to_string();
    assert!(error.contains("\"truncated\"") && !path.exists(), "{error}");
}

#[test]
fn what_is_no_file_and_who_may_not_write() {
    let (replay, path) = (replay(), place("none"));
    assert!(replay.import(&path).expect_err("no file").to_string().contains("none"));
    fs::write(&path, b"something else").expect("room");
    assert!(replay.import(&path).expect_err("text").to_string().contains("legal: Arrow IPC files and Parquet"));
    replay.export(&path, Format::Ipc).expect("room");
    assert!(replay.read_only().import(&path).expect_err("read-only").to_string().contains("read-only"));
    // Nothing was written: a file without records, of the task's columns.
    Replay::<CartPole>::new(10).expect("a buffer").export(&path, Format::Parquet).expect("room");
    assert_eq!(replay.import(&path).expect("an empty file").frames, 0);
    fs::remove_file(path).expect("it was there");
}
