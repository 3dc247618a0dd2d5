//! The store's promises, one by one, at sizes a test machine has.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use warmset_region::{Config, Error, FRAME_BYTES, Op, PinStart, Store};

mod support;
use support::{FRAME, StoppingDevice, assert_bytes, bytes, dir, eventually, fill, fill_until_full};

#[test]
fn what_fits_is_never_written() {
    let dir = dir();
    let store = Store::open(Config::new(dir.path(), 64 * FRAME)).expect("open");
    let region = store.create_region().expect("region");
    for n in 0..48 {
        assert_eq!(region.write(bytes(n, FRAME_BYTES)).expect("write"), n);
    }
    for n in 0..48 {
        assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES);
    }
    let stats = store.stats();
    assert_eq!((stats.written_bytes_total, stats.read_bytes_total), (0, 0));
    assert_eq!(stats.used_bytes, 48 * FRAME);
}

#[test]
fn what_does_not_fit_comes_back_whole() {
    for io in [warmset_region::Io::Auto, warmset_region::Io::Threads] {
        let dir = dir();
        let mut config = Config::new(dir.path(), 16 * FRAME);
        config.io = io;
        let store = Store::open(config).expect("open");
        let region = store.create_region().expect("region");
        let len = |n: u64| 1 + (n as usize * 40_961) % FRAME_BYTES;
        for n in 0..100 {
            region.write(bytes(n, len(n))).expect("write");
        }
        for n in (0..100).chain((0..100).rev()) {
            assert_bytes(&region.pin(n).expect("pin"), n, len(n));
        }
        let stats = store.stats();
        assert!(stats.used_bytes <= 16 * FRAME);
        assert!(stats.demotions_total > 0 && stats.promotions_total > 0);
        assert_eq!(std::fs::read_dir(dir.path()).expect("dir").count(), 0, "no file has a name");
    }
}

#[test]
fn an_abandoned_draft_gives_its_memory_back() {
    let dir = dir();
    // The last drafts find the pool full of drafts, and lie in bounce buffers.
    let store = Store::open(Config::new(dir.path(), 4 * FRAME)).expect("open");
    let region = store.create_region().expect("region");
    for _ in 0..20 {
        let drafts: Vec<_> = (0..6).map(|_| region.draft(FRAME_BYTES).expect("draft")).collect();
        assert_eq!(store.stats().used_bytes, 4 * FRAME);
        drop(drafts);
        assert_eq!(store.stats().used_bytes, 0);
    }
    assert_eq!(store.stats().segments, 0);
    let refused = region.draft(10).expect("draft").seal(11).expect_err("more than it has");
    assert!(matches!(refused, Error::Misuse(_)), "{refused}");
    assert_eq!(store.stats().used_bytes, 0, "a failed seal abandons, too");
    let index = region.write(bytes(7, FRAME_BYTES)).expect("write");
    assert_bytes(&region.pin(index).expect("pin"), 7, FRAME_BYTES);
    assert!(matches!(region.pin(0), Err(Error::Misuse(_))), "an abandoned segment has no bytes");
}

#[test]
fn a_released_region_gives_everything_back() {
    let dir = dir();
    let store = Store::open(Config::new(dir.path(), 8 * FRAME)).expect("open");
    let region = store.create_region().expect("region");
    for n in 0..40 {
        region.write(bytes(n, FRAME_BYTES)).expect("write");
    }
    let held = region.pin(39).expect("pin");
    drop(region);
    eventually("all but the held segment is freed", || store.stats().segments == 1);
    assert_bytes(&held, 39, FRAME_BYTES);
    drop(held);
    eventually("the held one is freed, and the region with its file", || {
        let stats = store.stats();
        (stats.segments, stats.used_bytes, stats.flash_bytes, stats.regions, stats.live_bytes)
            == (0, 0, 0, 0, 0)
    });
}

#[test]
fn held_frames_are_left_alone_and_writers_bounce() {
    let dir = dir();
    let store = Store::open(Config::new(dir.path(), 4 * FRAME)).expect("open");
    let region = store.create_region().expect("region");
    for n in 0..8 {
        region.write(bytes(n, FRAME_BYTES)).expect("write");
    }
    let pins: Vec<_> = (0..4).map(|n| region.pin(n).expect("pin")).collect();
    assert!(region.prefetch(5).expect("known").is_none(), "no room while all frames are held");
    region.write(bytes(8, 100)).expect("write through a bounce buffer");
    assert_bytes(&region.pin(6).expect("mapped"), 6, FRAME_BYTES);
    for (n, pin) in pins.iter().enumerate() {
        assert_bytes(pin, n as u64, FRAME_BYTES);
    }
    let stats = store.stats();
    assert!(stats.bounces_total >= 1 && stats.mapped_total >= 1);
    drop(pins);
    assert_bytes(&region.pin(8).expect("pin"), 8, 100);
}

