use super::*;

fn sample() -> Weights {
    let mut weights = Weights::new();
    weights.insert("actor.0.weight", [2, 3], vec![1.0, -2.5, 3.0, 0.0, 1e-30, f32::MAX]);
    weights.insert("actor.0.bias", [2], vec![0.1, 0.2]);
    weights.insert("scale", [], vec![7.0]);
    weights.insert("nothing", [0], vec![]);
    weights
}

/// A folder of its own for each test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("gleaner-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file with this header and `data` zero bytes.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

fn refused(bytes: &[u8]) -> String {
    Weights::from_safetensors(bytes).unwrap_err().to_string()
}

#[test]
fn what_is_saved_is_loaded_and_nothing_else_is_left() {
    let folder = Folder::new("round");
    let path = folder.0.join("policy.safetensors");
    for scale in [1.0, 2.0] {
        let mut weights = sample();
        weights.insert("scale", [], vec![scale]);
        weights.save(&path).unwrap();
        assert_eq!(Weights::load(&path).unwrap(), weights);
    }
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn a_failed_save_leaves_the_old_file() {
    let folder = Folder::new("failed");
    let path = folder.0.join("policy.safetensors");
    sample().save(&path).unwrap();
    let mut wrong = sample();
    wrong.insert("scale", [], vec![f32::NAN]);
    assert!(wrong.save(&path).unwrap_err().to_string().contains("scale"));
    wrong.insert("scale", [2], vec![1.0]);
    assert!(wrong.save(&path).unwrap_err().to_string().contains("1 elements for shape [2]"));
    assert_eq!(Weights::load(&path).unwrap(), sample());
    // A folder stands where the file should go: the rename fails.
    let taken = folder.0.join("taken");
    fs::create_dir(&taken).unwrap();
    assert!(matches!(sample().save(&taken), Err(Error::Io { .. })));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2);
}

#[test]
fn errors_name_file_and_tensor() {
    let folder = Folder::new("errors");
    let path = folder.0.join("policy.safetensors");
    assert!(matches!(Weights::load(&path), Err(Error::Io { .. })));
    fs::write(&path, [1, 2, 3]).unwrap();
    assert!(Weights::load(&path).unwrap_err().to_string().contains("policy.safetensors"));
    fs::write(&path, file(r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, 4)).unwrap();
    Weights::load(&path).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let message = Weights::load(&path).unwrap_err().to_string();
    assert!(message.contains("tensor a of") && message.contains("policy.safetensors"), "{message}");
}

/// The header of tensor `a` of `F32`.
fn header(shape: &str, offsets: &str) -> String {
    format!(r#"{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}}}"#)
}

#[test]
fn hostile_headers_are_refused() {
    assert!(refused(&u64::MAX.to_le_bytes()).contains("legal: at most 100000000"));
    assert!(refused(&file("{}", 0)[..9]).contains("header"));
    assert!(refused(&file("[]", 0)).contains("an object of tensors by name"));
    for (shape, offsets, data) in [
        ("[4294967296,4294967296,4]", "[0,4]", 4),
        ("[1000000000]", "[0,4000000000]", 4),
        ("[1]", "[4,0]", 4),
        ("[1]", "[1,5]", 5),
        ("[2]", "[0,4]", 4),
        ("[1]", "[0,5]", 5),
        ("[1]", "[0,18446744073709551615]", 4),
        ("[1]", "[0,4,8]", 8),
        ("[-1]", "[0,4]", 4),
        ("1", "[0,4]", 4),
    ] {
        let message = refused(&file(&header(shape, offsets), data));
        assert!(message.contains("tensor a"), "{shape} {offsets}: {message}");
    }
    assert!(refused(&file(&header("[1]", "[0,4]"), 5)).contains("1 bytes behind the last tensor"));
}

#[test]
fn tensors_share_neither_bytes_nor_names() {
    let two = |names: [&str; 2], offsets: [&str; 2]| {
        let tensor =
            |i: usize| format!(r#""{}":{{"dtype":"F32","shape":[1],"data_offsets":{}}}"#, names[i], offsets[i]);
        format!("{{{},{}}}", tensor(0), tensor(1))
    };
    Weights::from_safetensors(&file(&two(["a", "b"], ["[4,8]", "[0,4]"]), 8)).unwrap();
    assert!(refused(&file(&two(["a", "b"], ["[0,4]", "[2,6]"]), 6)).contains("tensor b: data_offsets are [2, 6]"));
    assert!(refused(&file(&two(["a", "b"], ["[0,4]", "[0,4]"]), 4)).contains("tensor b"));
    assert!(refused(&file(&two(["a", "b"], ["[0,4]", "[8,12]"]), 12)).contains("tensor b"));
    assert!(refused(&file(&two(["a", "a"], ["[0,4]", "[4,8]"]), 8)).contains("tensor a is there twice"));
    assert!(refused(&file(&two(["a", "\\u0061"], ["[0,4]", "[4,8]"]), 8)).contains("tensor a is there twice"));
}

/// Eight sizes of nearly 2⁶¹ bytes: their sum and the header's length overflow 64 bits.
#[test]
fn sizes_that_overflow_together_are_refused() {
    let size = (1_u64 << 61) - 1;
    let tensors: Vec<_> = (0..8)
        .map(|i| {
            format!(r#""t{i}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{},{}]}}"#, i * size, (i + 1) * size)
        })
        .collect();
    assert!(refused(&file(&format!("{{{}}}", tensors.join(",")), 0)).contains("tensor t0"));
}

#[test]
fn types_are_converted_or_refused_by_name() {
    let half = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}"#;
    let mut bytes = file(half, 4);
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&[0x00, 0x3c, 0x00, 0xc0]);
    assert_eq!(Weights::from_safetensors(&bytes).unwrap().get("a").unwrap().data, [1.0, -2.0]);
    bytes[end - 1] = 0xfc;
    assert_eq!(refused(&bytes), "weights: tensor a: element 1 is -inf; legal: finite");
    let long = half.replace("F16", "I64").replace("[2]", "[1]").replace("[0,4]", "[0,8]");
    assert_eq!(refused(&file(&long, 8)), "weights: tensor a: dtype is I64; legal: F32, F16, BF16 or F64");
}

#[test]
fn a_name_that_cannot_be_read_back_is_not_written() {
    for name in ["__metadata__".to_string(), "a".repeat(1_025)] {
        let mut weights = sample();
        weights.insert(name, [1], vec![0.0]);
        assert!(weights.to_safetensors().unwrap_err().to_string().contains("legal: at most 1024 bytes"));
    }
}

#[test]
fn every_cut_is_refused() {
    let whole = sample().to_safetensors().unwrap();
    for length in 0..whole.len() {
        refused(&whole[..length]);
    }
}
