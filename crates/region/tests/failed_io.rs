//! A disk that takes no writes or gives no bytes back: what that costs, who is told, and that it passes.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use warmset_region::{Config, Error, FRAME_BYTES, Op, Region, Store};

mod support;
use support::{FRAME, StoppingDevice, assert_bytes, bytes, dir, eventually, fill};

/// A device that fails every transfer of one kind while it is told to, and counts how often it was asked to.
struct Device {
    failing: Arc<AtomicBool>,
    failed: Arc<AtomicU64>,
}

impl Device {
    fn failing(config: &mut Config, kind: Op, errno: i32) -> Self {
        let device = Self { failing: Arc::new(AtomicBool::new(true)), failed: Arc::default() };
        let (failing, failed) = (Arc::clone(&device.failing), Arc::clone(&device.failed));
        config.faults = Some(Arc::new(move |op, _, _| {
            (op == kind && failing.load(Ordering::SeqCst)).then(|| {
                failed.fetch_add(1, Ordering::SeqCst);
                io::Error::from_raw_os_error(errno)
            })
        }));
        device
    }
}

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Fills the frames that writers get, and then asks for ten more; the error each time.
fn ten_too_many(region: &Region, frames: u64) -> Vec<Error> {
    // The housekeeper has the last one for a moment, while it faults it in; some are kept for readers.
    eventually("nearly every frame is taken", || {
        let n = region.segments().expect("open");
        region.write(bytes(n, FRAME_BYTES)).is_err() && n >= frames - frames / 4
    });
    std::thread::sleep(Duration::from_millis(50));
    let mut errors = Vec::new();
    while errors.len() < 10 {
        match region.write(bytes(region.segments().expect("open"), FRAME_BYTES)) {
            Ok(_) => errors.clear(),
            Err(error) => errors.push(error),
        }
    }
    errors
}

#[test]
fn a_disk_that_takes_nothing_is_asked_about_a_few_segments_only() {
    const FRAMES: u64 = 160;
    for errno in [ENOSPC, EIO] {
        let dir = dir();
        let mut config = Config::new(dir.path(), FRAMES * FRAME);
        let device = Device::failing(&mut config, Op::Write, errno);
        let store = Store::open(config).expect("open");
        let region = store.create_region().expect("region");
        let began = Instant::now();
        for error in ten_too_many(&region, FRAMES) {
            assert_eq!(error.is_no_space(), errno == ENOSPC, "{error}");
        }
        let (failed, seconds) = (device.failed.load(Ordering::SeqCst), began.elapsed().as_secs());
        // However many could be asked about, and whoever asks: what is in flight twice, and that once a second.
        assert!((1..=32 * (seconds + 1)).contains(&failed), "{failed} writes in {seconds} s");

        device.failing.store(false, Ordering::SeqCst);
        eventually("the disk is tried again", || region.write(bytes(1000, FRAME_BYTES)).is_ok());
        let last = region.segments().expect("open") - 1;
        assert_bytes(&region.pin(last).expect("pin"), 1000, FRAME_BYTES);
        (0..last).for_each(|n| assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES));
    }
}

#[test]
fn a_failure_says_nothing_once_space_has_come_back_since() {
    let dir = dir();
    let mut config = Config::new(dir.path(), 12 * FRAME);
    let device = StoppingDevice::of(&mut config);
    let store = Store::open(config).expect("open");
    let (region, other) = (store.create_region().expect("region"), store.create_region().expect("region"));
    device.arm();
    std::thread::scope(|scope| {
        let filled = scope.spawn(|| fill(&region, 60, |_| FRAME_BYTES));
        device.wait();
        drop(other);
        eventually("its space comes back", || store.stats().regions == 1);
        device.fail(ENOSPC);
        filled.join().expect("the disk takes writes again");
    });
    (0..60).for_each(|n| assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES));
}

#[test]
fn readers_too_find_out_that_the_disk_takes_writes_again() {
    let dir = dir();
    let mut config = Config::new(dir.path(), 12 * FRAME);
    let device = Device::failing(&mut config, Op::Write, EIO);
    let store = Store::open(config).expect("open");
    let (path, region) = (dir.path().join("saved"), store.create_region().expect("region"));
    fill(&region, 4, |_| FRAME_BYTES);
    region.save(&path).expect("not through the queue");
    drop(region);
    eventually("an empty pool", || store.stats().used_bytes == 0);
    let (saved, unwritten) = (store.open_saved(&path).expect("open"), store.create_region().expect("region"));
    while unwritten.write(bytes(unwritten.segments().expect("open"), FRAME_BYTES)).is_ok() {}
    // What writers leave to readers is held.
    let held: Vec<_> =
        (0..12 - unwritten.segments().expect("open")).map(|_| saved.pin(0).expect("pin")).collect();
    let read_all = || (1..4).for_each(|n| assert_bytes(&saved.pin(n).expect("pin"), n, FRAME_BYTES));
    read_all();
    let shown = store.stats().mapped_total;
    assert_eq!(shown, 3, "there are no frames for it");
    device.failing.store(false, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(1100));
    read_all();
    assert_eq!(store.stats().mapped_total, shown, "there are frames again");
    drop(held);
}

