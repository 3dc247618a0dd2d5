//! Regions over files that others wrote: read by extent, checked by part, never trusted.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use warmset_platform::io::DataFile;
use warmset_region::region_file::checksum;
use warmset_region::{Check, Config, Error, Extent, FRAME_BYTES, Store};

mod support;
use support::{FRAME, dir};

const BYTES: usize = 3 * FRAME_BYTES + 4096;

fn data() -> Vec<u8> {
    (0..BYTES).map(|n| (n % 251) as u8).collect()
}

fn file(dir: &Path) -> PathBuf {
    let path = dir.join("file");
    fs::write(&path, data()).expect("write");
    path
}

fn check(offset: usize, bytes: usize) -> Check {
    let checksum = checksum(&data()[offset..offset + bytes]);
    Check { offset: offset as u64, bytes: bytes as u64, checksum }
}

fn extent(offset: usize, bytes: usize, checks: Vec<Check>) -> Extent {
    Extent { offset: offset as u64, bytes: bytes as u64, checks }
}

#[test]
fn overlapping_extents_are_read_in_place() {
    let dir = dir();
    let path = file(dir.path());
    let store = Store::open(Config::new(dir.path(), 8 * FRAME)).expect("open");
    let (first, second) = ((0, 5000), (4096, 2 * FRAME_BYTES));
    let extents =
        [first, second].map(|(offset, bytes)| extent(offset, bytes, vec![check(offset, bytes)])).to_vec();
    let region = store.open_extents(DataFile::open(&path).expect("open"), &path, extents).expect("region");
    fs::remove_file(&path).expect("its name is not needed");
    for (n, (offset, bytes)) in [first, second].into_iter().enumerate() {
        assert_eq!(region.pin(n as u64).expect("pin")[..], data()[offset..offset + bytes]);
    }
}

#[test]
fn a_wrong_byte_is_named_by_its_part() {
    let dir = dir();
    let path = file(dir.path());
    let store = Store::open(Config::new(dir.path(), 8 * FRAME)).expect("open");
    let parts = vec![check(0, 4000), check(4000, 9000), check(13_000, 100)];
    let writer = OpenOptions::new().write(true).open(&path).expect("open");
    writer.write_at(&[255], 12_999).expect("write");
    let opened = DataFile::open(&path).expect("open");
    let region = store.open_extents(opened, &path, vec![extent(0, 13_100, parts)]).expect("region");
    let error = region.pin(0).expect_err("damaged");
    assert!(matches!(error, Error::BadFile { .. }), "{error}");
    assert!(error.to_string().contains("9000 bytes at offset 4000"), "{error}");
    // Right again, it can be read.
    writer.write_at(&data()[12_999..13_000], 12_999).expect("write");
    assert_eq!(region.pin(0).expect("pin")[..], data()[..13_100]);
}

#[test]
fn what_is_no_part_of_the_file_is_refused() {
    let dir = dir();
    let path = file(dir.path());
    let store = Store::open(Config::new(dir.path(), 2 * FRAME)).expect("open");
    let refused = |wrong: Extent| {
        store
            .open_extents(DataFile::open(&path).expect("open"), &path, vec![wrong])
            .expect_err("refused")
            .to_string()
    };
    assert!(refused(extent(0, 0, vec![])).contains("none for 0"));
    assert!(refused(extent(3 * FRAME_BYTES, 4097, vec![])).contains("has 6295552 bytes"));
    assert!(refused(extent(0, usize::MAX, vec![])).contains("none for"));
    assert!(refused(extent(512, 100, vec![])).contains("cannot be a segment"));
    assert!(refused(extent(4096, 100, vec![check(0, 10)])).contains("cannot be a segment"));
    assert!(refused(extent(0, 3 * FRAME_BYTES, vec![])).contains("must be at least 6.0 MiB"));
}
