use std::{
    fs,
    time::{Duration, SystemTime},
};

use super::*;
use crate::components::TensorSpec;

fn weights(value: f32) -> Weights {
    let mut weights = Weights::new();
    weights.insert("a", [2], vec![value; 2]);
    weights
}

/// A handle for `weights`, and a file that is removed with the returned folder.
fn watched(name: &str) -> (WeightsHandle, WeightsFile, Folder) {
    let folder = Folder(std::env::temp_dir().join(format!("gleaner-watch-{}-{name}", std::process::id())));
    fs::create_dir_all(&folder.0).unwrap();
    let specs = vec![TensorSpec { name: "a".into(), shape: vec![2] }];
    let handle = WeightsHandle::new(specs, weights(0.0)).unwrap();
    (handle, WeightsFile::new(folder.0.join("policy.safetensors")), folder)
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_change_is_published_once() {
    let (handle, mut file, _folder) = watched("once");
    file.save(&weights(1.0)).unwrap();
    assert_eq!(file.load().unwrap(), weights(1.0));
    assert_eq!(file.reload(&handle).unwrap(), None);
    for version in 1..20 {
        file.save(&weights(version as f32)).unwrap();
        assert_eq!(file.reload(&handle).unwrap(), Some(version));
        assert_eq!(*handle.latest().1, weights(version as f32));
        assert_eq!(file.reload(&handle).unwrap(), None);
    }
}

#[test]
fn what_was_never_read_is_published() {
    let (handle, mut file, _folder) = watched("first");
    file.save(&weights(1.0)).unwrap();
    assert_eq!(file.reload(&handle).unwrap(), Some(1));
}

#[test]
fn a_wrong_file_is_one_error_until_it_is_whole() {
    let (handle, mut file, _folder) = watched("half");
    let path = file.path().to_path_buf();
    let error = |file: &mut WeightsFile| file.reload(&handle).unwrap_err().to_string();
    assert!(error(&mut file).contains("policy.safetensors"));
    assert_eq!(file.reload(&handle).unwrap(), None);
    let whole = weights(1.0).to_safetensors().unwrap();
    for half in [&whole[..20], &whole[..whole.len() - 1]] {
        fs::write(&path, half).unwrap();
        assert!(error(&mut file).contains("policy.safetensors"));
        assert_eq!(file.reload(&handle).unwrap(), None);
    }
    let mut other = Weights::new();
    other.insert("a", [3], vec![0.0; 3]);
    file.save(&other).unwrap();
    assert!(error(&mut file).contains("tensor a of") && handle.version() == 0);
    fs::write(&path, whole).unwrap();
    assert_eq!(file.reload(&handle).unwrap(), Some(1));
    // Gone again: the weights go on acting.
    fs::remove_file(&path).unwrap();
    assert!(error(&mut file).contains("policy.safetensors") && handle.version() == 1);
}

#[test]
fn equal_lengths_and_times_are_told_apart_by_their_inode() {
    let (handle, mut file, _folder) = watched("inode");
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for version in 1..4 {
        file.save(&weights(version as f32)).unwrap();
        File::options().write(true).open(file.path()).unwrap().set_modified(then).unwrap();
        assert_eq!(file.reload(&handle).unwrap().is_some(), version == 1 || cfg!(unix));
    }
}

#[test]
fn names_are_written_back() {
    let (handle, file, _folder) = watched("names");
    let names = NameMap { names: vec![("a".into(), "policy.a".into())], ..NameMap::default() };
    let mut file = file.names(names);
    file.save(&weights(1.0)).unwrap();
    let written = Weights::load(file.path()).unwrap();
    assert_eq!(written.0.keys().collect::<Vec<_>>(), ["policy.a"]);
    assert_eq!(file.reload(&handle).unwrap(), Some(1));
    assert_eq!(file.load().unwrap(), weights(1.0));
}

#[test]
fn a_change_while_the_file_is_read_is_an_error() {
    let (_, file, _folder) = watched("torn");
    file.save(&weights(1.0)).unwrap();
    let (opened, stamp) = file.open().unwrap();
    let mut more = weights(2.0);
    more.insert("b", [1], vec![2.0]);
    fs::write(file.path(), more.to_safetensors().unwrap()).unwrap();
    let error = file.read(opened, stamp).unwrap_err().to_string();
    assert!(error.contains("policy.safetensors: changed while it was read"), "{error}");
}
