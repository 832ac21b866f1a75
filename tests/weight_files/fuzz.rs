//! Thousands of broken files: each gives finite numbers or an error that says where, never a panic, and memory in
//! proportion to what the file really holds.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use gleaner::{data::finite, prelude::*};
use proptest::{collection::vec, prelude::*, sample::select};

use crate::Folder;

/// The system's allocator, which remembers the largest piece that its thread asked for.
struct Watching;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn watch(bytes: usize) {
    // A thread that ends has no memory left to remember it in.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(bytes)));
}

#[expect(unsafe_code, reason = "a global allocator is unsafe to implement")]
// SAFETY: every call is the system allocator's own, with the caller's arguments.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        watch(layout.size());
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` or `realloc`, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        watch(size);
        // SAFETY: the caller keeps `realloc`'s contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// Reads the bytes and says whether they were a file. An error is short and of the kind that names file or tensor.
fn read(bytes: &[u8]) -> bool {
    LARGEST.set(0);
    let read = Weights::from_safetensors(bytes);
    // The longest that is proportional: a 16-bit element, or a shape's side of two characters, becomes 8 bytes or less.
    assert!(LARGEST.get() <= 16 * bytes.len() + 4_096, "{} bytes for a file of {}", LARGEST.get(), bytes.len());
    match read {
        Ok(weights) => {
            for (name, tensor) in &weights.0 {
                assert_eq!(tensor.shape.iter().product::<usize>(), tensor.data.len(), "{name}");
                assert!(tensor.data.iter().all(|x| finite(*x)), "{name}");
            }
            true
        }
        Err(error) => {
            assert!(matches!(error, Error::Weights(_) | Error::Tensor { .. }), "{error:?}");
            assert!(error.to_string().len() < 2_000, "{error}");
            false
        }
    }
}

fn valid() -> Vec<u8> {
    let mut weights = Weights::new();
    weights.insert("actor.0.weight", [2, 3], vec![1.0, -2.5, 3.0, 0.0, 1e-30, f32::MAX]);
    weights.insert("actor.0.bias", [2], vec![0.1, 0.2]);
    weights.insert("scale", [], vec![7.0]);
    weights.insert("nothing", [0], vec![]);
    weights.to_safetensors().unwrap()
}

/// A header and its data as a file.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

#[derive(Clone, Debug)]
enum Edit {
    Set(usize, u8),
    Cut(usize),
    Extend(Vec<u8>),
    Splice(usize, usize, usize),
    Remove(usize, usize),
    /// Another length of the header.
    Length(u64),
    /// A piece of JSON within the header.
    Piece(usize, &'static str),
}

fn edit() -> impl Strategy<Value = Edit> {
    let pieces = ["\"", "{", "}", "[", "]", ",", ":", "-1", "0", "18446744073709551615", "1e400", "null", "F16", "I64"];
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        any::<usize>().prop_map(Edit::Cut),
        vec(any::<u8>(), 1..40).prop_map(Edit::Extend),
        (any::<usize>(), any::<usize>(), 0_usize..60).prop_map(|(from, to, length)| Edit::Splice(from, to, length)),
        (any::<usize>(), 0_usize..60).prop_map(|(at, length)| Edit::Remove(at, length)),
        prop_oneof![0_u64..400, any::<u64>()].prop_map(Edit::Length),
        (any::<usize>(), select(pieces.to_vec())).prop_map(|(at, piece)| Edit::Piece(at, piece)),
    ]
}

fn apply(bytes: &mut Vec<u8>, edit: &Edit) {
    let length = bytes.len();
    let place = |at: usize| at % (length + 1);
    match edit {
        Edit::Set(at, byte) if length > 0 => bytes[at % length] = *byte,
        Edit::Set(..) => {}
        Edit::Cut(at) => bytes.truncate(place(*at)),
        Edit::Extend(more) => bytes.extend(more),
        Edit::Splice(from, to, count) => {
            let (from, to) = (place(*from), place(*to));
            let copy = bytes[from..(from + count).min(length)].to_vec();
            bytes.splice(to..to, copy);
        }
        Edit::Remove(at, count) => drop(bytes.drain(place(*at)..(place(*at) + count).min(length))),
        Edit::Length(header) if length >= 8 => bytes[..8].copy_from_slice(&header.to_le_bytes()),
        Edit::Length(_) => {}
        Edit::Piece(at, piece) => {
            let at = place(*at);
            bytes.splice(at..at, piece.bytes());
            // The length still fits, so that what is wrong lies within the JSON.
            if let Some(header) = bytes.first_chunk().map(|length| u64::from_le_bytes(*length))
                && at >= 8
            {
                bytes[..8].copy_from_slice(&header.wrapping_add(piece.len() as u64).to_le_bytes());
            }
        }
    }
}

/// A tensor whose claims may or may not fit.
fn claim() -> impl Strategy<Value = String> {
    let number = || prop_oneof![5 => 0_u64..10, 1 => any::<u64>(), 1 => select(vec![1 << 61, (1 << 61) - 1, u64::MAX])];
    let dtype = select(vec!["F32", "F16", "BF16", "F64", "U8", "I64", "F4", "X", ""]);
    let name = select(vec!["a", "b", "c", "d", "__metadata__", "\\u0061", ""]);
    (name, dtype, vec(number(), 0..4), number(), number()).prop_map(|(name, dtype, shape, from, to)| {
        format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{from},{to}]}}"#)
    })
}

/// Bytes of the largest data that fit a header of [`fitting`].
const MOST: usize = 3 * 8 * 3 * 3;

/// One to three tensors that fit, of zeros, in order.
fn fitting() -> impl Strategy<Value = (String, usize)> {
    vec((select(vec![("F32", 4), ("F16", 2), ("BF16", 2), ("F64", 8)]), 0_usize..4, 0_usize..4), 1..4).prop_map(|all| {
        let (mut end, mut tensors) = (0, Vec::new());
        for (i, ((dtype, size), rows, columns)) in all.into_iter().enumerate() {
            let next = end + size * rows * columns;
            let (shape, place) = ([rows, columns], [end, next]);
            tensors.push(format!(r#""t{i}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":{place:?}}}"#));
            end = next;
        }
        (format!("{{{}}}", tensors.join(",")), end)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12_000))]

    #[test]
    fn edited_files(edits in vec(edit(), 1..4)) {
        let mut bytes = valid();
        for edit in &edits {
            apply(&mut bytes, edit);
        }
        read(&bytes);
    }

    #[test]
    fn hostile_claims(claims in vec(claim(), 0..10), data in 0_usize..64) {
        read(&file(&format!("{{{}}}", claims.join(",")), &vec![0; data]));
    }

    #[test]
    fn any_bytes((header, data) in fitting(), bytes in vec(any::<u8>(), MOST)) {
        // Zeros are read; any other numbers are, or are not finite.
        prop_assert!(read(&file(&header, &vec![0; data])) && LARGEST.get() > 0);
        read(&file(&header, &bytes[..data]));
        read(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// The same through a file and a name map: the error says which file.
    #[test]
    fn errors_name_the_file(edits in vec(edit(), 1..3)) {
        let folder = Folder::new("fuzz");
        let mut bytes = valid();
        for edit in &edits {
            apply(&mut bytes, edit);
        }
        std::fs::write(folder.file(), &bytes).unwrap();
        let names = NameMap {
            names: vec![("policy".into(), "actor".into())],
            ignore: vec!["nothing".into()],
            ..NameMap::default()
        };
        if let Err(error) = WeightsFile::new(folder.file()).names(names).load() {
            prop_assert!(error.to_string().contains("policy.safetensors"), "{}", error);
        }
    }
}
