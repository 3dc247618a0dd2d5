//! Several directories: segments are spread over them, and one that is full, broken or missing is passed over.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use warmset_region::{Config, Error, FRAME_BYTES, Io, Op, Region, Store};

mod support;
use support::{FRAME, Mounted, assert_bytes, bytes, data_files, dir, eventually, fill};

fn over(dirs: &[&Path], frames: u64) -> Config {
    let mut config = Config::new(dirs[0], frames * FRAME);
    config.dirs = dirs.iter().map(PathBuf::from).collect();
    config
}

/// Bytes on disk below each of some directories.
fn bytes_in<const N: usize>(dirs: [&Path; N]) -> [u64; N] {
    dirs.map(|dir| data_files(dir).iter().map(|file| file.metadata().expect("a file").len()).sum())
}

fn assert_filled(region: &Region, segments: u64) {
    for n in (0..segments).chain((0..segments).rev()) {
        assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES);
    }
}

#[test]
fn segments_are_spread_over_two_directories() {
    for io in [Io::Auto, Io::Threads] {
        let (one, other) = (dir(), dir());
        let mut config = over(&[one.path(), other.path(), one.path()], 8);
        config.io = io;
        let store = Store::open(config).expect("open");
        let region = store.create_region().expect("region");
        fill(&region, 48, |_| FRAME_BYTES);
        assert_filled(&region, 48);
        let [on_one, on_other] = bytes_in([one.path(), other.path()]);
        assert!(on_one >= 16 * FRAME && on_other >= 16 * FRAME, "{on_one} and {on_other} bytes");
        assert!(on_one + on_other >= 40 * FRAME);
        let taken = store.stats().flash_bytes;
        assert!(taken >= on_one + on_other, "{taken} bytes are counted");
        assert_eq!(store.region_stats(region.id()).expect("known").file_bytes, taken);

        let path = other.path().join("saved");
        region.save(&path).expect("save");
        drop(region);
        eventually("all space comes back", || store.stats().flash_bytes == 0);
        assert_eq!(bytes_in([one.path(), other.path()]), [0, 0]);
        let saved = store.open_saved(&path).expect("open");
        assert_filled(&saved, 48);
    }
}

#[test]
fn a_full_directory_is_passed_over() {
    let test = "a_full_directory_is_passed_over";
    let Some(small) = Mounted::tmpfs("size=16m", test) else { return };
    let large = dir();
    for dirs in [[small.path(), large.path()], [large.path(), small.path()]] {
        let store = Store::open(over(&dirs, 8)).expect("open");
        let region = store.create_region().expect("region");
        fill(&region, 64, |_| FRAME_BYTES);
        assert_filled(&region, 64);
        let [on_small, on_large] = bytes_in([small.path(), large.path()]);
        assert!(on_small >= 4 * FRAME && on_large >= 40 * FRAME, "{on_small} and {on_large} bytes");
        assert!(!store.writes_fail());
    }
}

#[test]
fn two_full_directories_are_an_error_that_passes() {
    let test = "two_full_directories_are_an_error_that_passes";
    let Some(one) = Mounted::tmpfs("size=16m", test) else { return };
    let Some(other) = Mounted::tmpfs("size=16m", test) else { return };
    let store = Store::open(over(&[one.path(), other.path()], 8)).expect("open");
    let region = store.create_region().expect("region");
    let (written, error) = support::fill_until_full(&region);
    assert!(error.is_no_space(), "{error}");
    assert!(written >= 8 + 10, "{written}: both were used");
    (0..written).for_each(|n| assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES));
    drop(region);
    eventually("space comes back", || store.stats().flash_bytes == 0);
    let region = store.create_region().expect("region");
    fill(&region, 16, |_| FRAME_BYTES);
}