#[test]
fn a_jumbo_segment_is_contiguous() {
    let dir = dir();
    let store = Store::open(Config::new(dir.path(), 12 * FRAME)).expect("open");
    let region = store.create_region().expect("region");
    let mut expected = Vec::new();
    for n in 0..24 {
        let len = if n % 3 == 0 { 5 * FRAME_BYTES + 17 } else { FRAME_BYTES / 2 };
        region.write(bytes(n, len)).expect("write");
        expected.push(len);
    }
    for n in (0..24).rev().chain(0..24) {
        assert_bytes(&region.pin(n).expect("pin"), n, expected[n as usize]);
    }
    let too_large = region.write(&vec![0; 13 * FRAME_BYTES]).expect_err("larger than the pool");
    assert!(too_large.to_string().contains("budget_bytes_max"), "{too_large}");
}

#[test]
fn the_budget_follows_at_run_time() {
    let dir = dir();
    let store = Store::open(Config::new(dir.path(), 64 * FRAME)).expect("open");
    let region = store.create_region().expect("region");
    for n in 0..60 {
        region.write(bytes(n, FRAME_BYTES)).expect("write");
    }
    store.set_budget(10 * FRAME).expect("smaller");
    eventually("demotion", || {
        let stats = store.stats();
        stats.used_bytes <= 10 * FRAME && stats.pool_bytes <= 10 * FRAME
    });
    for n in 0..60 {
        assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES);
    }
    store.set_budget(64 * FRAME).expect("larger");
    for _ in 0..2 {
        (0..60).for_each(|n| assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES));
    }
    let before = store.stats().read_bytes_total;
    (0..60).for_each(|n| drop(region.pin(n).expect("pin")));
    assert_eq!(store.stats().read_bytes_total, before, "everything is resident again");
    assert!(store.set_budget(65 * FRAME).is_err(), "beyond the maximum");
    assert!(store.set_budget(0).is_err());
}

#[test]
fn the_reserve_of_the_file_system_is_left_to_others() {
    let dir = dir();
    let mut config = Config::new(dir.path(), 8 * FRAME);
    config.flash_reserve_bytes = 1 << 60;
    let store = Store::open(config).expect("open");
    let region = store.create_region().expect("region");
    let (written, error) = fill_until_full(&region);
    assert!(
        error.is_no_space()
            && error.to_string().contains("1024.0 PiB stay for others (`flash_reserve_bytes`)"),
        "{error}"
    );
    assert_eq!(store.stats().flash_bytes, 0);
    for n in 0..written {
        assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES);
    }
}

#[test]
fn a_full_quota_is_an_error_and_loses_nothing() {
    let dir = dir();
    let mut config = Config::new(dir.path(), 8 * FRAME);
    config.flash_bytes_max = Some(4 * FRAME);
    let store = Store::open(config).expect("open");
    let region = store.create_region().expect("region");
    assert!(!store.writes_fail());
    let (written, error) = fill_until_full(&region);
    assert!(error.is_no_space(), "{error}");
    assert!(store.writes_fail(), "what is in memory alone has to stay there");
    assert!(error.to_string().contains("flash_bytes_max"), "{error}");
    assert!(written >= 8, "{written} fit");
    for n in 0..written {
        assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES);
    }
    drop(region);
    eventually("space comes back", || store.stats().flash_bytes == 0);
    assert!(!store.writes_fail());
    let region = store.create_region().expect("region");
    fill(&region, 8, |_| FRAME_BYTES);
}

#[test]
fn injected_errors_reach_the_caller_and_pass() {
    let dir = dir();
    let failing = Arc::new(AtomicBool::new(false));
    let mut config = Config::new(dir.path(), 8 * FRAME);
    let switch = Arc::clone(&failing);
    config.faults = Some(Arc::new(move |_: Op, _, _| {
        switch.load(Ordering::SeqCst).then(|| std::io::Error::from_raw_os_error(5))
    }));
    let store = Store::open(config).expect("open");
    let region = store.create_region().expect("region");
    fill(&region, 16, |_| FRAME_BYTES);
    failing.store(true, Ordering::SeqCst);
    let mut failures = 0;
    for n in 0..16 {
        match region.pin(n) {
            Ok(pin) => assert_bytes(&pin, n, FRAME_BYTES),
            Err(error) => {
                assert!(matches!(error, Error::Io { .. }), "{error}");
                failures += 1;
            }
        }
    }
    assert!(failures > 0);
    let write_failure = (0..16).find_map(|n| region.write(bytes(n, FRAME_BYTES)).err());
    assert!(matches!(write_failure, Some(Error::Io { .. })), "{write_failure:?}");
    failing.store(false, Ordering::SeqCst);
    for n in 0..16 {
        assert_bytes(&region.pin(n).expect("the error has passed"), n, FRAME_BYTES);
    }
    assert_eq!(store.region_stats(region.id()).expect("known").pins, 0, "no pin is left");
}

