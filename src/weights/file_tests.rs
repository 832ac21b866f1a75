use proptest::prelude::*;

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

#[test]
fn hostile_headers_are_refused() {
    assert!(refused(&u64::MAX.to_le_bytes()).contains("header"));
    assert!(refused(&file("{}", 0)[..9]).contains("header"));
    assert!(refused(&file(r#"{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}"#, 4)).contains("F16"));
    let overlapping = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
                          "b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}}"#;
    assert!(refused(&file(overlapping, 6)).contains("offset"));
    let overflow = r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,4]}}"#;
    refused(&file(overflow, 4));
    let too_much = r#"{"a":{"dtype":"F32","shape":[1000000000],"data_offsets":[0,4000000000]}}"#;
    refused(&file(too_much, 4));
    let backwards = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}"#;
    refused(&file(backwards, 4));
}

#[test]
fn every_cut_is_refused() {
    let whole = sample().to_safetensors().unwrap();
    for length in 0..whole.len() {
        refused(&whole[..length]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]
    #[test]
    fn mutated_files_never_panic(edits in prop::collection::vec((0_usize..400, any::<u8>()), 1..6)) {
        let mut bytes = sample().to_safetensors().unwrap();
        for (at, byte) in edits {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        if let Ok(weights) = Weights::from_safetensors(&bytes) {
            prop_assert!(weights.0.values().all(|tensor| tensor.data.iter().all(|x| finite(*x))));
        }
    }
}
