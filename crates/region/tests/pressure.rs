//! When every frame is held: writers whose buffer cannot be written, readers who meet at a mapping.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use warmset_region::{Config, Error, FRAME_BYTES, Op, Store};

mod support;
use support::{FRAME, assert_bytes, bytes, dir, eventually, fill};

#[test]
fn a_seal_that_fails_loses_its_segment_only() {
    let dir = dir();
    let failing = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&failing);
    let mut config = Config::new(dir.path(), 4 * FRAME);
    config.faults = Some(Arc::new(move |op: Op, _, _| {
        (op == Op::Write && switch.load(Ordering::SeqCst)).then(|| std::io::Error::from_raw_os_error(5))
    }));
    let store = Store::open(config).expect("open");
    let region = store.create_region().expect("region");
    fill(&region, 8, |_| FRAME_BYTES);
    let pins: Vec<_> = (4..8).map(|n| region.pin(n).expect("pin")).collect();

    failing.store(true, Ordering::SeqCst);
    let raw = store.raw();
    let lost = raw.reserve(region.id(), FRAME).expect("a bounce buffer").0;
    // SAFETY: it was reserved above, and nobody writes to it.
    let error = unsafe { raw.seal(region.id(), lost, FRAME) }.expect_err("the disk fails");
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert!(raw.pin_start(region.id(), lost).is_err(), "what was not sealed is not read");
    for n in 0..4 {
        assert_bytes(&region.pin(n).expect("read while writes fail"), n, FRAME_BYTES);
    }

    failing.store(false, Ordering::SeqCst);
    let next = region.write(bytes(100, 1000)).expect("the region takes more");
    assert_eq!(next, lost + 1);
    drop(pins);
    for n in 0..8 {
        assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES);
    }
    assert_bytes(&region.pin(next).expect("pin"), 100, 1000);
    drop(region);
    eventually("the lost one is freed with the others", || {
        let stats = store.stats();
        (stats.segments, stats.regions, stats.live_bytes, stats.flash_bytes) == (0, 0, 0, 0)
    });
}

#[test]
fn two_readers_show_the_same_absent_segment() {
    let dir = dir();
    let store = Store::open(Config::new(dir.path(), 4 * FRAME)).expect("open");
    let region = store.create_region().expect("region");
    fill(&region, 12, |_| FRAME_BYTES);
    let pins: Vec<_> = (8..12).map(|n| region.pin(n).expect("pin")).collect();
    let start = Barrier::new(2);
    for round in 0..64 {
        let absent = round % 8;
        std::thread::scope(|scope| {
            let readers = [(); 2].map(|()| {
                scope.spawn(|| {
                    start.wait();
                    let pin = region.pin(absent).expect("mapped");
                    assert_bytes(&pin, absent, FRAME_BYTES);
                    let address = pin.as_ptr() as usize;
                    start.wait();
                    address
                })
            });
            let [one, other] = readers.map(|reader| reader.join().expect("a reader"));
            assert_eq!(one, other, "both see the mapping of the faster one");
        });
    }
    let stats = store.stats();
    assert_eq!(stats.mapped_total, 64, "each round, one mapping became the segment's");
    assert_eq!(stats.used_bytes, 4 * FRAME);
    drop(pins);
    for n in 0..12 {
        assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES);
    }
    assert_eq!(store.region_stats(region.id()).expect("known").pins, 0);
}