#[test]
fn directories_that_cannot_be_used_are_left_out() {
    let good = dir();
    let missing = good.path().join("missing");
    let mut dirs = vec![missing.as_path(), Path::new("/proc"), good.path()];
    let read_only = Mounted::tmpfs("ro,size=1m", "directories_that_cannot_be_used_are_left_out");
    dirs.extend(read_only.as_ref().map(Mounted::path));
    let store = Store::open(over(&dirs, 8)).expect("one can be used");
    let region = store.create_region().expect("region");
    fill(&region, 24, |_| FRAME_BYTES);
    assert_filled(&region, 24);
    assert!(bytes_in([good.path()])[0] >= 12 * FRAME);

    let error = Store::open(over(&dirs[..2], 8)).expect_err("none can be used");
    assert!(matches!(error, Error::Config { .. }), "{error}");
    let error = error.to_string();
    assert!(error.starts_with("dir: ") && error.contains("missing") && error.contains("/proc"), "{error}");
    let mut config = over(&dirs[..1], 8);
    config.dirs.clear();
    let error = Store::open(config).expect_err("none is named").to_string();
    assert!(error.starts_with("dir: ") && error.contains("no directory"), "{error}");
}

/// Regions that are opened from files need none of the store's own.
#[test]
fn a_store_that_only_reads_takes_a_directory_that_cannot_be_written_to() {
    let open = |dir: &Path| Store::open(Config { reads_only: true, ..Config::new(dir, 8 * FRAME) });
    if let Some(read_only) =
        Mounted::tmpfs("ro,size=1m", "a_store_that_only_reads_takes_a_directory_that_cannot_be_written_to")
    {
        let store = open(read_only.path()).expect("open");
        // What is created all the same works as long as it fits in memory, and is refused when it does not.
        let region = store.create_region().expect("region");
        fill(&region, 2, |_| FRAME_BYTES);
        assert_filled(&region, 2);
    }
    let error = open(Path::new("/missing")).expect_err("there is no such directory").to_string();
    assert!(error.starts_with("dir: ") && error.contains("cannot open /missing"), "{error}");
}

#[test]
fn a_directory_that_goes_away_is_passed_over() {
    let (gone, stays) = (dir(), dir());
    let store = Store::open(over(&[gone.path(), stays.path()], 8)).expect("open");
    drop(gone);
    let region = store.create_region().expect("region");
    fill(&region, 48, |_| FRAME_BYTES);
    assert_filled(&region, 48);
    assert!(bytes_in([stays.path()])[0] >= 40 * FRAME);
}

/// What one directory's disk does not take goes to the other.
#[test]
fn a_write_that_fails_goes_to_another_directory() {
    let (one, other) = (dir(), dir());
    let mut config = over(&[one.path(), other.path()], 8);
    let (turn, failed, works) =
        (AtomicU64::new(0), Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, passed) = (Arc::clone(&failed), Arc::clone(&works));
    // About a third of all writes: so many in a row that a directory is passed over do not come about.
    config.faults = Some(Arc::new(move |op, _, _| {
        let fails = op == Op::Write
            && (turn.fetch_add(1, Ordering::SeqCst).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 3 == 0;
        (fails && !passed.load(Ordering::SeqCst)).then(|| {
            count.fetch_add(1, Ordering::SeqCst);
            io::Error::from_raw_os_error(5)
        })
    }));
    let store = Store::open(config).expect("open");
    let region = store.create_region().expect("region");
    fill(&region, 64, |_| FRAME_BYTES);
    // What is sealed past the pool goes to disk at once, and to the other if the first fails.
    let pins: Vec<_> = (0..8).map(|n| region.pin(n).expect("pin")).collect();
    for n in 64..80 {
        region.write(bytes(n, FRAME_BYTES)).expect("on one of them");
    }
    drop(pins);
    assert!(failed.load(Ordering::SeqCst) >= 10, "{} writes", failed.load(Ordering::SeqCst));
    assert_filled(&region, 80);
    works.store(true, Ordering::SeqCst);
    let file_bytes = store.region_stats(region.id()).expect("known").file_bytes;
    assert!(file_bytes <= 160 * FRAME, "{file_bytes} bytes: given up places are used again");
}