#[test]
fn a_release_while_a_bounce_buffer_is_written_waits_for_the_write() {
    let dir = dir();
    let mut config = Config::new(dir.path(), 4 * FRAME);
    let device = StoppingDevice::of(&mut config);
    let store = Store::open(config).expect("open");
    let held = store.create_region().expect("region");
    fill(&held, 4, |_| FRAME_BYTES);
    let pins: Vec<_> = (0..4).map(|n| held.pin(n).expect("pin")).collect();
    let raw = store.raw();
    let region = raw.create_region().expect("region");
    let (segment, _) = raw.reserve(region, FRAME).expect("a bounce buffer");
    assert_eq!(store.stats().bounces_total, 1);
    device.arm();
    std::thread::scope(|scope| {
        // SAFETY: it was reserved above, and nobody writes to it.
        let sealed = scope.spawn(move || unsafe { raw.seal(region, segment, 100) });
        device.wait();
        store.release(region);
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(store.stats().segments, 5, "freed under the transfer");
        device.let_go();
        sealed.join().expect("no panic").expect("written");
    });
    eventually("the released segment goes", || store.stats().segments == 4);
    drop(pins);
}

#[test]
fn an_address_shows_the_bytes_of_its_segment_wherever_they_were() {
    const SEGMENTS: u64 = 300;
    let dir = dir();
    let store = Store::open(Config::new(dir.path(), 8 * FRAME)).expect("open");
    let raw = store.raw();
    let region = raw.create_region().expect("region");
    for n in 0..SEGMENTS {
        let (segment, address) = raw.reserve(region, 5000).expect("reserve");
        assert_eq!(segment, n);
        // SAFETY: these bytes are this writer's until they are sealed below.
        let bytes_there = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, 5000) };
        bytes_there.copy_from_slice(bytes(n, 5000));
        // SAFETY: it was reserved above, and nobody writes to it any more.
        unsafe { raw.seal(region, segment, 5000).expect("seal") };
    }
    let check = |segment, address: usize| {
        // SAFETY: the caller has this segment pinned, and ends that after this look.
        let found = unsafe { std::slice::from_raw_parts(address as *const u8, 5000) };
        assert_bytes(found, segment, 5000);
        // SAFETY: as above.
        unsafe { raw.unpin(region, segment).expect("it was pinned") };
    };
    for n in (0..SEGMENTS).chain((0..SEGMENTS).rev()) {
        check(n, raw.pin(region, n).expect("pin"));
        check(n, raw.pin(region, n).expect("it is resident now"));
    }
    for n in 0..SEGMENTS {
        if raw.pin_start(region, n).expect("sealed") != PinStart::NoRoom {
            // SAFETY: it was pinned just above.
            check(n, unsafe { raw.pin_wait(region, n) }.expect("read"));
        }
    }
    assert_eq!(store.region_stats(region).expect("known").pins, 0);
}

#[test]
fn misuse_is_an_error() {
    let dir = dir();
    let store = Store::open(Config::new(dir.path(), 8 * FRAME)).expect("open");
    let raw = store.raw();
    // SAFETY: there is no such pin to lose.
    assert!(raw.pin(1, 0).is_err() && unsafe { raw.unpin(9, 9) }.is_err());
    store.release(77);
    let region = raw.create_region().expect("region");
    assert!(raw.reserve(region, 0).is_err() && raw.reserve(region, u64::MAX).is_err());
    let (segment, _) = raw.reserve(region, 10).expect("reserve");
    assert!(raw.pin_start(region, segment).is_err(), "unsealed");
    // SAFETY: this test is the segment's only writer and reader, and never looks at its bytes.
    unsafe {
        assert!(raw.unpin(region, segment).is_err(), "the writer's pin is no reader's");
        assert!(raw.seal(region, segment, 11).is_err());
        raw.seal(region, segment, 10).expect("seal");
        assert!(raw.seal(region, segment, 10).is_err(), "sealed twice");
        assert!(raw.unpin(region, segment).is_err() && raw.pin_wait(region, segment).is_err());
        assert_eq!(raw.pin_start(region, segment).expect("start"), PinStart::Ready);
        raw.pin_wait(region, segment).expect("wait");
        raw.unpin(region, segment).expect("unpin");
    }
    store.close();
    assert!(raw.create_region().is_err());
}

/// A prefetch may have to write victims, for which a file is made and disk space found: not on its caller's thread.
#[test]
fn a_prefetch_starts_no_write_itself() {
    let dir = dir();
    let mut config = Config::new(dir.path(), 8 * FRAME);
    let (writers, here) = (Arc::new(Mutex::new(Vec::new())), std::thread::current().id());
    let seen = Arc::clone(&writers);
    config.faults = Some(Arc::new(move |op, _, _| {
        if op == Op::Write {
            seen.lock().expect("no panic").push(std::thread::current().id());
        }
        None
    }));
    let store = Store::open(config).expect("open");
    let other = store.create_region().expect("region");
    fill(&other, 16, |_| FRAME_BYTES);
    let fresh = store.create_region().expect("region");
    fill(&fresh, 6, |_| FRAME_BYTES);
    writers.lock().expect("no panic").clear();
    let mut started = 0;
    for n in (0..16).chain(0..16) {
        started += u64::from(other.prefetch(n).expect("sealed").is_some());
        let is_written = || !writers.lock().expect("no panic").is_empty();
        if started > 0 && is_written() {
            break;
        }
    }
    eventually("victims are written", || !writers.lock().expect("no panic").is_empty());
    assert!(writers.lock().expect("no panic").iter().all(|&thread| thread != here));
}