/// Counts the store's warnings on the thread that has it as its default.
#[derive(Default)]
struct Warnings(Mutex<Vec<&'static str>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("warmset_region")
    }
    fn event(&self, event: &Event<'_>) {
        self.0.lock().expect("no panic").push(event.metadata().name());
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_full_disk_is_warned_of_once() {
    let dir = dir();
    let mut config = Config::new(dir.path(), 32 * FRAME);
    config.flash_bytes_max = Some(0);
    let store = Store::open(config).expect("open");
    let region = store.create_region().expect("region");
    let warnings = Arc::new(Warnings::default());
    // With a single subscriber, a thread that is not its own and warns first would turn the warning off for all.
    let _another = tracing::Dispatch::new(Warnings::default());
    tracing::subscriber::with_default(Arc::clone(&warnings), || {
        for error in ten_too_many(&region, 32) {
            assert!(error.is_no_space(), "{error}");
        }
    });
    let said = warnings.0.lock().expect("no panic");
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn everyone_who_waits_for_bytes_that_cannot_be_read_is_told() {
    let dir = dir();
    let mut config = Config::new(dir.path(), 8 * FRAME);
    let device = Device::failing(&mut config, Op::Read, EIO);
    let store = Store::open(config).expect("open");
    let region = store.create_region().expect("region");
    fill(&region, 40, |_| FRAME_BYTES);
    let absent = 20;
    let start = Barrier::new(2);
    for _ in 0..50 {
        std::thread::scope(|scope| {
            let readers = [(); 2].map(|()| {
                scope.spawn(|| {
                    start.wait();
                    region.pin(absent).expect_err("not readable")
                })
            });
            for reader in readers {
                let error = reader.join().expect("no panic");
                assert!(matches!(error, Error::Io { .. }), "{error}");
            }
        });
        assert_eq!(store.region_stats(region.id()).expect("known").pins, 0, "no hold is left");
    }
    device.failing.store(false, Ordering::SeqCst);
    (0..40).for_each(|n| assert_bytes(&region.pin(n).expect("the error has passed"), n, FRAME_BYTES));
    drop(region);
    eventually("every frame is given back", || store.stats().used_bytes == 0);
}

#[test]
fn what_the_pool_cannot_hold_empties_it_for_nobody() {
    let dir = dir();
    let mut config = Config::new(dir.path(), 8 * FRAME);
    config.budget_bytes_max = Some(16 * FRAME);
    let store = Store::open(config).expect("open");
    let region = store.create_region().expect("region");
    fill(&region, 8, |_| FRAME_BYTES);
    let jumbo = region.write(bytes(8, 9 * FRAME_BYTES)).expect("through a bounce buffer");
    assert_bytes(&region.pin(jumbo).expect("mapped"), 8, 9 * FRAME_BYTES);
    let stats = store.stats();
    assert_eq!((stats.demotions_total, stats.used_bytes), (0, 8 * FRAME), "all else stays");
    assert_eq!((stats.bounces_total, stats.mapped_total), (1, 1));

    let error = region.draft(17 * FRAME_BYTES).expect_err("never");
    assert!(matches!(error, Error::TooLarge { .. }) && !error.is_no_space(), "{error}");
    assert!(error.to_string().contains("raise `budget_bytes_max`"), "{error}");
    assert_eq!(store.stats().demotions_total, 0);
}

#[test]
fn a_segment_that_could_not_be_written_is_no_more() {
    let dir = dir();
    let mut config = Config::new(dir.path(), 8 * FRAME);
    config.budget_bytes_max = Some(16 * FRAME);
    let device = Device::failing(&mut config, Op::Write, EIO);
    let store = Store::open(config).expect("open");
    let region = store.create_region().expect("region");
    fill(&region, 2, |_| FRAME_BYTES);
    // More than there are bounce buffers.
    for _ in 0..40 {
        let error = region.write(bytes(2, 9 * FRAME_BYTES)).expect_err("the disk takes nothing");
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert_eq!(store.coldest_regions(), [region.id()], "it may be evicted");
    }
    assert_eq!(store.stats().live_bytes, 2 * FRAME);
    device.failing.store(false, Ordering::SeqCst);
    let jumbo = region.write(bytes(2, 9 * FRAME_BYTES)).expect("the error has passed");
    assert_bytes(&region.pin(jumbo).expect("on disk"), 2, 9 * FRAME_BYTES);
}
