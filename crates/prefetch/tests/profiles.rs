//! Profiles that are corrupt, foreign or malicious: a clear error, or nothing read; never a panic or a wait.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use warmset_prefetch::{FileRecord, Profile, Read, Store, StoreError, VERSION, fetch, pieces};

fn profile_of(paths: &[&Path], reads: Vec<Read>) -> Profile {
    let files = paths.iter().map(|path| FileRecord::of(path, &fs::metadata(path).unwrap())).collect();
    let (program, arguments) = (PathBuf::from("/bin/true"), vec!["a".to_owned()]);
    Profile { version: VERSION, program, arguments, seconds: 0.1, files, reads }
}

fn read(file: usize, start: u64, end: u64) -> Read {
    Read { file, start, end, at_ms: 0 }
}

#[test]
fn what_was_saved_is_loaded_listed_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("data");
    fs::write(&file, vec![1; 10_000]).unwrap();
    let store = Store::at(directory.path().join("profiles"));
    assert!(store.names().unwrap().is_empty());
    let profile = profile_of(&[&file], vec![read(0, 0, 8192)]);
    let name = store.save(&profile).unwrap();
    assert_eq!(store.load(&name).unwrap(), profile);
    assert_eq!(store.names().unwrap(), std::slice::from_ref(&name));
    store.remove(&name).unwrap();
    assert!(matches!(store.load(&name), Err(StoreError::Missing(_))));
    assert!(matches!(store.remove("../data"), Err(StoreError::Missing(_))));
}

#[test]
fn a_file_that_is_no_profile_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::at(directory.path().to_owned());
    let newer = serde_json::json!({
        "version": 99, "program": "/x", "arguments": [], "seconds": 1.0, "files": [], "reads": []
    });
    for text in ["", "{", "[]", "{\"version\": -1}", &newer.to_string()] {
        fs::write(store.path("bad"), text).unwrap();
        let error = store.load("bad").unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{text}: {error}");
        assert!(error.to_string().contains("bad.json"), "{error}");
    }
    fs::remove_file(store.path("bad")).unwrap();
    fs::create_dir(store.path("bad")).unwrap();
    assert!(matches!(store.load("bad"), Err(StoreError::Corrupt { .. })));
}

#[test]
fn only_recorded_regular_files_are_read_and_never_beyond_their_end() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let fifo = directory.path().join("fifo");
    fs::write(&data, vec![1; 300 << 10]).unwrap();
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let null = Path::new("/dev/null");
    let reads = vec![
        read(0, 0, u64::MAX),
        read(1, 0, 4096),
        read(2, 0, 4096),
        read(3, 0, 4096),
        read(77, 0, 4096),
        read(0, 8192, 4096),
    ];
    let mut profile = profile_of(&[&data, &fifo, null, directory.path()], reads);
    for record in &mut profile.files[1..] {
        record.size_bytes = 1 << 40;
    }
    let fetched = fetch(&profile, u64::MAX);
    assert_eq!(fetched.bytes, 300 << 10);
    assert_eq!(fetched.stale_bytes, 3 * 4096);
}

#[test]
fn a_changed_file_is_stale_and_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fs::write(&data, vec![1; 8192]).unwrap();
    let profile = profile_of(&[&data], vec![read(0, 0, 8192)]);
    assert_eq!(profile.stale_bytes(), 0);
    let other = directory.path().join("other");
    fs::write(&other, vec![2; 8192]).unwrap();
    fs::rename(&other, &data).unwrap();
    assert_eq!(profile.stale_bytes(), 8192);
    let fetched = fetch(&profile, u64::MAX);
    assert_eq!((fetched.bytes, fetched.stale_bytes), (0, 8192));
}

#[test]
fn pieces_are_small_in_order_and_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fs::write(&data, vec![1; 300 << 10]).unwrap();
    let profile = profile_of(&[&data], vec![read(0, 0, 300 << 10)]);
    let sizes = |max| pieces(&profile, max).iter().map(|piece| piece.bytes >> 10).collect::<Vec<_>>();
    assert_eq!(sizes(u64::MAX), [128, 128, 44]);
    assert_eq!(sizes(256 << 10), [128, 128]);
    assert!(sizes(1000).is_empty());
}
