//! What a disk may do to cached data: the error is that of the block, never a signal and never wrong bytes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use warmset_region::{Config, Error, FRAME_BYTES, Pin, Region, Store};

mod support;
use support::{FRAME, assert_bytes, bytes, data_files, dir, eventually, fill};

/// A store of four frames whose region of twelve segments has gone to disk, but for the last ones.
fn mostly_on_disk(dir: &Path) -> (Store, Region) {
    let store = Store::open(Config::new(dir, 4 * FRAME)).expect("open");
    let region = store.create_region().expect("region");
    fill(&region, 12, |_| FRAME_BYTES);
    for n in 0..12 {
        assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES);
    }
    (store, region)
}

/// The file and place of bytes on disk.
fn find(dir: &Path, wanted: &[u8]) -> Option<(File, u64)> {
    let mut found = vec![0; wanted.len()];
    data_files(dir).into_iter().find_map(|file| {
        let len = file.metadata().expect("a file").len();
        let offset = (0..len)
            .step_by(4096)
            .find(|&offset| file.read_exact_at(&mut found, offset).is_ok() && found == wanted)?;
        Some((file, offset))
    })
}

/// Changes one bit, by the page cache; the store reads past it.
fn flip(file: &File, offset: u64) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).expect("read");
    file.write_all_at(&[byte[0] ^ 4], offset).expect("write");
    file.sync_all().expect("sync");
}

/// Holds as many segments as there are frames; the rest has to be read beside the pool.
fn hold_all_frames(store: &Store, region: &Region) -> (Vec<Pin>, Vec<u64>) {
    let (mut pins, mut others) = (Vec::new(), Vec::new());
    for n in 0..12 {
        match region.prefetch(n).expect("sealed") {
            Some(prefetch) => pins.push(prefetch.wait().expect("read")),
            None => others.push(n),
        }
    }
    assert_eq!(store.stats().used_bytes, 4 * FRAME);
    assert_eq!((pins.len(), others.len()), (4, 8));
    (pins, others)
}

#[test]
fn a_file_that_is_cut_short_is_an_error_and_no_signal() {
    let dir = dir();
    let (store, region) = mostly_on_disk(dir.path());
    let (pins, others) = hold_all_frames(&store, &region);
    let shown = region.pin(others[0]).expect("read beside the pool");
    assert!(store.stats().window_bytes >= FRAME);
    let files = data_files(dir.path());
    assert_eq!(files.len(), 1, "one region, one file");
    files[0].set_len(0).expect("truncate");
    // What is shown is memory, not the file.
    assert_bytes(&shown, others[0], FRAME_BYTES);
    let error = region.pin(others[1]).expect_err("its bytes are gone");
    assert!(matches!(error, Error::Io { .. }), "{error}");
    drop((shown, pins));
    let error = region.pin(others[1]).expect_err("its bytes are gone");
    assert!(matches!(error, Error::Io { .. }), "{error}");
    eventually("no memory stays beside the pool", || store.stats().window_bytes == 0);
}

#[test]
fn a_wrong_byte_is_an_error_of_its_segment() {
    let dir = dir();
    let (store, region) = mostly_on_disk(dir.path());
    let (bad, (file, offset)) = (0..12)
        .find_map(|n| Some((n, find(dir.path(), &bytes(n, FRAME_BYTES)[..4096])?)))
        .expect("some were written");
    flip(&file, offset + 1_000_000);
    let read_all = || {
        let mut damaged = Vec::new();
        for n in (0..12).rev() {
            match region.pin(n) {
                Ok(pin) => assert_bytes(&pin, n, FRAME_BYTES),
                Err(error) => {
                    assert!(matches!(error, Error::Damaged { .. }), "{error}");
                    assert!(error.to_string().contains("checksum"), "{error}");
                    damaged.push(n);
                }
            }
        }
        damaged
    };
    // It may be resident in the first round.
    let rounds: Vec<_> = (0..3).map(|_| read_all()).collect();
    assert!(rounds.contains(&vec![bad]), "{rounds:?}");
    assert!(rounds.iter().all(|round| round.is_empty() || *round == [bad]), "{rounds:?}");
    let _pins = hold_all_frames_but(&region, bad);
    let error = region.pin(bad).expect_err("read beside the pool, it is as wrong");
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert_eq!(store.region_stats(region.id()).expect("known").pins, 4, "errors leave no hold");
}

fn hold_all_frames_but(region: &Region, damaged: u64) -> Vec<Pin> {
    let others = (0..12).filter(|&n| n != damaged);
    let held = others.filter_map(|n| region.prefetch(n).expect("sealed"));
    held.map(|prefetch| prefetch.wait().expect("read")).collect()
}

#[test]
fn what_went_to_disk_at_once_has_a_checksum_too() {
    let dir = dir();
    let store = Store::open(Config::new(dir.path(), 4 * FRAME)).expect("open");
    let held = store.create_region().expect("region");
    fill(&held, 4, |_| FRAME_BYTES);
    let pins: Vec<_> = (0..4).map(|n| held.pin(n).expect("pin")).collect();
    let region = store.create_region().expect("region");
    let mut draft = region.draft(FRAME_BYTES).expect("a buffer");
    draft[..100_000].copy_from_slice(bytes(7, 100_000));
    draft.seal(100_000).expect("written");
    assert_eq!(store.stats().bounces_total, 1);
    assert_bytes(&region.pin(0).expect("whole"), 7, 100_000);
    let (file, offset) = find(dir.path(), &bytes(7, 100_000)[..4096]).expect("it was written");
    flip(&file, offset + 99_999);
    let error = region.pin(0).expect_err("one bit is wrong");
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    drop(pins);
}
